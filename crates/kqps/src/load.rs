//! `kqps load`: plays queries at a target and accounts for each.

mod flags;
mod progress;
mod target;
mod words;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kqps_dataset::Dataset;
use kqps_kernel::own::is_own;
use kqps_observation::Trial;
use kqps_player::{Arrivals, Control, LoadPlan, Plan, Stop, play};
use kqps_verdict::warning::{self, Effect, Setting, Warning};
use serde::Serialize;

use crate::exit::{REFUSED, bad_input};
use crate::print;
use crate::value::{parse_count, parse_duration, parse_rate};

pub(crate) use flags::{PlayerArgs, open_dataset};
pub(crate) use progress::Shown;
pub(crate) use words::silence;

const EXAMPLES: &str = "\
Examples:
  kqps load 127.0.0.1:5300 -d bench.queries -Q 100k -l 10s
  kqps load 127.0.0.1:5300 -d bench.queries -q 500 -l 5s --json
  kqps load 127.0.0.1:5300 -d bench.queries -Q 50k -n 1 -S 1s --cpus 0 --subject-cpus 1
  kqps load 192.0.2.1 -d bench.queries -Q 10k --allow-target 192.0.2.1 -b 1MiB -t 250ms";

/// Play queries at a target and account for each
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    player: PlayerArgs,

    /// Open loop: send this many queries a second, whatever the subject answers
    #[arg(short = 'Q', long, value_parser = parse_rate, conflicts_with = "outstanding", help_heading = "Load")]
    rate: Option<f64>,

    /// Closed loop: keep this many queries outstanding
    #[arg(short = 'q', long, value_parser = parse_count, help_heading = "Load")]
    outstanding: Option<u64>,

    /// Spacing of an open loop's queries: even or poisson
    #[arg(long, default_value = "even", conflicts_with = "outstanding", help_heading = "Load")]
    arrivals: Arrivals,

    /// Send for this long (default: once through the queries)
    #[arg(short = 'l', long, value_parser = parse_duration, help_heading = "Load")]
    duration: Option<Duration>,

    /// Send all queries this many times
    #[arg(short = 'n', long, value_parser = parse_count, help_heading = "Load")]
    repeat: Option<u64>,

    /// Print a line of statistics this often
    #[arg(short = 'S', long, value_parser = parse_duration, help_heading = "Output")]
    interval: Option<Duration>,

    /// Count the kernel's reasons for dropping packets (takes root, and slows the trial)
    #[arg(long, help_heading = "Output")]
    drop_reasons: bool,

    /// Print the trial as one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// What `--json` prints: the facts, and what they give cause to warn of.
#[derive(Serialize)]
struct Judged<'a> {
    #[serde(flatten)]
    trial: &'a Trial,
    /// Whether a warning refuses the figures: they tell of something else than the subject.
    refused: bool,
    warnings: Vec<Warning>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let load = load_of(args)?;
    let stop = stop_of(args)?;
    let dataset = open_dataset(&args.player)?;
    let plan = Plan { drop_reasons: args.drop_reasons, ..args.player.plan(load, stop)? };
    check_window(&plan)?;
    let shown = Shown { bar: io::stderr().is_terminal() && args.interval.is_none(), every: args.interval };
    let trial = Watcher::new()?.play(&plan, &dataset, shown)?;
    let setting = setting(&args.player, &plan);
    let warnings = warning::of_trial(&trial, &setting).into_iter().map(Warning::with_flags);
    let warnings: Vec<Warning> = warnings.collect();
    let refusal =
        warnings.iter().find(|warning| warning.effect() == Effect::Refuse).map(|warning| warning.code);
    let refused = refusal.is_some();
    if args.json {
        print::json(&Judged { trial: &trial, refused, warnings })?;
    } else {
        print!("{}", words::words(&trial, &warnings, refusal, setting.workers));
    }
    Ok(if refused { ExitCode::from(REFUSED) } else { ExitCode::SUCCESS })
}

/// What is known of the surroundings of a plan's trials. That a target elsewhere is on another host is left to
/// what the trials show.
pub(crate) fn setting(args: &PlayerArgs, plan: &Plan) -> Setting {
    Setting {
        one_host: plan.targets.iter().any(|&target| is_own(target)).then_some(true),
        subject_cpus: plan.subject_cpus.clone(),
        workers: args.subject_workers,
        ..Setting::default()
    }
}

/// Plays trials that a person may watch, and may end early with SIGINT.
pub(crate) struct Watcher {
    stop: Arc<AtomicBool>,
}

impl Watcher {
    /// From here on SIGINT and SIGTERM end the trial; the second one ends the program at once.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))?;
            signal_hook::flag::register(signal, Arc::clone(&stop))?;
        }
        Ok(Self { stop })
    }

    /// Set once the user wants an end.
    pub(crate) fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// Plays one trial.
    pub(crate) fn play(&self, plan: &Plan, dataset: &Dataset, shown: Shown) -> anyhow::Result<Trial> {
        let control = Control { stop: Arc::clone(&self.stop), ..Control::new(plan.threads) };
        Ok(progress::beside(plan, &control.live, shown, || play(plan, dataset, &control))?)
    }
}

fn load_of(args: &Args) -> anyhow::Result<LoadPlan> {
    match (args.rate, args.outstanding) {
        (Some(rate_qps), None) => Ok(LoadPlan::Open { rate_qps, arrivals: args.arrivals }),
        (None, Some(0)) => Err(bad_input("-q 0 would send nothing: at least 1 query must be outstanding")),
        (None, Some(outstanding)) => Ok(LoadPlan::Closed { outstanding }),
        _ => Err(bad_input(
            "say how to load: -Q RATE for an open loop (100k), or -q COUNT for a closed loop (500 outstanding)",
        )),
    }
}

/// A thread without a window would send nothing.
fn check_window(plan: &Plan) -> anyhow::Result<()> {
    match plan.load {
        LoadPlan::Closed { outstanding } if outstanding < plan.threads as u64 => Err(bad_input(format!(
            "-q {outstanding}: each of the {} threads needs a window of 1 at least",
            plan.threads
        ))),
        _ => Ok(()),
    }
}

fn stop_of(args: &Args) -> anyhow::Result<Stop> {
    if args.repeat == Some(0) {
        return Err(bad_input("-n 0 would send nothing"));
    }
    if args.interval == Some(Duration::ZERO) {
        return Err(bad_input("-S 0 would print without end; expected a time between two lines, such as 1s"));
    }
    if args.duration == Some(Duration::ZERO) {
        return Err(bad_input("-l 0 would send nothing"));
    }
    let once = args.duration.is_none().then_some(1);
    Ok(Stop { after: args.duration, passes: args.repeat.or(once) })
}
