//! A comparison of two subjects that kqps starts, in a run of its own: those of the user, or those of another command.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use kqps_lab::comparison::{self, ComparisonError, ComparisonRequest, Side};
use kqps_lab::conduct::{Conducted, Event};
use kqps_lab::configured::{Configured, with_names_of_their_own};
use kqps_lab::running_server::PlayerRequest;
use kqps_lab::session::Session;
use kqps_lab::unit::Ending;
use kqps_observation::factors::ComparedAs;
use kqps_observation::run::Outcome;
use kqps_observation::visible::visible_line;
use kqps_observation::{CellLoad, Run};
use kqps_recipe::RECORDS_MAX;
use kqps_testbed::words::{counted, time};
use kqps_verdict::judge::judge;
use kqps_verdict::rate::plain;

use super::extent::{AskedExtent, Extent};
use super::{Args, Compared, see, sides, within};
use crate::exit::{Lines, bad_input};
use crate::run::announce::about;
use crate::run::time_left::TimeLeft;
use crate::run::{
    Resumed, beside, default_folder, left_out, named, random_seed, repeat, resumed, targets, write_page,
};
use crate::signals;

const WINDOW: u32 = 500;
const WINDOW_MOST: u64 = 100_000;
const WORKERS_MOST: u64 = 1024;
const RECORDS: u64 = 10_000;

/// Compares. If the user interrupts it, the result covers the blocks until then.
pub(super) fn compare(args: &Args) -> anyhow::Result<Compared> {
    begin_and_conduct(&request(args)?, args.least_seen())
}

/// Two subjects that a command compares by itself.
pub(crate) struct Pair {
    /// The baseline, and the side to judge.
    pub(crate) sides: [Configured; 2],
    /// How much is measured.
    pub(crate) extent: AskedExtent,
    /// The seed of every random choice; `None` for another one every time.
    pub(crate) seed: Option<u64>,
    /// The folder of the run; `None` for the default.
    pub(crate) out: Option<PathBuf>,
}

/// Compares two subjects as `kqps compare` does.
pub(crate) fn measure(pair: Pair) -> anyhow::Result<Compared> {
    let Pair { sides, extent, seed, out } = pair;
    let sides: Result<[Configured; 2], _> = with_names_of_their_own(sides.into()).try_into();
    let sides = sides.map_err(|_| anyhow!("expected two sides"))?.map(|side| Side::Started(Box::new(side)));
    begin_and_conduct(&usual_request(sides, &extent, seed, out.as_deref())?, None)
}

/// A comparison of two sides without further flags.
fn usual_request(
    [a, b]: [Side; 2],
    asked: &AskedExtent,
    seed: Option<u64>,
    out: Option<&Path>,
) -> anyhow::Result<ComparisonRequest> {
    let Extent { blocks, rounds, trial_s: duration_s } = Extent::from_asked(asked)?;
    let seed = seed.unwrap_or_else(random_seed);
    Ok(ComparisonRequest {
        folder: out.map_or_else(|| default_folder(comparison::NAME), named)?,
        a,
        b,
        queries: None,
        ca: None,
        budget_s: asked.budget.map(|budget| budget.as_secs_f64()),
        fills_budget: asked.blocks.is_none(),
        blocks,
        load: match asked.rate_qps {
            Some(rate_qps) => CellLoad::Rates { rates_qps: vec![rate_qps], duration_s },
            None => CellLoad::Closed(duration_s),
        },
        rounds,
        window: WINDOW,
        player: PlayerRequest::default(),
        workers: 1,
        seed,
        records: RECORDS,
        command: repeat::repeating(repeat::typed(), seed),
        kqps: std::env::current_exe().context("finding the running program")?,
        version: env!("CARGO_PKG_VERSION").into(),
    })
}

/// `seen` is the least difference, a share, that the user wants to see.
fn begin_and_conduct(request: &ComparisonRequest, seen: Option<f64>) -> anyhow::Result<Compared> {
    let began = Instant::now();
    let (session, whole_s) = begin(request, began)?;
    conduct(session, TimeLeft::announced(began, whole_s), seen)
}

fn conduct(mut session: Session, mut time_left: TimeLeft, seen: Option<f64>) -> anyhow::Result<Compared> {
    let go_on = format!("kqps compare --resume --out {}", session.folder().path().display());
    let mut blocks = session.run().blocks;
    let interrupts = signals::in_order();
    let conducted = session.conduct(interrupts, &mut |event| report(event, &mut blocks, &mut time_left));
    let conducted = conducted.with_context(|| format!("what was measured is stored; to go on: {go_on}"))?;
    let mut verdict = judge(session.run());
    // The page has the verdicts that are printed.
    see(&mut verdict.comparisons, seen);
    let beside = beside(&session, &verdict);
    let page = write_page(&session, &verdict, beside.as_ref());
    if conducted == Conducted::Interrupted {
        eprintln!("Interrupted; what was measured is stored. To go on: {go_on}");
    }
    if verdict.comparisons.is_empty() {
        if conducted == Conducted::Interrupted {
            anyhow::bail!("nothing can be compared yet: no block of A and B is complete");
        }
        let text = format!("nothing could be compared: {}", why_nothing(session.run()));
        return Err(anyhow::Error::new(Lines { text, is_about_input: false }));
    }
    Ok(Compared { comparisons: verdict.comparisons, report: Some(page), ..Compared::default() })
}

/// The side that failed, the reason, and the last lines of its output.
fn why_nothing(run: &Run) -> String {
    let failed = run.trials.iter().rev().find_map(|one| match &one.outcome {
        Outcome::Failed { reason, output } => Some((&run.cells[one.cell as usize], reason, output)),
        Outcome::Measured(_) => None,
    });
    let Some((cell, reason, output)) = failed else {
        return "no trial has the figures, as with too few queries or a rate that was never answered".into();
    };
    let side = if cell.factors.compared_as() == Some(ComparedAs::B) { "B" } else { "A" };
    let words = output.iter().fold(String::new(), |words, line| words + "\n    " + &visible_line(line));
    let head = if words.is_empty() { "" } else { "; its last words:" };
    let (name, reason) = (visible_line(&cell.name), visible_line(reason));
    format!("{side}, {name}, could not be measured: {reason}{head}{words}")
}

/// Resumes a comparison.
pub(super) fn resume(args: &Args) -> anyhow::Result<Compared> {
    let beside = args.runs.first().map(PathBuf::as_path);
    let folder = resumed(Resumed::Comparison, beside, args.live.out.as_deref())?;
    let session = Session::resume(&folder, std::env::current_exe().context("finding the running program")?)?;
    if session.run().study != comparison::NAME {
        return Err(bad_input(format!(
            "{} holds a run of another study; go on with it by: kqps run --resume --out {0}",
            folder.display()
        )));
    }
    if session.run().cells.iter().any(|cell| cell.factors.rounds().is_none()) {
        return Err(bad_input(format!(
            "{} was begun by an earlier version, which started A and B one after the other; begin a new comparison",
            folder.display()
        )));
    }
    let (run, folder) = (session.run(), folder.display());
    if run.finished_unix_ms.is_some() {
        eprintln!("The comparison in {folder} is finished: nothing more is measured.");
    } else {
        let trials = counted(run.trials.len() as u64, "trial");
        let blocks = counted(run.blocks.into(), "block");
        eprintln!("Going on with the comparison in {folder}: {trials} stored, and {blocks} planned.");
    }
    conduct(session, TimeLeft::default(), args.least_seen())
}

/// Begins a comparison, and returns how long it takes, in seconds.
fn begin(request: &ComparisonRequest, began: Instant) -> anyhow::Result<(Session, f64)> {
    let session = comparison::begin(request, began).map_err(|error| match error {
        ComparisonError::Subject { .. } | ComparisonError::Cores { .. } => bad_input(error),
        ComparisonError::Lab(error) => error.into(),
    })?;
    let run = session.run();
    for line in left_out::lines(&run.skipped) {
        eprintln!("{line}.");
    }
    let (a, b) = (&run.cells[0].name, &run.cells[2].name);
    let extent = Extent { blocks: request.blocks, rounds: request.rounds, trial_s: trial_s(&request.load) };
    eprintln!(
        "Comparing {b} with {a}: {}, each with two starts of {a} and one of {b}; each start has {} of {}; {}.",
        counted(extent.blocks.into(), "block"),
        counted(extent.rounds.into(), "trial"),
        time(extent.trial_s),
        about(extent.whole_s(), run.budget_s)
    );
    if let Some(warning) = extent.too_few_blocks() {
        eprintln!("{warning}");
    }
    if run.cells.iter().any(|cell| cell.target.is_some()) {
        eprintln!("A running server is neither started nor stopped: each of its starts is one session.");
    }
    eprintln!("Everything of this run lies in {}.", session.folder().path().display());
    Ok((session, extent.whole_s()))
}

fn trial_s(load: &CellLoad) -> f64 {
    match load {
        CellLoad::Closed(duration_s) | CellLoad::Rates { duration_s, .. } => *duration_s,
        CellLoad::Search => 0.0,
    }
}

fn request(args: &Args) -> anyhow::Result<ComparisonRequest> {
    let live = &args.live;
    live.extent().check()?;
    let sides = sides::from_args(args)?;
    let is_set_up = live.senders.is_some() || live.timeout.is_some();
    if is_set_up && !sides.iter().any(|side| matches!(side, Side::Running(_))) {
        return Err(bad_input("--senders and --timeout are for servers that run already, named by --target"));
    }
    let player = targets::player(live.senders, live.timeout)?;
    let usual = usual_request(sides, &live.extent(), live.seed, live.out.as_deref())?;
    Ok(ComparisonRequest {
        queries: live.queries.clone(),
        ca: live.connections.issuers()?,
        window: within("--outstanding", live.outstanding.unwrap_or(WINDOW.into()), WINDOW_MOST)?,
        player,
        workers: within("--workers", live.workers.unwrap_or(1), WORKERS_MOST)?,
        records: within("--records", live.records.unwrap_or(RECORDS), RECORDS_MAX)?,
        ..usual
    })
}

/// Prints a line for every start on stderr.
fn report(event: &Event<'_>, blocks: &mut u32, time_left: &mut TimeLeft) {
    let (cell, block, found) = match event {
        Event::Left { left_s } => {
            return time_left.line(*left_s).into_iter().for_each(|line| eprintln!("{line}"));
        }
        Event::Added { blocks: all } => {
            let more = counted(u64::from(all.saturating_sub(*blocks)), "more block");
            *blocks = *all;
            return eprintln!("The budget has time for {more}.");
        }
        Event::Dropped { what, why } => return eprintln!("Left out: {what}: {why}."),
        Event::Over { cell, block, ending } => (cell, block, found(ending)),
        _ => return,
    };
    eprintln!("block {} of {blocks}  {}  {found}", block + 1, cell.name);
}

fn found(ending: &Ending) -> String {
    match ending {
        Ending::Closed(answered_qps) => format!("{} answers a second", plain(*answered_qps)),
        Ending::Failed(reason) => reason.clone(),
        Ending::Played | Ending::Found(_) => "done".into(),
    }
}
