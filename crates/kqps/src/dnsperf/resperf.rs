//! `kqps resperf`, which is also kqps called by the name `resperf` or `resperf-report`: resperf's command line, played and
//! accounted for by kqps. Its lines of output and its plot file come first and in its order, and those of kqps follow.

mod command;
mod ending;
mod result;
mod usage;

use std::ffi::OsString;
use std::fs;
use std::process::ExitCode;
use std::sync::Arc;

use kqps_catalogue::course::Course;
use kqps_dataset::Dataset;
use kqps_host::{PlayerWatched, Watch};
use kqps_observation::Trial;
use kqps_player::{Arrivals, Control, Live, LoadPlan, MomentsPlan, Plan, Stop, play};
use kqps_report::LoadInput;

use super::log::{Log, stamp};
use super::plan::{Planned, planned};
use super::queries::{self, Opened};
use super::statistics::Counts;
use super::{FAILED, own_words, status};
use crate::load::keep::page_of;
use crate::run::repeat;
use crate::{signals, statuses, stored};
use command::{Command, PLOT_FILE, Parsed, parse};
use ending::{Ending, Watched};
use result::Maximum;

/// The name by which kqps is resperf.
pub(super) const NAME: &str = "resperf";

/// The name by which kqps is resperf's script that writes a page.
pub(super) const REPORT: &str = "resperf-report";

/// How late a query may be. The test ends by the number of late queries instead.
const LAG_ALLOWED: std::time::Duration = std::time::Duration::from_mins(1);

/// The most intervals of a plot. If a test has more, each two become one.
const INTERVALS_MOST: usize = 1 << 16;

const EXAMPLES: &str = "\
Examples:
  kqps resperf -s 127.0.0.1 -p 5300 -d bench.queries -m 50000 -r 10 -R
  kqps resperf -s 127.0.0.1 -p 5300 -d bench.queries -m 10000 -r 0 -c 60 -R
  kqps resperf -h";

/// Run resperf's command line, with its output and what kqps adds
///
/// All flags of resperf 2.15 are taken, with their meanings and defaults; -h lists them. A link to kqps that is called
/// resperf behaves alike, and one that is called resperf-report writes a page as well. docs/RESPERF.md says what differs.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct Args {
    /// The flags of resperf
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "FLAGS")]
    words: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    main(&args.words, None)
}

/// The files of a report, which are called by the minute.
pub(super) fn report(words: &[OsString]) -> ExitCode {
    main(words, Some(&stamp()))
}

/// Runs a command line of resperf. With a name for a report, the output goes into files of that name.
pub(super) fn main(words: &[OsString], report: Option<&str>) -> ExitCode {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    print!("DNS Resolution Performance Testing Tool\nVersion {}\n\n", usage::VERSION);
    let mut command = match parse(&words) {
        Ok(Parsed::Run(command)) => command,
        Ok(Parsed::Help(text)) => {
            eprint!("{text}");
            if words.iter().any(|word| word == "--help") {
                eprint!("\n{EXAMPLES}\n\n{}\n", statuses::section(NAME));
            }
            return ExitCode::SUCCESS;
        }
        Err(fault) => {
            eprint!("{fault}");
            return ExitCode::from(FAILED);
        }
    };
    // As with the script, a file of -P takes the place of the report's.
    if let Some(name) = report.filter(|_| command.plot_file == PLOT_FILE) {
        command.plot_file = format!("{name}.gnuplot");
    }
    let log = Log { to_stdout: command.base.log_to_stdout };
    match measured(&command, &words, (log, report)) {
        Ok(status) => status,
        Err(error) => {
            match error.downcast_ref::<super::Fault>() {
                Some(_) => eprint!("{error}"),
                None => log.error(&format!("{error:#}")),
            }
            ExitCode::from(FAILED)
        }
    }
}

/// Plays the test, writes the plot, and prints the statistics.
fn measured(
    command: &Command,
    words: &[String],
    (log, report): (Log, Option<&str>),
) -> anyhow::Result<ExitCode> {
    let source = queries::source(&command.base)?;
    let Planned { plan, subject, args } = planned(&command.base)?;
    let course = command.course()?;
    let planned = Planned { plan: rising(command, &course, plan), subject, args };
    println!("[Status] Command line: {NAME} {}", words.join(" "));
    let dataset = match queries::open(&command.base, source, log)? {
        Opened::Queries(dataset) => dataset,
        Opened::NoGoodLine => anyhow::bail!("ran out of query data"),
    };
    planned.plan.check_against(&dataset)?;
    println!("[Status] Sending");
    let (trial, ending) = played(command, (&planned, &course), &dataset)?;
    println!("[Status] Testing complete");
    let plot = result::plot(command, &course, &trial.moments);
    fs::write(&command.plot_file, plot)
        .map_err(|error| anyhow::anyhow!("could not open {}: {error}", command.plot_file))?;
    let maximum = Maximum::from_moments(&trial.moments, command.max_loss);
    let counts = Counts::of_whole(&trial);
    let statistics = result::text(&counts, maximum, reconnections(&trial));
    let limit = result::limit(&trial, maximum, ending);
    let text = format!("{statistics}\n{}", own_words(&trial, &planned, vec![limit + "."]));
    print!("{text}");
    if let Some(name) = report {
        write_report(name, trial, &text)?;
    }
    Ok(status())
}

/// The plan of the test, whose rate rises whatever the server answers.
fn rising(command: &Command, course: &Course, plan: Plan) -> Plan {
    let load = LoadPlan::Open { rate_qps: command.max_qps as f64, arrivals: Arrivals::Even, window: None };
    let passes = if command.reopens { None } else { Some(1) };
    Plan {
        load,
        course: Some(course.clone()),
        stop: Stop { after: Some(command.sending()), passes },
        lag_allowed: LAG_ALLOWED,
        moments: Some(MomentsPlan { width: command.plot_interval, most: INTERVALS_MOST }),
        ..plan
    }
}

/// Plays the test until its time is over, or until something ends it earlier.
fn played(
    command: &Command,
    (planned, course): (&Planned, &Course),
    dataset: &Dataset,
) -> anyhow::Result<(Trial, Option<Ending>)> {
    let plan = &planned.plan;
    let live = Arc::new(Live::new(plan.threads));
    let control = Control { live: Arc::clone(&live), ..Control::new(plan.threads) };
    let watched =
        Watched { command, course, stop: &control.stop, interrupts: signals::in_order(), live: &live };
    let (trial, ending) = watched.during(|| {
        let watch = |player: &PlayerWatched| Watch::begin(player, &planned.subject);
        play(plan, dataset, &control, watch)
    });
    let trial = trial?;
    let all = dataset.queries();
    let ran_out = !command.reopens && !trial.interrupted && trial.accounts.intended >= all;
    anyhow::ensure!(!ran_out, "ran out of query data: -R reads the file again");
    Ok((trial, ending))
}

/// Connections that were made after others had ended.
fn reconnections(trial: &Trial) -> u64 {
    let connections = trial.connections.as_ref();
    connections.map_or(0, |connections| {
        connections.established.saturating_sub(u64::from(trial.players.first.sockets))
    })
}

/// Writes the output and the page of a report, beside the plot.
fn write_report(name: &str, trial: Trial, printed: &str) -> anyhow::Result<()> {
    stored::write(format!("{name}.output").as_ref(), printed)?;
    let load = LoadInput {
        name: format!("{NAME} {name}"),
        command: repeat::typed().collect(),
        printed: printed.to_owned(),
        trial,
    };
    stored::write(format!("{name}.html").as_ref(), &page_of(&[load]))?;
    eprintln!("Done, report is in {name}.html");
    Ok(())
}
