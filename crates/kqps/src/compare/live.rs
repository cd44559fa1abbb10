//! Two subjects that are started for the comparison, in a run of their own.

use std::time::Duration;

use anyhow::Context as _;
use kqps_dataset::generate::RECORDS_MAX;
use kqps_lab::comparison::{self, ComparisonError, Wish};
use kqps_lab::conduct::{Conducted, Event};
use kqps_lab::session::Session;
use kqps_lab::subject::Definition;
use kqps_observation::run::Purpose;
use kqps_observation::{CellLoad, Run, RunTrial};
use kqps_verdict::judge::judge;
use kqps_verdict::rate::plain;

use super::{Args, Compared};
use crate::exit::bad_input;
use crate::run::subjects::chosen;
use crate::run::{default_folder, random_seed, repeat, write_page};
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
        anyhow::bail!("nothing could be compared: {}", why_nothing(session.run()));
    }
    Ok(Compared { comparisons: verdict.comparisons, report: Some(page), ..Compared::default() })
}

fn why_nothing(run: &Run) -> &str {
    let last_failure = run.trials.iter().rev().find_map(RunTrial::failure);
    last_failure
        .unwrap_or("no trial has the figures, as with too few queries or a rate that was never answered")
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
    let session = comparison::begin(&wish).map_err(|error| match error {
        ComparisonError::Subject { .. } => bad_input(error),
        ComparisonError::Lab(error) => error.into(),
    })?;
    let run = session.run();
    let starts = u64::from(run.blocks) * 2;
    eprintln!(
        "Comparing {} with {}: {} blocks of A against itself, then as many of A and B; {starts} starts, about {:.0} s.",
        run.cells[2].name,
        run.cells[0].name,
        wish.blocks,
        starts as f64 * start_s(&wish.load)
    );
    eprintln!("Everything of this run lies in {}.", session.folder().path().display());
    Ok(session)
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
    Ok(Wish {
        folder: live.out.clone().map_or_else(|| default_folder(comparison::NAME), Ok)?,
        a: subject(args.a.as_deref().context("--a and --b name the subjects")?)?,
        b: subject(args.b.as_deref().context("--a and --b name the subjects")?)?,
        blocks: within("--blocks", live.blocks.unwrap_or(BLOCKS), BLOCKS_MOST)? as u32,
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

/// A command has a placeholder in it; all else is a name or a file.
fn subject(text: &str) -> anyhow::Result<Definition> {
    let word = text.to_string();
    let chosen = if text.contains(['{', ' ']) { chosen(&[], &[word]) } else { chosen(&[word], &[]) };
    chosen?.pop().context("one subject was asked for")
}

/// A line for every start, on stderr.
fn tell(event: &Event<'_>, pairs: u32) {
    let Event::Trial { cell, trial } = event else { return };
    let found = match (trial.measured(), trial.failure()) {
        _ if trial.purpose == Purpose::WarmUp || trial.purpose.is_for_reasons() => return,
        (Some(measured), _) => format!("{} answers a second", plain(measured.load.answered_qps)),
        (None, reason) => reason.unwrap_or_default().to_string(),
    };
    eprintln!("pair {}/{pairs}  {}  {found}", trial.block + 1, cell.name);
}
