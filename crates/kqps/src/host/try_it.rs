//! `kqps host try`: measures whether settings of this host make a subject faster.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use kqps_lab::configured::Configured;
use kqps_observation::factors::name;
use kqps_observation::question::Path;
use kqps_tuning::apply::check;
use kqps_tuning::{Change, Journal, Real, Setting, apply, link};
use kqps_verdict::compare::{Comparison, Outcome};

use super::words;
use crate::compare::{self, AskedExtent, Pair};
use crate::exit::{REFUSED, bad_input};
use crate::run::subjects;
use crate::signals;
use crate::value::{parse_count, parse_duration, parse_rate, parse_seed};

const EXAMPLES: &str = "\
Examples:
  kqps host try sysctl.net.core.netdev_max_backlog=40000 --subject nsd
  kqps host try rps.lo=0-1 --subject 'knot workers=2' --keep
  kqps host try rps.kqps0=0 --subject 'echo path=veth' --blocks 6";

/// Measure whether settings of this host make a subject faster
///
/// Trials without and with the settings take turns, as in `kqps compare`, and the settings are undone after them. They
/// play on this host, over loopback or a path of virtual devices (`path=veth`). No packet passes a network card there, so
/// settings of other devices are refused: measure those with the player on another host, by `kqps run --hosts`. The
/// status is 0 if the subject is faster with them beyond the minimum detectable effect, and 3 if not.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Settings with their values, which are tried together
    #[arg(value_name = "SETTING=VALUE", required = true)]
    changes: Vec<Change>,
    /// The subject: a name or a file, with settings after it, or a command with placeholders
    #[arg(long, value_name = "SUBJECT|COMMAND", default_value = "echo")]
    subject: String,
    /// Keep the settings if they help: until `kqps host undo`
    #[arg(long)]
    keep: bool,
    /// How long it may take: shorter loads first, then as many blocks as fit, 6 at least
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    budget: Option<Duration>,
    /// Blocks, each with two starts without the settings and one with them (default: 10)
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    blocks: Option<u64>,
    /// Load each start for this long, in short trials that take turns (default: 2.6s)
    #[arg(long, value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Play this rate, and compare CPU time per answer and p99 latency
    #[arg(short = 'Q', long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<f64>,
    /// The seed of every random choice (default: another one every time)
    #[arg(long, value_name = "SEED", value_parser = parse_seed)]
    seed: Option<u64>,
    /// The folder of the run (default: TIME-compare in kqps-runs/, if that exists, or ~/.local/share/kqps/runs/)
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// The devices of the two paths.
const LOOPBACK: &str = "lo";
const VETH: &str = kqps_kernel::namespace::veth::DEVICE;

/// Sysctls that let sockets poll the queue of a device.
const POLLING: [&str; 2] = ["net.core.busy_poll", "net.core.busy_read"];

pub(super) fn run(args: &Args, json: bool) -> anyhow::Result<ExitCode> {
    let without = subject(&args.subject)?;
    let is_on_veth = without.factors.path().kind == Some(Path::Veth);
    if !is_on_veth {
        check(&Real::host(), &args.changes)?;
    } else if args.keep {
        return Err(bad_input(
            "--keep: the devices of a veth path vanish with it, so there is nothing to keep",
        ));
    }
    if let Some(why) = args.changes.iter().find_map(|change| why_off_path(change, is_on_veth, &args.subject))
    {
        return Err(bad_input(why));
    }
    link::check(&args.changes).map_err(bad_input)?;
    let with = with_changes(&without, &args.changes)?;
    let sides = [without, with];
    let Args { blocks, budget, duration, rate, .. } = args;
    let extent = AskedExtent { blocks: *blocks, budget: *budget, duration: *duration, rate_qps: *rate };
    let compared = compare::measure(Pair { sides, extent, seed: args.seed, out: args.out.clone() })?;
    compare::print_result(&compared, json)?;
    let is_better = helps(&compared.comparisons);
    compared.report.transpose()?;
    if !is_better {
        eprintln!("The settings do not help beyond what this host can show, and are undone.");
        return Ok(ExitCode::from(REFUSED));
    }
    if signals::in_order().is_asked() {
        eprintln!("The settings help as far as was measured before the interrupt. They are undone.");
    } else if args.keep {
        let journal = Journal::of_this_boot()?;
        words::print_applied(&apply(&Real::host(), &journal, &args.changes, None)?, &journal, true, json)?;
    } else {
        eprintln!("The settings help. They are undone; --keep keeps them.");
    }
    Ok(ExitCode::SUCCESS)
}

/// Why a setting has no effect on trials over a path; `None` if it may have one.
fn why_off_path(change: &Change, is_on_veth: bool, subject: &str) -> Option<String> {
    let on_path = if is_on_veth { VETH } else { LOOPBACK };
    let Change { setting, .. } = change;
    let why = match setting {
        Setting::Irq(_) | Setting::Irqbalance => format!("{on_path} has no interrupts"),
        Setting::Sysctl(name) if POLLING.contains(&name.as_str()) && !is_on_veth => {
            format!("{on_path} has no queue that a socket could poll")
        }
        _ => match setting.device().filter(|device| *device != on_path) {
            Some(device) => format!("no packet passes {device}"),
            None => return None,
        },
    };
    let with = format!("{subject} host.{change}");
    let [without, with] = [subject, &with].map(|words| shlex::try_quote(words).unwrap_or(words.into()));
    Some(format!(
        "{setting}: trials on this host go over {on_path}, and {why}. Measure it with the player on another host. \
         Neither this command nor kqps compare has --hosts, so: kqps run --hosts FILE --subject {without} \
         --subject {with}"
    ))
}

fn subject(text: &str) -> anyhow::Result<Configured> {
    if text.contains('{') {
        let commands = subjects::of_commands(&[text.to_owned()])?;
        return commands.into_iter().next().ok_or_else(|| bad_input("--subject: expected a command"));
    }
    subjects::named(text)
}

/// The subject on a host with these settings.
fn with_changes(subject: &Configured, changes: &[Change]) -> anyhow::Result<Configured> {
    let mut with = subject.clone();
    for Change { setting, value } in changes {
        with.factors.set(&format!("{}{setting}", name::HOST), value.as_str()).map_err(bad_input)?;
    }
    let words: Vec<String> = changes.iter().map(ToString::to_string).collect();
    with.name = format!("{} with {}", subject.name, words.join(" "));
    Ok(with)
}

/// Whether a figure is better beyond the MDE, and none is worse.
fn helps(comparisons: &[Comparison]) -> bool {
    let is_beyond = |one: &Comparison| {
        let by = one.ratio.map(|ratio| (ratio.median - 1.0).abs());
        one.outcome == Outcome::Faster && by.zip(one.mde).is_some_and(|(by, mde)| by > mde)
    };
    comparisons.iter().any(is_beyond) && comparisons.iter().all(|one| one.outcome != Outcome::Slower)
}

#[cfg(test)]
mod tests {
    use kqps_lab::configured::with_names_of_their_own;
    use kqps_verdict::compare::{Case, Figure, compare};

    use super::*;

    fn case(figure: Figure, share: f64, noise: f64) -> Case {
        let around =
            |middle: f64| (0..6).map(|block| middle * (1.0 + noise * f64::from(block % 2))).collect();
        Case { figure, blocks: around(share), same: around(1.0), ..Case::default() }
    }

    #[test]
    fn settings_help_if_a_figure_is_better_beyond_the_mde_and_none_is_worse() {
        let helps = |cases: &[Case]| helps(&compare(cases));
        assert!(helps(&[case(Figure::AnsweredRate, 1.05, 1e-3)]));
        assert!(!helps(&[case(Figure::AnsweredRate, 1.0, 1e-3)]), "a placebo");
        assert!(!helps(&[case(Figure::AnsweredRate, 0.95, 1e-3)]));
        assert!(!helps(&[case(Figure::AnsweredRate, 1.05, 0.2)]), "less than this host can show");
        let cheaper = case(Figure::CpuPerAnswer, 0.9, 1e-3);
        assert!(helps(&[cheaper.clone(), case(Figure::P99Latency, 1.0, 1e-3)]));
        assert!(!helps(&[cheaper, case(Figure::P99Latency, 1.2, 1e-3)]));
    }

    #[test]
    fn settings_that_no_packet_of_a_trial_meets_are_refused() {
        let why = |word: &str, is_on_veth| why_off_path(&word.parse().unwrap(), is_on_veth, "nsd");
        for (word, is_on_veth) in [
            ("rps.lo=0", false),
            ("rps.kqps0=0", true),
            ("sysctl.net.core.netdev_max_backlog=9", false),
            ("sysctl.net.core.busy_read=50", true),
            ("governor=performance", false),
        ] {
            assert_eq!(why(word, is_on_veth), None, "{word}");
        }
        for (word, is_on_veth, expected) in [
            ("irqs.eth0=2", false, "over lo, and no packet passes eth0"),
            ("rps.lo=0", true, "over kqps0, and no packet passes lo"),
            ("irq.45=2", true, "over kqps0, and kqps0 has no interrupts"),
            ("sysctl.net.core.busy_read=50", false, "no queue that a socket could poll"),
            ("coalesce.eth0=rx-usecs=75", false, "'nsd host.coalesce.eth0=rx-usecs=75'"),
        ] {
            let why = why(word, is_on_veth).unwrap();
            assert!(why.contains(expected) && why.contains("kqps run --hosts"), "{word}: {why}");
        }
        let subject = "it's {address}";
        let why = why_off_path(&"rings.eth0=9".parse().unwrap(), false, subject).unwrap();
        let (_, command) = why.split_once("so: ").unwrap();
        let words = shlex::split(command).unwrap();
        assert_eq!(words[5], subject, "a shell reads it as it was typed");
        assert_eq!(words[7..], [format!("{subject} host.rings.eth0=rx=9,tx=9")]);
    }

    #[test]
    fn one_subject_has_two_cells() {
        let without = subject("echo path=veth").unwrap();
        let with = with_changes(&without, &["rps.kqps0=0".parse().unwrap()]).unwrap();
        assert_eq!(with.name, "echo path=veth with rps.kqps0=0");
        assert_eq!(with.factors.host_settings()["rps.kqps0"], "0");
        let sides = with_names_of_their_own(vec![without, with]);
        assert_eq!(sides[0].definition, sides[1].definition);
    }
}
