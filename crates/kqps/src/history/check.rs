//! `kqps history check`: reports the changes, and fails on those that a condition names.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use kqps_files::write_whole;
use kqps_history::{Entry, Records, Strength, judge};
use kqps_observation::SCHEMA;
use kqps_verdict::interval::Interval;
use schemars::JsonSchema;
use serde::Serialize;

use super::checked::{Checked, Confirmation, LAST, all_changes};
use super::confirm;
use super::export::markdown;
use super::{StoreArgs, words};
use crate::compare::{AskedExtent, Condition};
use crate::exit::{self, bad_input};
use crate::print;
use crate::value::{parse_count, parse_duration};

const EXAMPLES: &str = "\
Examples:
  kqps history check
  kqps history check --fail-on slower:2% --comment comment.md
  kqps history check --fail-on slower:2% --confirm --budget 3m
  kqps history check --confirm --a './old -p {port}' --b './new -p {port}'";

/// Report where figures changed, and fail on changes that --fail-on names
///
/// Of every series the newest change counts, if it is new and the host does not explain it. Without --confirm it must be
/// strong to fail.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    store: StoreArgs,

    /// End with status 3 if a new change is faster, slower or different (repeatable)
    ///
    /// With a share, such as slower:2%, only if the whole interval lies beyond that share. Slower is worse: less of the
    /// ceiling, more CPU time, more latency, or more memory.
    #[arg(long, value_name = "VERDICT[:SHARE]", help_heading = "Output")]
    fail_on: Vec<Condition>,

    /// A change is new if no more runs of its series than this have it (default: 10)
    #[arg(long, value_name = "RUNS", value_parser = parse_count, help_heading = "Output")]
    last: Option<u64>,

    /// Print each change as one JSON object in a line
    #[arg(long, help_heading = "Output")]
    json: bool,

    /// Write a comment for a merge request to this file, in Markdown
    #[arg(long, value_name = "FILE.md", help_heading = "Output")]
    comment: Option<PathBuf>,

    /// Compare the builds before and after each new change on this host; only what that finds can fail
    #[arg(long, help_heading = "Confirmation")]
    confirm: bool,

    /// The build before the change: a subject or a command, as for kqps compare (default: that of the run)
    #[arg(long, value_name = "SUBJECT|COMMAND", requires_all = ["confirm", "b"], help_heading = "Confirmation")]
    a: Option<String>,

    /// The build after the change (default: that of the run)
    #[arg(long, value_name = "SUBJECT|COMMAND", requires_all = ["confirm", "a"], help_heading = "Confirmation")]
    b: Option<String>,

    /// How long each comparison may take
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "confirm", help_heading = "Confirmation")]
    budget: Option<Duration>,

    /// Blocks of each comparison (default: 10)
    #[arg(long, value_name = "COUNT", value_parser = parse_count, requires = "confirm", help_heading = "Confirmation")]
    blocks: Option<u64>,

    /// Load each start for this long (default: 2.6s)
    #[arg(long, value_parser = parse_duration, requires = "confirm", help_heading = "Confirmation")]
    duration: Option<Duration>,

    /// Let changes pass that could not be confirmed or refuted
    #[arg(long, requires_all = ["confirm", "fail_on"], help_heading = "Confirmation")]
    allow_inconclusive: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.fail_on.iter().any(Condition::is_inconclusive) {
        return Err(bad_input(
            "--fail-on inconclusive: a change between runs is never inconclusive; expected faster, slower or different",
        ));
    }
    let asked = asked(args)?;
    let records = args.store.read()?;
    let history = judge(&records);
    let mut checked = all_changes(&history, args.last.unwrap_or(LAST));
    if args.confirm {
        confirm::all(&records, &mut checked, &asked);
    }
    if args.json {
        for one in &checked {
            print::json(&PrintedChange::of(one, &records))?;
        }
    } else {
        print!("{}", words::of(&records, &history, &checked));
    }
    if let Some(path) = &args.comment {
        let text = markdown::of(&records, &history, &checked);
        write_whole(path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(if fails(args, &checked) { ExitCode::from(exit::REFUSED) } else { ExitCode::SUCCESS })
}

/// What the flags ask to confirm. They are checked whether there is a change to confirm or not.
fn asked(args: &Args) -> anyhow::Result<confirm::Asked> {
    let extent =
        AskedExtent { blocks: args.blocks, budget: args.budget, duration: args.duration, rate_qps: None };
    extent.check()?;
    let sides = args.a.as_ref().zip(args.b.as_ref());
    Ok(confirm::Asked { sides: sides.map(|(a, b)| confirm::named(a, b)).transpose()?, extent })
}

/// Whether a condition holds for a new change; prints which.
fn fails(args: &Args, checked: &[Checked<'_>]) -> bool {
    let mut fails = false;
    for one in checked.iter().filter(|one| one.is_new) {
        for condition in args.fail_on.iter().filter(|condition| one.meets(condition)) {
            match &one.confirmation {
                Some(Confirmation::Undecided { reason }) if args.allow_inconclusive => {
                    eprintln!(
                        "{}: not confirmed, as {}; --allow-inconclusive lets it pass.",
                        one.series.name,
                        words::unended(reason)
                    );
                    continue;
                }
                Some(Confirmation::Undecided { reason }) => {
                    eprintln!(
                        "--fail-on {condition} cannot be judged for {}, as {}: that counts as failed; to let it \
                         pass add --allow-inconclusive.",
                        one.series.name,
                        words::unended(reason)
                    );
                }
                _ => eprintln!("--fail-on {condition} holds for {}.", one.series.name),
            }
            fails = true;
        }
    }
    fails
}

impl Checked<'_> {
    /// Whether a condition holds: of the comparison if there is one, else of the change itself if it is strong.
    fn meets(&self, condition: &Condition) -> bool {
        let (low, _, high) = self.change.ratio;
        let is_met = || condition.holds_for(!self.series.is_better(self.change), (low, high));
        let is_strong = self.change.strength == Strength::Strong;
        match &self.confirmation {
            Some(Confirmation::Confirmed { comparison }) => condition.holds(comparison),
            Some(Confirmation::Refuted { .. } | Confirmation::SameBuild) => false,
            Some(Confirmation::Undecided { .. }) | None => is_strong && is_met(),
        }
    }
}

/// What `--json` prints of each change.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PrintedChange {
    schema: u32,
    /// Always `"change"`.
    kind: &'static str,
    /// The name of the series.
    series: String,
    /// The identity of the series.
    key: kqps_history::Key,
    /// The folder of the last run before the change.
    before: String,
    /// The folder of the first run with the change.
    after: String,
    /// When that run began, milliseconds since 1970.
    since_unix_ms: u64,
    /// The level after the change divided by that before it.
    ratio: Interval,
    /// The probability that a series without a change diverges as much, 0 to 1.
    chance: f64,
    /// How sure the change is.
    strength: Strength,
    /// The least magnitude that could be claimed, a share.
    mde: f64,
    /// Whether the figure is worse than before.
    is_worse: bool,
    /// Whether the rate of the echo changed with it, so that the host explains it.
    is_hosts: bool,
    /// How many runs of the series came since it, the first one included.
    age_runs: u32,
    /// Whether it counts for `--fail-on`.
    is_new: bool,
    /// The result of comparing both builds; `null` if they were not compared.
    confirmation: Option<Confirmation>,
}

impl PrintedChange {
    fn of(one: &Checked<'_>, records: &Records) -> Self {
        let Checked { series, change, .. } = one;
        let run = |point: usize| -> &Entry { &records.entries[series.points[point].entry] };
        let (low, median, high) = change.ratio;
        Self {
            schema: SCHEMA,
            kind: "change",
            series: series.name.clone(),
            key: series.key.clone(),
            before: run(change.before).folder.clone(),
            after: run(change.after).folder.clone(),
            since_unix_ms: run(change.after).started_unix_ms,
            ratio: Interval { median, low, high, coverage: 0.95, count: change.age },
            chance: change.chance,
            strength: change.strength,
            mde: change.mde,
            is_worse: !series.is_better(change),
            is_hosts: change.is_hosts,
            age_runs: change.age,
            is_new: one.is_new,
            confirmation: one.confirmation.clone(),
        }
    }
}
