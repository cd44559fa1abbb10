//! `kqps dnsperf`, which is also kqps called by the name `dnsperf`: dnsperf's command line, played and accounted for by
//! kqps. Its lines of output come first and in its order, and those of kqps follow.
//!
//! The command line is read as dnsperf reads it, so that its errors have the same words and statuses.

mod command;
mod getopt;
mod json;
mod live_output;
mod log;
mod notes;
mod plan;
mod queries;
pub(crate) mod resperf;
mod statistics;
mod usage;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, mpsc};

use kqps_host::{PlayerWatched, Watch};
use kqps_observation::Trial;
use kqps_player::reports::Reports;
use kqps_player::{Control, Live, play};
use kqps_verdict::silence::silence;
use kqps_verdict::warning::of_trial;

use crate::load::after_statistics;
use crate::{signals, statuses};
use command::{Command, Fault, Parsed, parse};
use live_output::Beside;
use log::Log;
use notes::notes;
use plan::{Planned, planned};
use queries::{Opened, QueryText};
use statistics::{Counts, Ended};

/// The name by which kqps is dnsperf.
const NAME: &str = "dnsperf";

/// The reports of single queries that may wait to be printed.
const REPORTS_WAITING_MOST: usize = 1 << 18;

/// The status of every error, as dnsperf's.
const FAILED: u8 = 1;

const EXAMPLES: &str = "\
Examples:
  kqps dnsperf -s 127.0.0.1 -p 5300 -d bench.queries -l 10 -Q 1000
  kqps dnsperf -s 127.0.0.1 -p 5300 -d bench.queries -m tcp -c 10 -q 500
  kqps dnsperf -H";

/// Run dnsperf's command line, with its output and what kqps adds
///
/// All flags of dnsperf 2.15 are taken, with their meanings and defaults; -h lists them. A link to kqps that is called
/// dnsperf behaves alike. docs/DNSPERF.md says what differs.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct Args {
    /// The flags of dnsperf
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS")]
    words: Vec<OsString>,
}

/// A program that kqps is when it is called by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Dnsperf,
    Resperf,
    /// The script that writes a page of a test of resperf.
    ResperfReport,
}

impl Program {
    /// The program of this name.
    fn named(name: &OsStr) -> Option<Self> {
        match name.to_str()? {
            NAME => Some(Self::Dnsperf),
            resperf::NAME => Some(Self::Resperf),
            resperf::REPORT => Some(Self::ResperfReport),
            _ => None,
        }
    }

    /// Runs a command line of the program.
    pub(crate) fn main(self, words: &[OsString]) -> ExitCode {
        match self {
            Self::Dnsperf => main(words),
            Self::Resperf => resperf::main(words, None),
            Self::ResperfReport => resperf::report(words),
        }
    }
}

/// The other program that kqps is called as or asked to be, with its flags. They are taken before any other parser sees
/// them: `-h` and `--` are that program's.
pub(crate) fn called(mut words: impl Iterator<Item = OsString>) -> Option<(Program, Vec<OsString>)> {
    let name = words.next()?;
    let by_name = Program::named(Path::new(&name).file_name()?);
    let program = by_name.or_else(|| Program::named(&words.next()?))?;
    Some((program, words.collect()))
}

pub(crate) fn run(args: &Args) -> ExitCode {
    main(&args.words)
}

/// Runs a command line of dnsperf.
pub(crate) fn main(words: &[OsString]) -> ExitCode {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let parsed = parse(&words);
    // With -j the output is JSON alone.
    if !matches!(&parsed, Ok(Parsed::Run(command)) if command.json) {
        print!("DNS Performance Testing Tool\nVersion {}\n\n", usage::VERSION);
    }
    let command = match parsed {
        Ok(Parsed::Run(command)) => command,
        Ok(Parsed::Help(text)) => {
            eprint!("{text}");
            return ExitCode::SUCCESS;
        }
        Ok(Parsed::LongHelp) => {
            let statuses = statuses::section(NAME);
            print!("{}\n{}\n{EXAMPLES}\n\n{statuses}\n", usage::USAGE, usage::LONG);
            return ExitCode::SUCCESS;
        }
        Err(fault) => {
            eprint!("{fault}");
            return ExitCode::from(FAILED);
        }
    };
    let log = Log { to_stdout: command.log_to_stdout };
    match measured(&command, &words, log) {
        Ok(status) => status,
        Err(error) if error.is::<Fault>() => {
            eprint!("{error}");
            ExitCode::from(FAILED)
        }
        Err(error) => {
            log.error(&format!("{error:#}"));
            ExitCode::from(FAILED)
        }
    }
}

/// Plays what the command line asks for, and prints what came of it.
fn measured(command: &Command, words: &[String], log: Log) -> anyhow::Result<ExitCode> {
    let source = queries::source(command)?;
    for warning in command.adjustments() {
        log.warning(&warning);
    }
    let planned = planned(command)?;
    announce(command, words, &planned);
    let dataset = match queries::open(command, source, log)? {
        Opened::Queries(dataset) => dataset,
        Opened::NoGoodLine => {
            conclude(command, &Counts::nothing(), Ended::Input);
            return Ok(ExitCode::SUCCESS);
        }
    };
    let plan = &planned.plan;
    plan.check_against(&dataset)?;
    let has_reports = command.verbose || !command.suppressed.timeouts;
    let (to, reported) = mpsc::sync_channel(if has_reports { REPORTS_WAITING_MOST } else { 1 });
    let missed: Arc<AtomicU64> = Arc::default();
    let reports = Reports { to: to.clone(), missed: Arc::clone(&missed), replies: command.verbose };
    let live = Arc::new(Live::detailed(plan.threads));
    let control = Control {
        live: Arc::clone(&live),
        reports: has_reports.then_some(reports),
        ..Control::new(plan.threads)
    };
    let stop = control.stop.clone();
    let beside = Beside {
        command,
        stop: &stop,
        interrupts: signals::in_order(),
        live: &live,
        text: QueryText { command, dataset: &dataset },
    };
    let trial = beside.during(reported, || {
        let watch = |player: &PlayerWatched| Watch::begin(player, &planned.subject);
        let trial = play(plan, &dataset, &control, watch);
        // The reader ends with the last sender.
        drop((control, to));
        trial
    })?;
    let ended = Ended::from_trial(&trial, command, dataset.queries());
    for line in statistics::failures(command, &trial.send_failed_causes) {
        log.warning(&line);
    }
    let counts = Counts::from_trial(&trial, live.snapshot().detail.unwrap_or_default());
    conclude(command, &counts, ended);
    let own = own(command, &trial, &planned, missed.load(Relaxed));
    if command.json {
        eprint!("{own}");
    } else {
        print!("{own}");
    }
    Ok(status())
}

/// Prints what is asked for, before it is played.
fn announce(command: &Command, words: &[String], planned: &Planned) {
    let server = planned.plan.targets[0];
    if command.json {
        println!("{}", json::start(words, &server.to_string(), log::unix_s()));
        return;
    }
    println!("[Status] Command line: {NAME} {}", words.join(" "));
    let units = if command.updates { "updates" } else { "queries" };
    println!("[Status] Sending {units} (to {server})");
    println!("[Status] Started at: {}", log::started_at());
    println!("[Status] Stopping after {}", command.stopping_after());
}

/// Prints what came of a run.
fn conclude(command: &Command, counts: &Counts, ended: Ended) {
    if command.json {
        println!("{}", json::stop(ended));
        println!("{}", json::statistics(command, counts));
    } else {
        print!("{}", statistics::text(command, counts, ended));
    }
}

/// Text that kqps adds: notes on what the flags leave out of the figures, the accounts, and warnings. `missed` is how
/// many lines about single queries were not printed.
fn own(command: &Command, trial: &Trial, planned: &Planned, missed: u64) -> String {
    own_words(trial, planned, notes(command, trial, missed))
}

/// Text that kqps adds, with these notes.
fn own_words(trial: &Trial, planned: &Planned, mut notes: Vec<String>) -> String {
    let surroundings = planned.surroundings();
    let warnings = of_trial(trial, &surroundings);
    if let Some(silence) = silence(trial).filter(|_| !trial.interrupted) {
        notes.insert(0, format!("{silence}."));
    }
    let notes: Vec<String> = notes.iter().map(|note| format!("  Note: {note}\n")).collect();
    format!(
        "What kqps {} adds:\n\n{}\n{}",
        env!("CARGO_PKG_VERSION"),
        notes.concat(),
        after_statistics(trial, &warnings, None)
    )
}

/// The status at the end. SIGINT ends a run early and in order, as with dnsperf. Other signals would have ended
/// dnsperf.
fn status() -> ExitCode {
    match signals::first() {
        None | Some(signals::INTERRUPT) => ExitCode::SUCCESS,
        Some(number) => ExitCode::from(signals::status_of(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kqps_is_another_program_by_its_name_and_by_its_command() {
        let called = |words: &[&str]| called(words.iter().map(OsString::from));
        let flags =
            |program, flags: &[&str]| Some((program, flags.iter().map(OsString::from).collect::<Vec<_>>()));
        assert_eq!(called(&["/usr/local/bin/dnsperf", "-s", "::1"]), flags(Program::Dnsperf, &["-s", "::1"]));
        assert_eq!(called(&["kqps", "dnsperf", "-h"]), flags(Program::Dnsperf, &["-h"]));
        assert_eq!(called(&["dnsperf"]), flags(Program::Dnsperf, &[]));
        assert_eq!(called(&["resperf", "x"]), flags(Program::Resperf, &["x"]));
        assert_eq!(called(&["./resperf-report", "-R"]), flags(Program::ResperfReport, &["-R"]));
        for other in [&["kqps", "load"][..], &["kqps"], &[], &["perf", "x"]] {
            assert_eq!(called(other), None, "{other:?}");
        }
    }
}
