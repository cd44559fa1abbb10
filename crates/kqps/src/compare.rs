//! `kqps compare`: faster, slower, the same, or cannot tell yet. Of two subjects that are started for it, of the
//! cells of a stored run, or of two stored runs.

mod condition;
mod live;
mod stored;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::ArgGroup;
use kqps_verdict::compare::Comparison;
use serde::Serialize;

use crate::exit;
use crate::print;
use crate::value::{parse_count, parse_duration, parse_rate};
use condition::Condition;

const EXAMPLES: &str = "\
Examples:
  kqps compare --a nsd --b knot
  kqps compare --a 'old-server -p {port} -z {zone}' --b 'new-server -p {port} -z {zone}' --fail-on slower:2%
  kqps compare kqps-runs/mine --factor io=blocking,mmsg
  kqps compare kqps-runs/before kqps-runs/after";

/// Compare two subjects: faster, slower, the same, or cannot tell yet
///
/// With --a and --b kqps starts both in turn, A against itself first, which shows what this host can tell apart. Of one
/// stored run it compares two cells, or those that differ in one factor only. Of two stored runs it compares the cells of
/// the same name, and names all else that differs between the runs.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("what").args(["runs", "a", "resume"]).multiple(true).required(true))]
pub(crate) struct Args {
    /// One stored run, or two
    #[arg(value_name = "DIR", num_args = 0..=2)]
    runs: Vec<PathBuf>,

    /// What B is compared with: a subject's name, its file or its command, or a cell of a stored run
    #[arg(long, value_name = "SUBJECT|COMMAND|CELL", requires = "b", help_heading = "Subjects")]
    a: Option<String>,

    /// What is judged, named in the same ways
    #[arg(long, value_name = "SUBJECT|COMMAND|CELL", requires = "a", help_heading = "Subjects")]
    b: Option<String>,

    /// Compare cells that differ in this factor only: all of its values, or these two
    #[arg(
        long,
        value_name = "NAME[=A,B]",
        requires = "runs",
        conflicts_with = "a",
        help_heading = "Stored runs"
    )]
    factor: Option<String>,

    #[command(flatten)]
    live: LiveArgs,

    /// End with status 3 if a verdict is faster, slower, different or inconclusive (repeatable)
    ///
    /// With a share, such as slower:2%, only if it is certainly so by that much: the whole interval lies beyond it. Where
    /// nothing could be shown only inconclusive holds; give both in a CI that must not pass then.
    #[arg(long, value_name = "VERDICT[:PERCENT]", help_heading = "Output")]
    fail_on: Vec<Condition>,

    /// Print each comparison as one JSON object in a line
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// How subjects are measured that are started for a comparison.
#[derive(clap::Args)]
struct LiveArgs {
    /// ABBA blocks, each four starts; as many of A against itself come first (default: 6)
    #[arg(long, value_parser = parse_count, conflicts_with = "runs", help_heading = "Load")]
    blocks: Option<u64>,

    /// Load each start for this long (default: 1s)
    #[arg(long, value_parser = parse_duration, conflicts_with = "runs", help_heading = "Load")]
    duration: Option<Duration>,

    /// Closed loop: keep this many queries outstanding, and compare answered rates (default: 500)
    #[arg(short = 'q', long, value_name = "COUNT", value_parser = parse_count, conflicts_with_all = ["runs", "rate"], help_heading = "Load")]
    outstanding: Option<u64>,

    /// Open loop: play this rate, and compare CPU time per answer and p99 latency
    #[arg(short = 'Q', long, value_name = "RATE", value_parser = parse_rate, conflicts_with = "runs", help_heading = "Load")]
    rate: Option<f64>,

    /// Workers of each subject (default: 1)
    #[arg(long, value_parser = parse_count, conflicts_with = "runs", help_heading = "Subjects")]
    workers: Option<u64>,

    /// Records of the generated zone (default: 10k)
    #[arg(long, value_parser = parse_count, conflicts_with = "runs", help_heading = "Subjects")]
    records: Option<u64>,

    /// The seed of every random choice (default: another one every time)
    #[arg(long, conflicts_with = "runs", help_heading = "The run")]
    seed: Option<u64>,

    /// The folder of the run (default: kqps-runs/TIME-compare)
    #[arg(long, value_name = "DIR", conflicts_with = "runs", help_heading = "The run")]
    out: Option<PathBuf>,

    /// Go on with the comparison in --out
    #[arg(
        long,
        requires = "out",
        conflicts_with_all = ["runs", "a", "blocks", "duration", "outstanding", "rate", "workers", "records", "seed"]
    , help_heading = "The run")]
    resume: bool,
}

/// What was compared.
#[derive(Default)]
struct Compared {
    comparisons: Vec<Comparison>,
    /// The page with all trials, where a run was made for it, or why it could not be written.
    report: Option<anyhow::Result<PathBuf>>,
    /// Cells that two runs have in common and that cannot be compared, and why; each a sentence without its full stop.
    left_out: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let compared = match args.runs.as_slice() {
        [] => match live::compare(args)? {
            Some(compared) => compared,
            None => return Ok(ExitCode::FAILURE),
        },
        [run] => stored::within(run, args)?,
        [a, b, ..] => stored::between(a, b, args)?,
    };
    for reason in &compared.left_out {
        eprintln!("Left out: {reason}.");
    }
    tell(&compared, args.json)?;
    compared.report.transpose()?;
    let met: Vec<&Condition> = args
        .fail_on
        .iter()
        .filter(|condition| compared.comparisons.iter().any(|it| condition.holds(it)))
        .collect();
    for condition in &met {
        eprintln!("--fail-on {condition} holds.");
    }
    let (comparisons, conditions) = (&compared.comparisons, &args.fail_on);
    let warnings =
        [words::nothing_shown(comparisons, conditions), words::too_coarse(comparisons, conditions)];
    for warning in warnings.into_iter().flatten() {
        eprintln!("{warning}");
    }
    Ok(if met.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(exit::REFUSED) })
}

fn tell(compared: &Compared, json: bool) -> anyhow::Result<()> {
    if !json {
        let report = compared.report.as_ref().and_then(|report| report.as_deref().ok());
        print!("{}", words::of(&compared.comparisons, report));
        return Ok(());
    }
    for comparison in &compared.comparisons {
        print::json(&Told { schema: kqps_observation::SCHEMA, kind: "comparison", comparison })?;
    }
    Ok(())
}

/// What `--json` prints of each comparison.
#[derive(Serialize)]
struct Told<'a> {
    schema: u32,
    kind: &'static str,
    #[serde(flatten)]
    comparison: &'a Comparison,
}
