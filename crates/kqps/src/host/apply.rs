//! `kqps host apply`: changes settings of this host, with their old values on disk before.

use std::io::BufRead as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use kqps_kernel::interrupts::Interrupts;
use kqps_testbed::words::time;
use kqps_tuning::apply::check;
use kqps_tuning::setting::in_order;
use kqps_tuning::setting::value::{completed, same};
use kqps_tuning::undo::undo_of_the_ended;
use kqps_tuning::{Change, Guard, Held, Journal, Real, System as _, apply, link, plain};
use serde_json::Value;

use super::words::{self, Planned};
use crate::exit::{COULD_NOT, bad_input};
use crate::signals;
use crate::value::parse_some_time;

const EXAMPLES: &str = "\
Examples:
  kqps host apply rps.eth0=0-3 sysctl.net.core.rmem_max=16777216
  kqps host apply irqs.eth0=2 --for nsd -d
  kqps host apply channels.eth0=8 --confirm-within 10s
  kqps host apply --from advice.json --dry-run";

/// Change settings of this host, which `kqps host undo` takes back
///
/// Each old value is on disk before its setting is written, and each setting is read back. If one cannot be set, those
/// before it are undone. docs/TUNING.md lists the settings and their values. Numbers of queues and sizes of rings are
/// set first, since drivers then begin anew with the rest. They take the link down, and so do some other settings
/// (docs/TUNING.md marks them): on the interface of a default route or of an SSH connection they need --confirm-within.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Settings with their values, which are set in this order after those that reset others
    #[arg(value_name = "SETTING=VALUE", required_unless_present = "from")]
    changes: Vec<Change>,
    /// Apply the pieces of this advice, as `kqps host advise --json` prints it
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Print the plain commands, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Undo it all unless a line `yes` comes on standard input within this time
    #[arg(long, value_name = "DURATION", value_parser = parse_some_time, conflicts_with = "dry_run")]
    confirm_within: Option<Duration>,
    /// Run this command with the settings, and undo them when it ends
    #[arg(
        long = "for",
        value_name = "COMMAND",
        num_args = 1..,
        allow_hyphen_values = true,
        conflicts_with_all = ["dry_run", "confirm_within"]
    )]
    for_command: Vec<String>,
}

pub(super) fn run(args: &Args, json: bool) -> anyhow::Result<ExitCode> {
    let mut changes = args.changes.clone();
    if let Some(file) = &args.from {
        changes.extend(of_advice(file)?);
    }
    in_order(&mut changes);
    let system = Real::host();
    check(&system, &changes)?;
    if args.dry_run {
        words::print_planned(planned(&system, &changes), json)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.confirm_within.is_none() {
        link::check(&changes).map_err(|error| bad_input(needs_confirmation(&error)))?;
    }
    let journal = Journal::of_this_boot()?;
    // Half of the settings would be left if a signal ended this process at once.
    let interrupts = signals::in_order();
    if args.confirm_within.is_none() && args.for_command.is_empty() {
        words::print_ended(&undo_of_the_ended(&system, &journal)?);
        let applied = apply(&system, &journal, &changes, None)?;
        words::print_applied(&applied, &journal, true, json)?;
        if interrupts.is_asked() {
            eprintln!("The signal came while it was set, and nothing was taken back.");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let kqps = std::env::current_exe().context("finding the running program")?;
    let guard = Arc::new(Guard::start(&kqps, journal).context("the guard of host settings")?);
    let held = Held::set(Box::new(system), &guard, &changes)?;
    words::print_ended(held.ended());
    words::print_applied(held.applied(), guard.journal(), false, json)?;
    match args.confirm_within {
        Some(within) => confirm(held, within, interrupts),
        None => run_for(held, &args.for_command, interrupts),
    }
}

fn needs_confirmation(error: &link::TakesLinkDown) -> String {
    format!("{error}: it needs --confirm-within, which undoes it unless you answer in time")
}

/// The commands that make the changes, each with the present value.
fn planned(system: &Real, changes: &[Change]) -> Vec<Planned> {
    // A queue that an earlier change brings does not exist yet.
    let parts = changes.iter().flat_map(|one| system.parts(one).unwrap_or_else(|_| vec![one.clone()]));
    let plan = |part: Change| {
        let now = system.read(&part.setting).ok();
        let whole = now.as_ref().map(|now| completed(&part.setting, &part.value, now));
        let value = whole.unwrap_or_else(|| part.value.clone());
        let is_so = now.as_ref().is_some_and(|now| same(&part.setting, now, &value));
        let setting = part.setting.to_string();
        let command = (!is_so).then(|| plain::command(&Change { value: value.clone(), ..part }));
        Planned { setting, now, value, command }
    };
    parts.map(plan).collect()
}

/// The pause between two looks for a signal.
const LOOK: Duration = Duration::from_millis(50);

/// Keeps the settings if the user confirms them in time. If this process ends before, the guard undoes them.
fn confirm(held: Held, within: Duration, interrupts: &Interrupts) -> anyhow::Result<ExitCode> {
    eprintln!("Type yes within {} to keep it.", time(within.as_secs_f64()));
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        // An error and the end of the input are no confirmation.
        let _ = std::io::stdin().lock().read_line(&mut line);
        let _ = sender.send(line);
    });
    let end = Instant::now() + within;
    let answer = loop {
        match receiver.recv_timeout(LOOK.min(end.saturating_duration_since(Instant::now()))) {
            Err(RecvTimeoutError::Timeout) if !interrupts.is_asked() && Instant::now() < end => {}
            answer => break answer,
        }
    };
    if answer.is_ok_and(|line| line.trim() == "yes") {
        held.keep()?;
        eprintln!("Kept. To take it back: kqps host undo");
        return Ok(ExitCode::SUCCESS);
    }
    take_back(held)?;
    eprintln!("It was not confirmed, and is undone.");
    Ok(ExitCode::from(COULD_NOT))
}

/// Undoes the settings, and prints what was left.
fn take_back(held: Held) -> anyhow::Result<()> {
    let undone = held.undo()?;
    for left in &undone.left {
        eprintln!("Left: {left}.");
    }
    words::note(&undone.troubles);
    Ok(())
}

/// Runs a command, and undoes the settings when it ends. Returns its status.
fn run_for(held: Held, words: &[String], interrupts: &Interrupts) -> anyhow::Result<ExitCode> {
    let [program, arguments @ ..] = words else { anyhow::bail!("--for takes a command") };
    if interrupts.is_asked() {
        take_back(held)?;
        return Ok(ExitCode::from(COULD_NOT));
    }
    let cannot_start = || format!("cannot start {program}");
    let mut child = std::process::Command::new(program).args(arguments).spawn().with_context(cannot_start)?;
    // The command gets the signals of the terminal itself, but not those that are sent to this process alone.
    signals::pass_to(Some(child.id()));
    let status = child.wait();
    signals::pass_to(None);
    take_back(held)?;
    let status = status.with_context(|| format!("waiting for {program}"))?;
    Ok(match (status.code(), status.signal()) {
        (Some(0), _) => ExitCode::SUCCESS,
        (Some(code), _) => ExitCode::from(u8::try_from(code).unwrap_or(COULD_NOT)),
        (None, Some(number)) => ExitCode::from(signals::status_of(number)),
        (None, None) => ExitCode::from(COULD_NOT),
    })
}

/// The changes of the pieces of advice in a file, in their order.
fn of_advice(file: &Path) -> anyhow::Result<Vec<Change>> {
    let wrong = |what: String| bad_input(format!("{}: {what}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let advice: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let pieces = [&advice["pieces"], &advice["advice"]["pieces"]].into_iter().find_map(Value::as_array);
    let none = || wrong("it has no pieces of advice: expected what kqps host advise --json prints".into());
    let pieces = pieces.ok_or_else(none)?;
    let pairs = pieces.iter().flat_map(|piece| piece["changes"].as_array().into_iter().flatten());
    let change = |pair: &Value| {
        let words = (pair[0].as_str(), pair[1].as_str());
        let (Some(name), Some(value)) = words else {
            return Err(wrong(format!("{pair} is no setting with a value")));
        };
        Change::read(name, value).map_err(|error| wrong(error.to_string()))
    };
    pairs.map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_for_what_takes_the_link_down_is_named() {
        let (device, way) = ("eth0".into(), "the default route".into());
        let error = link::TakesLinkDown { change: "rings.eth0=512".parse().unwrap(), device, way };
        let text = needs_confirmation(&error);
        assert!(text.starts_with("rings.eth0=rx=512,tx=512 takes down the link of eth0"), "{text}");
        assert!(text.contains("which carries the default route: it needs --confirm-within"), "{text}");
    }

    #[test]
    fn advice_is_read_from_where_it_stands() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("advice.json");
        let changes = r#"[["channels.eth0","combined=8"],["irqs.eth0","0-7"]]"#;
        let pieces = format!(r#"{{"pieces":[{{"changes":{changes}}},{{"changes":[]}}]}}"#);
        for text in [pieces.clone(), format!("{{\"advice\":{pieces}}}")] {
            std::fs::write(&file, text).unwrap();
            let words: Vec<String> = of_advice(&file).unwrap().iter().map(ToString::to_string).collect();
            assert_eq!(words, ["channels.eth0=combined=8", "irqs.eth0=0-7"]);
        }
        for (text, expected) in [
            ("{}", "it has no pieces of advice"),
            (r#"{"pieces":[{"changes":[["rsp.eth0","1"]]}]}"#, "did you mean `rps`?"),
            (r#"{"pieces":[{"changes":["rps.eth0"]}]}"#, "is no setting with a value"),
        ] {
            std::fs::write(&file, text).unwrap();
            let error = of_advice(&file).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
