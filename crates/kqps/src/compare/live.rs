//! Two subjects that are started for the comparison, in a run of their own.

use std::time::Instant;

use anyhow::Context as _;
use kqps_dataset::generate::RECORDS_MAX;
use kqps_lab::comparison::{self, ComparisonError, Side, Wish};
use kqps_lab::conduct::{Conducted, Event};
use kqps_lab::session::Session;
use kqps_lab::unit::Ending;
use kqps_lab::words::{counted, time};
use kqps_observation::run::Outcome;
use kqps_observation::visible::visible_line;
use kqps_observation::{CellLoad, Run};
use kqps_verdict::compare::Part;
use kqps_verdict::judge::judge;
use kqps_verdict::rate::plain;

use super::{Args, Compared, LiveArgs, sides};
use crate::exit::{Lines, bad_input};
use crate::run::{default_folder, named, random_seed, repeat, targets, write_page};
use crate::signals;

const BLOCKS: u64 = 10;
/// With fewer there is no verdict.
const BLOCKS_LEAST: u64 = 6;
const BLOCKS_MOST: u64 = 10_000;
/// Seconds that a start is loaded for in all.
const LOADED_S: f64 = 2.6;
/// Seconds of a trial: the shorter, the more alike is what the host does to both sides.
const TRIAL_S: f64 = 0.1;
/// At a fixed rate it has so many queries, which tell its p99 latency.
const TRIAL_QUERIES: f64 = 10_500.0;
const WINDOW: u64 = 500;
const WINDOW_MOST: u64 = 100_000;
const WORKERS_MOST: u64 = 1024;
const RECORDS: u64 = 10_000;

/// Compares, or goes on comparing. What was compared before the user ended it is returned as well.
pub(super) fn compare(args: &Args) -> anyhow::Result<Compared> {
    let mut session = if args.live.resume { resume(args)? } else { begin(args)? };
    let go_on = format!("kqps compare --resume --out {}", session.folder().path().display());
    let blocks = session.run().blocks;
    let interrupts = signals::in_order();
    let conducted = session.conduct(interrupts, &mut |event| tell(event, blocks));
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
        "Comparing {} with {}: {}, each with a start of {0}, another of {0} and one of {1}; {} of {} each; about {}.",
        run.cells[2].name,
        run.cells[0].name,
        counted(wish.blocks.into(), "block"),
        counted(wish.rounds.into(), "trial"),
        time(trial_s(&wish.load)),
        time(whole_s(&wish))
    );
    if run.cells.iter().any(|cell| cell.target.is_some()) {
        eprintln!("What runs already is neither started nor stopped: each start is one session with it.");
    }
    eprintln!("Everything of this run lies in {}.", session.folder().path().display());
    Ok(session)
}

/// Seconds for a start without its trials: it starts, is warmed up, and stops.
const START_S: f64 = 0.8;

/// Starts in a block: A, A again, B.
const STARTS: u32 = 3;

/// Seconds for all of it, the starts that try both sides beforehand included.
fn whole_s(wish: &Wish) -> f64 {
    2.0 * START_S + f64::from(wish.blocks) * block_s(wish.rounds, trial_s(&wish.load))
}

fn block_s(rounds: u32, trial_s: f64) -> f64 {
    f64::from(STARTS) * (START_S + f64::from(rounds) * (trial_s + comparison::BESIDE_S))
}

/// Seconds of a trial.
fn trial_s(load: &CellLoad) -> f64 {
    match load {
        CellLoad::Closed(duration_s) | CellLoad::Rates { duration_s, .. } => *duration_s,
        CellLoad::Search => 0.0,
    }
}

/// Blocks, trials of each start, and seconds of a trial.
struct Extent {
    blocks: u32,
    rounds: u32,
    trial_s: f64,
}

impl Extent {
    /// What the arguments say. A budget first shortens what a start is loaded for, down to one trial, where that was not given,
    /// and then allows as many blocks as fit.
    fn of(live: &LiveArgs) -> anyhow::Result<Self> {
        let given_s = live.duration.map(|duration| duration.as_secs_f64());
        let for_queries_s = live.rate.map_or(0.0, |rate_qps| TRIAL_QUERIES / rate_qps);
        let usual_s = for_queries_s.clamp(TRIAL_S, given_s.unwrap_or(LOADED_S).max(TRIAL_S));
        if given_s.is_some_and(|duration_s| duration_s < 0.01) {
            return Err(bad_input("--duration: expected at least 10ms"));
        }
        let of = |loaded_s: f64| {
            let rounds = (loaded_s / usual_s).round().max(1.0);
            (rounds as u32, if rounds > 1.0 { usual_s } else { loaded_s })
        };
        let Some(budget) = live.budget else {
            let blocks = within("--blocks", live.blocks.unwrap_or(BLOCKS), BLOCKS_MOST)? as u32;
            let (rounds, trial_s) = of(given_s.unwrap_or(LOADED_S));
            return Ok(Self { blocks, rounds, trial_s });
        };
        let for_blocks_s = budget.as_secs_f64() - 2.0 * START_S;
        let (rounds, trial_s) = of(given_s.unwrap_or_else(|| {
            let start_s = for_blocks_s / (BLOCKS_LEAST as f64 * f64::from(STARTS));
            let fitting = ((start_s - START_S) / (usual_s + comparison::BESIDE_S)).floor();
            fitting.clamp(1.0, LOADED_S / usual_s) * usual_s
        }));
        let block_s = block_s(rounds, trial_s);
        let least_s = (2.0 * START_S + BLOCKS_LEAST as f64 * block_s).ceil();
        if budget.as_secs_f64() < least_s {
            return Err(bad_input(format!(
                "a budget of {} is too short: six blocks, the least that give a verdict, take about {}; give it \
                 --budget {least_s:.0}s or more{}",
                time(budget.as_secs_f64()),
                time(least_s),
                if given_s.is_some() { ", or a shorter --duration" } else { "" }
            )));
        }
        Ok(Self { blocks: (for_blocks_s / block_s).min(BLOCKS_MOST as f64) as u32, rounds, trial_s })
    }
}

fn within(flag: &str, value: u64, most: u64) -> anyhow::Result<u64> {
    match value {
        value if (1..=most).contains(&value) => Ok(value),
        value => Err(bad_input(format!("{flag} {value}: expected 1 to {most}"))),
    }
}

fn wish(args: &Args) -> anyhow::Result<Wish> {
    let live = &args.live;
    let Extent { blocks, rounds, trial_s: duration_s } = Extent::of(live)?;
    let load = match live.rate {
        Some(rate_qps) => CellLoad::Rates { rates_qps: vec![rate_qps], duration_s },
        None => CellLoad::Closed(duration_s),
    };
    let seed = live.seed.unwrap_or_else(random_seed);
    let [a, b] = sides::of(args)?;
    let is_set_up = live.senders.is_some() || live.timeout.is_some();
    if is_set_up && ![&a, &b].into_iter().any(|side| matches!(side, Side::Running(_))) {
        return Err(bad_input("--senders and --timeout are for servers that run already, named by --target"));
    }
    let player = targets::player(live.senders, live.timeout)?;
    Ok(Wish {
        folder: live.out.clone().map_or_else(|| default_folder(comparison::NAME), |out| named(&out))?,
        a,
        b,
        queries: live.queries.clone(),
        budget_s: live.budget.map(|budget| budget.as_secs_f64()),
        blocks,
        load,
        rounds,
        window: within("--outstanding", live.outstanding.unwrap_or(WINDOW), WINDOW_MOST)? as u32,
        player,
        workers: within("--workers", live.workers.unwrap_or(1), WORKERS_MOST)? as u32,
        seed,
        records: within("--records", live.records.unwrap_or(RECORDS), RECORDS_MAX)?,
        command: repeat::repeating(repeat::typed(), seed),
        kqps: std::env::current_exe().context("finding the running program")?,
        version: env!("CARGO_PKG_VERSION").into(),
    })
}

/// A line for every start, on stderr.
fn tell(event: &Event<'_>, blocks: u32) {
    let (cell, block, found) = match event {
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
