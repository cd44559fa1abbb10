//! `kqps history check`: reports the changes, and fails on those that a condition names.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use kqps_history::{Entry, LAST, Records, Shape, Strength, TooFew, judge};
use kqps_observation::SCHEMA;
use kqps_verdict::interval::Interval;
use schemars::JsonSchema;
use serde::Serialize;

use super::checked::{Checked, Confirmation, all_changes};
use super::confirm;
use super::export::markdown;
use super::{StoreArgs, words};
use crate::compare::{AskedExtent, Condition};
use crate::exit::{self, bad_input};
use crate::print;
use crate::stored;
use crate::value::{parse_count, parse_duration};

const EXAMPLES: &str = "\
Examples:
  kqps history check
  kqps history check --fail-on slower:2% --comment comment.md --allow-few-runs
  kqps history check --fail-on slower:2% --confirm --builds builds --budget 3m
  kqps history check --confirm --a './old -p {port}' --b './new -p {port}'";

/// Report where figures changed, and fail on changes that --fail-on names
///
/// A series is one figure over many runs. Its newest change counts if it is new (--last) and the host does not explain it.
/// A creep, a figure that becomes worse a little with each run, counts as long as it goes on. Without --confirm only
/// strong changes fail (docs/method/history.md). A series with fewer than eight runs on its newest host shows no change:
/// --fail-on counts it as failed (status 3), unless --allow-few-runs is given.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::struct_excessive_bools)] // each is a flag of its own
pub(super) struct Args {
    #[command(flatten)]
    store: StoreArgs,

    /// End with status 3 if a new change is faster, slower or different (repeatable)
    ///
    /// With a share, such as slower:2%, only if the whole interval lies beyond that share. Slower is worse: less of the
    /// ceiling, more CPU time, more latency, or more memory.
    #[arg(long, value_name = "VERDICT[:SHARE]", help_heading = "Output")]
    fail_on: Vec<Condition>,

    /// Let series pass --fail-on that have too few runs on their newest host to see a change
    #[arg(long, requires = "fail_on", help_heading = "Output")]
    allow_few_runs: bool,

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

    /// Take builds that are no longer in their place from this folder, or from a folder in it
    ///
    /// A kept build is known by its file name and its content, so the folders may have any names.
    #[arg(
        long,
        value_name = "DIR",
        requires = "confirm",
        conflicts_with = "a",
        help_heading = "Confirmation"
    )]
    builds: Option<PathBuf>,

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
    let last = args.last.unwrap_or(LAST);
    let mut checked = all_changes(&history, last);
    let too_few = history.too_few(last);
    if args.confirm {
        confirm::all(&records, &mut checked, &asked);
    }
    for one in &mut checked {
        one.fails = one.is_new
            && args.fail_on.iter().any(|condition| one.fails_by(condition, args.allow_inconclusive));
    }
    if args.json {
        for one in &checked {
            print::json(&PrintedChange::from_checked(one, &records))?;
        }
    } else {
        print!("{}", words::output(&records, &history, &checked, too_few));
    }
    if let Some(path) = &args.comment {
        let text = markdown::comment(&records, &history, &checked, too_few);
        stored::write(path, &text)?;
    }
    explain(args, &checked);
    let is_unseen = is_unseen(args, too_few);
    let fails = is_unseen || checked.iter().any(|one| one.fails);
    Ok(if fails { ExitCode::from(exit::REFUSED) } else { ExitCode::SUCCESS })
}

/// The confirmation that the flags ask for. They are checked whether there is a change to confirm or not.
fn asked(args: &Args) -> anyhow::Result<confirm::Request> {
    let extent =
        AskedExtent { blocks: args.blocks, budget: args.budget, duration: args.duration, rate_qps: None };
    extent.check()?;
    let sides = args.a.as_ref().zip(args.b.as_ref());
    if let Some(builds) = args.builds.as_ref().filter(|builds| !builds.is_dir()) {
        return Err(bad_input(format!("--builds {}: expected a folder", builds.display())));
    }
    let sides = sides.map(|(a, b)| confirm::named(a, b)).transpose()?;
    Ok(confirm::Request { sides, builds: args.builds.clone(), extent })
}

/// Prints which condition holds for which new change.
fn explain(args: &Args, checked: &[Checked<'_>]) {
    for one in checked.iter().filter(|one| one.is_new) {
        let name = &one.series.name;
        for condition in args.fail_on.iter().filter(|condition| one.meets(condition)) {
            match &one.confirmation {
                Some(Confirmation::Undecided { reason }) if args.allow_inconclusive => eprintln!(
                    "{name}: not confirmed, as {}; --allow-inconclusive lets it pass.",
                    words::unended(reason)
                ),
                Some(Confirmation::Undecided { reason }) => eprintln!(
                    "--fail-on {condition} cannot be judged for {name}, as {}: that counts as failed; to let it pass \
                     add --allow-inconclusive.",
                    words::unended(reason)
                ),
                _ => match one.crept() {
                    Some(crept) => eprintln!("--fail-on {condition} holds: {crept}."),
                    None => eprintln!("--fail-on {condition} holds for {name}."),
                },
            }
        }
    }
}

/// Whether a condition cannot be judged because of too few runs, which counts as failed; prints it.
fn is_unseen(args: &Args, too_few: Option<TooFew>) -> bool {
    let Some(too_few) = too_few else { return false };
    let Some(condition) = args.fail_on.first() else {
        if args.json {
            eprintln!("{}.", too_few.sentence());
        }
        return false;
    };
    if args.allow_few_runs {
        eprintln!("{}; --allow-few-runs lets it pass.", too_few.sentence());
        return false;
    }
    eprintln!(
        "--fail-on {condition} cannot be judged, as there are {too_few}: that counts as failed; to let it pass add \
         --allow-few-runs."
    );
    true
}

impl Checked<'_> {
    /// Whether a new change ends the command with status 3: a condition holds, or cannot be judged and must be.
    fn fails_by(&self, condition: &Condition, allow_inconclusive: bool) -> bool {
        let is_undecided = matches!(self.confirmation, Some(Confirmation::Undecided { .. }));
        self.meets(condition) && !(is_undecided && allow_inconclusive)
    }

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

/// A change as `--json` prints it.
#[derive(Serialize, JsonSchema)]
#[allow(clippy::struct_excessive_bools)] // each is a field of its own
pub(crate) struct PrintedChange {
    schema: u32,
    /// Always `"change"`.
    kind: &'static str,
    /// The name of the series.
    series: String,
    /// The identity of the series.
    key: kqps_history::Key,
    /// How the figure changed.
    shape: Shape,
    /// The folder of the last run before the change; of a creep, of its first run.
    before: String,
    /// The folder of the first run with the change; of a creep, of the newest run.
    after: String,
    /// When the first run with the change began, milliseconds since 1970; of a creep, its first run.
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
    /// How many runs of the series came since it, the first one included; of a creep, its runs.
    age_runs: u32,
    /// Whether it counts for `--fail-on`.
    is_new: bool,
    /// Whether it ends the command with status 3: a condition of `--fail-on` holds for it, or cannot be judged.
    fails: bool,
    /// The result of comparing both builds; `null` if they were not compared.
    confirmation: Option<Confirmation>,
}

impl PrintedChange {
    fn from_checked(one: &Checked<'_>, records: &Records) -> Self {
        let Checked { series, change, .. } = one;
        let run = |point: usize| -> &Entry { &records.entries[series.points[point].entry] };
        let (low, median, high) = change.ratio;
        Self {
            schema: SCHEMA,
            kind: "change",
            series: series.name.clone(),
            key: series.key.clone(),
            shape: change.shape,
            before: run(change.before).folder.clone(),
            after: run(change.after).folder.clone(),
            since_unix_ms: run(change.since()).started_unix_ms,
            ratio: Interval { median, low, high, coverage: 0.95, count: change.age },
            chance: change.chance,
            strength: change.strength,
            mde: change.mde,
            is_worse: !series.is_better(change),
            is_hosts: change.is_hosts,
            age_runs: change.age,
            is_new: one.is_new,
            fails: one.fails,
            confirmation: one.confirmation.clone(),
        }
    }
}
