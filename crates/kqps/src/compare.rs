//! `kqps compare`: faster, slower, the same, or inconclusive. It compares two subjects that it starts, cells
//! of one stored run, or two stored runs.

mod condition;
mod extent;
mod live;
mod sides;
mod stored;
mod table;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::ArgGroup;
use kqps_verdict::compare::Comparison;
use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::{self, bad_input};
use crate::load::Allowed;
use crate::print;
use crate::run::connections::TargetFlags;
use crate::value::{parse_count, parse_duration, parse_rate, parse_seconds, parse_seed};
pub(crate) use condition::Condition;
pub(crate) use extent::AskedExtent;
pub(crate) use live::{Pair, measure};

const EXAMPLES: &str = "\
Examples:
  kqps compare --a nsd --b knot --fail-on slower:2%
  kqps compare --a './old -p {port} -z {zone}' --b './new -p {port} -z {zone}'
  kqps compare kqps-runs/mine --factor io=blocking,mmsg
  kqps compare kqps-runs/before kqps-runs/after";

/// Compare two subjects: faster, slower, the same, or inconclusive
///
/// With --a and --b kqps starts both subjects side by side, and A once more: A against itself shows which differences
/// this host can resolve. A server that runs already, on this host or another, is named by its URL and gets the queries
/// of -d FILE.
///
/// Of one stored run kqps compares two cells (--a CELL --b CELL), or all pairs that differ in one factor only (--factor).
/// Of two stored runs it compares the cells of the same name that were asked the same, and names the other differences
/// between the runs. A verdict on stored cells needs six blocks in which both cells have a rate. `kqps run` makes 2 blocks
/// in its two minutes, and 6 with --budget 5m (--dry-run prints how many); a study makes as many as its `repetitions`.
#[derive(clap::Args)]
#[allow(clippy::doc_markdown)] // the comments are the help text
#[command(after_help = EXAMPLES)]
#[command(group = ArgGroup::new("what").args(["runs", "a", "target", "resume"]).multiple(true).required(true))]
pub(crate) struct Args {
    /// Stored runs, one or two, of six blocks each
    #[arg(value_name = "DIR", num_args = 0..=2, conflicts_with = "connections_to_targets")]
    runs: Vec<PathBuf>,

    /// The baseline: a subject's name, file or command, a URL, or a cell of a stored run
    ///
    /// Settings may follow a name or a file, as in 'knot workers=2'; docs/SUBJECTS.md lists them. A server that runs
    /// already is named by its URL, such as udp://ADDR:PORT; tcp://, tls://, https:// and quic:// play over those.
    #[arg(long, value_name = "SUBJECT|COMMAND|URL|CELL", requires = "b", help_heading = "Subjects")]
    a: Option<String>,

    /// The side to judge, named in the same ways as --a
    #[arg(long, value_name = "SUBJECT|COMMAND|URL|CELL", requires = "a", help_heading = "Subjects")]
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
    /// With a share, such as slower:2%, only if the whole interval lies beyond that share. A comparison that could not
    /// have seen so small a difference is inconclusive. A condition on an inconclusive comparison cannot be judged,
    /// which counts as failed.
    #[arg(long, value_name = "VERDICT[:SHARE]", help_heading = "Output")]
    fail_on: Vec<Condition>,

    /// Let inconclusive comparisons pass --fail-on
    #[arg(long, requires = "fail_on", help_heading = "Output")]
    allow_inconclusive: bool,

    /// Print each comparison as one JSON object in a line
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// How `kqps compare` measures the subjects that it starts.
#[derive(clap::Args)]
#[allow(clippy::doc_markdown)] // the comments are the help text
struct LiveArgs {
    /// Compare servers that run already (give it twice): ADDR:PORT, or a URL with udp, tcp, tls, https or quic
    ///
    /// The first stands for --a, the second for --b. Each is an address, never the name of a subject. An address
    /// without a scheme is played at over UDP.
    #[arg(long, value_name = "URL", conflicts_with_all = ["runs", "a", "b"], help_heading = "Subjects")]
    target: Vec<String>,

    /// Ask the queries in this file instead of generated ones, as `kqps load -d` does
    ///
    /// For servers that run already, and for commands that bring their own zone.
    #[arg(short = 'd', long, value_name = "FILE", conflicts_with_all = ["runs", "records"], help_heading = "Subjects")]
    queries: Option<PathBuf>,

    /// Allow a target on another host: ADDR or ADDR/PREFIX (repeatable)
    #[arg(long, value_name = "ADDR[/PREFIX]", conflicts_with = "runs", help_heading = "Subjects")]
    allow_target: Vec<Allowed>,

    /// Threads that play at a --target, each on a core of its own if there are enough (default: 1)
    #[arg(long, value_name = "COUNT", value_parser = parse_count, conflicts_with = "runs", help_heading = "Load")]
    senders: Option<u64>,

    /// Count a reply of a --target that takes longer than this as late (default: 250ms)
    #[arg(short = 't', long, value_name = "DURATION", value_parser = parse_seconds, conflicts_with = "runs", help_heading = "Load")]
    timeout: Option<Duration>,

    #[command(flatten)]
    connections: TargetFlags,

    /// How long the comparison may take: shorter loads first, then as many blocks as fit, 6 at least
    ///
    /// With --blocks, the load of each start is as long as fits.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "runs", help_heading = "The run")]
    budget: Option<Duration>,

    /// Blocks, each a start of A, another of A and one of B, side by side (default: 10)
    #[arg(long, value_name = "COUNT", value_parser = parse_count, conflicts_with = "runs", help_heading = "Load")]
    blocks: Option<u64>,

    /// Load each start for this long, in short trials that take turns (default: 2.6s)
    #[arg(long, value_parser = parse_duration, conflicts_with = "runs", help_heading = "Load")]
    duration: Option<Duration>,

    /// Closed loop: keep this many queries outstanding, and compare answered rates (default: 500)
    #[arg(short = 'q', long, value_name = "COUNT", value_parser = parse_count, conflicts_with_all = ["runs", "rate"], help_heading = "Load")]
    outstanding: Option<u64>,

    /// Open loop: play this rate, and compare CPU time per answer and p99 latency
    #[arg(short = 'Q', long, value_name = "RATE", value_parser = parse_rate, conflicts_with = "runs", help_heading = "Load")]
    rate: Option<f64>,

    /// Workers of each subject (default: 1)
    #[arg(long, value_name = "N", value_parser = parse_count, conflicts_with = "runs", help_heading = "Subjects")]
    workers: Option<u64>,

    /// Records of the generated zone (default: 10k)
    #[arg(long, value_name = "COUNT", value_parser = parse_count, conflicts_with = "runs", help_heading = "Subjects")]
    records: Option<u64>,

    /// The seed of every random choice (default: another one every time)
    #[arg(long, value_name = "SEED", value_parser = parse_seed, conflicts_with = "runs", help_heading = "The run")]
    seed: Option<u64>,

    /// The folder of the run (default: TIME-compare in kqps-runs/, if that exists, or ~/.local/share/kqps/runs/)
    #[arg(long, value_name = "DIR", conflicts_with = "runs", help_heading = "The run")]
    out: Option<PathBuf>,

    /// Resume the comparison in --out, or the newest unfinished one
    #[arg(
        long,
        conflicts_with_all = ["a", "blocks", "duration", "outstanding", "rate", "workers", "records", "seed", "target", "queries", "budget", "senders", "timeout", "connections_to_targets"],
        help_heading = "The run"
    )]
    resume: bool,
}

/// The outcome of a comparison.
#[derive(Default)]
pub(crate) struct Compared {
    /// The comparison of each figure.
    pub(crate) comparisons: Vec<Comparison>,
    /// The page with all trials, if the comparison has a run of its own, or the error of writing it.
    pub(crate) report: Option<anyhow::Result<PathBuf>>,
    /// Cells that two runs have in common and that cannot be compared, and why; each a sentence without its full stop.
    left_out: Vec<String>,
}

/// Judges comparisons again for a user who wants to see a difference of this share, if any.
fn see(comparisons: &mut [Comparison], share: Option<f64>) {
    if let Some(share) = share {
        for one in comparisons.iter_mut() {
            *one = one.seeing(share);
        }
    }
}

impl Args {
    /// The least difference, a share, that a condition asks for.
    fn least_seen(&self) -> Option<f64> {
        self.fail_on.iter().filter_map(Condition::least_seen).min_by(f64::total_cmp)
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.allow_inconclusive && args.fail_on.iter().any(Condition::is_inconclusive) {
        return Err(bad_input(
            "--allow-inconclusive and --fail-on inconclusive contradict each other: leave one out",
        ));
    }
    let mut compared = match args.runs.as_slice() {
        _ if args.live.resume => live::resume(args)?,
        [] => live::compare(args)?,
        [run] => stored::within(run, args)?,
        [a, b, ..] => stored::between(a, b, args)?,
    };
    see(&mut compared.comparisons, args.least_seen());
    for reason in &compared.left_out {
        eprintln!("Left out: {reason}.");
    }
    print_result(&compared, args.json)?;
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
    let unjudged = words::nothing_shown(comparisons, conditions, args.allow_inconclusive);
    let fails = !met.is_empty() || (unjudged.is_some() && !args.allow_inconclusive);
    for warning in [unjudged, words::too_coarse(comparisons, conditions)].into_iter().flatten() {
        eprintln!("{warning}");
    }
    Ok(if fails { ExitCode::from(exit::REFUSED) } else { ExitCode::SUCCESS })
}

/// Prints comparisons, each as one JSON object in a line if `json` is set.
pub(crate) fn print_result(compared: &Compared, json: bool) -> anyhow::Result<()> {
    if !json {
        let report = compared.report.as_ref().and_then(|report| report.as_deref().ok());
        print!("{}", words::output(&compared.comparisons, report));
        return Ok(());
    }
    for comparison in &compared.comparisons {
        print::json(&PrintedComparison { schema: kqps_observation::SCHEMA, kind: "comparison", comparison })?;
    }
    Ok(())
}

/// A comparison as `--json` prints it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PrintedComparison<'a> {
    schema: u32,
    kind: &'static str,
    #[serde(flatten)]
    comparison: &'a Comparison,
}

impl LiveArgs {
    fn extent(&self) -> AskedExtent {
        let Self { blocks, budget, duration, rate, .. } = self;
        AskedExtent { blocks: *blocks, budget: *budget, duration: *duration, rate_qps: *rate }
    }
}

/// Holds a count of a flag to its limits.
fn within<T: TryFrom<u64>>(flag: &str, value: u64, most: u64) -> anyhow::Result<T> {
    let within = T::try_from(value).ok().filter(|_| (1..=most).contains(&value));
    within.ok_or_else(|| bad_input(format!("{flag} {value}: expected 1 to {most}")))
}
