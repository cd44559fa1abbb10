//! Two subjects that are started for the comparison, in a run of their own.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use kqps_dataset::generate::RECORDS_MAX;
use kqps_lab::comparison::{self, ComparisonError, Wish};
use kqps_lab::conduct::{Conducted, Event};
use kqps_lab::session::Session;
use kqps_lab::words::{counted, time};
use kqps_observation::run::{Outcome, Purpose};
use kqps_observation::visible::visible_line;
use kqps_observation::{CellLoad, Run};
use kqps_verdict::compare::Part;
use kqps_verdict::judge::judge;
use kqps_verdict::rate::plain;

use super::{Args, Compared, sides};
use crate::exit::{Lines, bad_input};
use crate::run::{default_folder, named, random_seed, repeat, write_page};
use crate::signals;

const BLOCKS: u64 = 6;
const BLOCKS_MOST: u64 = 10_000;
const DURATION: Duration = Duration::from_secs(1);
const WINDOW: u64 = 500;
const WINDOW_MOST: u64 = 100_000;
const WORKERS_MOST: u64 = 1024;
const RECORDS: u64 = 10_000;

/// Compares, or goes on comparing. What was compared before the user ended it is returned as well.
pub(super) fn compare(args: &Args) -> anyhow::Result<Compared> {
    let mut session = if args.live.resume { resume(args)? } else { begin(args)? };
    let go_on = format!("kqps compare --resume --out {}", session.folder().path().display());
    let pairs = session.run().blocks;
    let interrupts = signals::in_order();
    let conducted = session.conduct(interrupts, &mut |event| tell(event, pairs));
    let conducted = conducted.with_context(|| format!("what was measured is stored; to go on: {go_on}"))?;
    let verdict = judge(session.run());
    let page = write_page(&session, &verdict);
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

/// Which side failed, why, and what it printed last.
fn why_nothing(run: &Run) -> String {
    let failed = run.trials.iter().rev().find_map(|one| match &one.outcome {
        Outcome::Failed { reason, output } => Some((&run.cells[one.cell as usize], reason, output)),
        Outcome::Measured(_) => None,
    });
    let Some((cell, reason, output)) = failed else {
        return "no trial has the figures, as with too few queries or a rate that was never answered".into();
    };
    let side =
        if cell.factors.get(Part::FACTOR).is_some_and(|part| part == Part::B.word()) { "B" } else { "A" };
    let words = output.iter().fold(String::new(), |words, line| words + "\n    " + &visible_line(line));
    let head = if words.is_empty() { "" } else { "; its last words:" };
    let (name, reason) = (visible_line(&cell.name), visible_line(reason));
    format!("{side}, {name}, could not be measured: {reason}{head}{words}")
}

fn resume(args: &Args) -> anyhow::Result<Session> {
    let folder = args.live.out.as_deref().context("--resume takes --out DIR")?;
    let session = Session::resume(folder, std::env::current_exe().context("finding the running program")?)?;
    if session.run().study != comparison::NAME {
        return Err(bad_input(format!(
            "{} holds a run of another study; go on with it by: kqps run --resume --out {0}",
            folder.display()
        )));
    }
    Ok(session)
}

fn begin(args: &Args) -> anyhow::Result<Session> {
    let wish = wish(args)?;
    let session = comparison::begin(&wish, Instant::now()).map_err(|error| match error {
        ComparisonError::Subject { .. } | ComparisonError::Cores { .. } => bad_input(error),
        ComparisonError::Lab(error) => error.into(),
    })?;
    let run = session.run();
    for (what, reason) in &run.skipped {
        eprintln!("Left out: {what}: {reason}.");
    }
    eprintln!(
        "Comparing {} with {}: {} of A against itself, then as many of A and B; {}, about {}.",
        run.cells[2].name,
        run.cells[0].name,
        counted(wish.blocks.into(), "block"),
        counted(u64::from(run.blocks) * 2, "start"),
        time(whole_s(&wish.load, wish.blocks))
    );
    if run.cells.iter().any(|cell| cell.target.is_some()) {
        eprintln!("What runs already is neither started nor stopped: each start is one session with it.");
    }
    eprintln!("Everything of this run lies in {}.", session.folder().path().display());
    Ok(session)
}

/// Seconds for so many blocks of A and B, and as many of A against itself, after both were tried.
fn whole_s(load: &CellLoad, blocks: u32) -> f64 {
    f64::from(2 + 8 * blocks) * start_s(load)
}

/// How many blocks fit a budget; fewer than six give no verdict.
fn blocks_within(budget: Duration, load: &CellLoad) -> anyhow::Result<u32> {
    let budget_s = budget.as_secs_f64();
    let least_s = whole_s(load, BLOCKS as u32).ceil();
    if budget_s < least_s {
        return Err(bad_input(format!(
            "a budget of {} is too short: six blocks, the least that give a verdict, take about {}; give it --budget \
             {least_s:.0}s or more, or a shorter --duration",
            time(budget_s),
            time(least_s)
        )));
    }
    Ok(((budget_s / start_s(load) - 2.0) / 8.0).min(BLOCKS_MOST as f64) as u32)
}

/// Seconds for a start with its warm-up, its trial and its stop.
fn start_s(load: &CellLoad) -> f64 {
    let (CellLoad::Closed(duration_s) | CellLoad::Rates { duration_s, .. }) = load else { return 0.0 };
    0.8 + duration_s
}

fn wish(args: &Args) -> anyhow::Result<Wish> {
    let live = &args.live;
    let within = |flag: &str, value: u64, most: u64| match value {
        value if (1..=most).contains(&value) => Ok(value),
        value => Err(bad_input(format!("{flag} {value}: expected 1 to {most}"))),
    };
    let duration = live.duration.unwrap_or(DURATION);
    if duration < Duration::from_millis(10) {
        return Err(bad_input("--duration: expected at least 10ms"));
    }
    let duration_s = duration.as_secs_f64();
    let load = match live.rate {
        Some(rate_qps) => CellLoad::Rates { rates_qps: vec![rate_qps], duration_s },
        None => CellLoad::Closed(duration_s),
    };
    let seed = live.seed.unwrap_or_else(random_seed);
    let blocks = match live.budget {
        Some(budget) => blocks_within(budget, &load)?,
        None => within("--blocks", live.blocks.unwrap_or(BLOCKS), BLOCKS_MOST)? as u32,
    };
    let [a, b] = sides::of(args)?;
    Ok(Wish {
        folder: live.out.clone().map_or_else(|| default_folder(comparison::NAME), |out| named(&out))?,
        a,
        b,
        queries: live.queries.clone(),
        budget_s: live.budget.map(|budget| budget.as_secs_f64()),
        blocks,
        load,
        window: within("--outstanding", live.outstanding.unwrap_or(WINDOW), WINDOW_MOST)? as u32,
        workers: within("--workers", live.workers.unwrap_or(1), WORKERS_MOST)? as u32,
        seed,
        records: within("--records", live.records.unwrap_or(RECORDS), RECORDS_MAX)?,
        command: repeat::repeating(repeat::typed(), seed),
        kqps: std::env::current_exe().context("finding the running program")?,
        version: env!("CARGO_PKG_VERSION").into(),
    })
}

/// A line for every start, on stderr.
fn tell(event: &Event<'_>, pairs: u32) {
    let (cell, trial) = match event {
        Event::Trial { cell, trial } => (cell, trial),
        Event::Dropped { what, why } => return eprintln!("Left out: {what}: {why}."),
        _ => return,
    };
    let found = match (trial.measured(), trial.failure()) {
        (Some(_), _) if trial.purpose == Purpose::WarmUp || trial.purpose.is_for_reasons() => return,
        (Some(measured), _) => format!("{} answers a second", plain(measured.load.answered_qps)),
        (None, reason) => reason.unwrap_or_default().to_string(),
    };
    if trial.purpose == Purpose::WarmUp {
        return eprintln!("{}  {found}", cell.name);
    }
    eprintln!("pair {} of {pairs}  {}  {found}", trial.block + 1, cell.name);
}
