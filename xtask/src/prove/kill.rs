//! A run that is killed at any moment and resumed has every trial that was committed, once.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use kqps_kernel::process::Signal;
use kqps_observation::run::Role;
use kqps_observation::{Run, Store};

use super::{Bench, Size};
use crate::child::{Ended, Running};

/// Longest time until a kill, seconds.
const KILL_WITHIN_S: f64 = 4.0;

/// How long a run may take after the last kill.
const FINISH_WITHIN: Duration = Duration::from_mins(15);

/// Kills a run again and again, resumes it, and in the end lets it finish.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    let folder = bench.folder.path().join("run");
    let mut random = fastrand::Rng::with_seed(1);
    let mut before: Option<Run> = None;
    for kill in 1..=bench.choose(3, 40) {
        let mut command = run(bench, &folder, kill > 1);
        let running = Running::start(&mut command)?;
        let least_s = bench.choose(0.8, 0.0);
        let alive_s = least_s + random.f64() * bench.choose(1.2, KILL_WITHIN_S);
        std::thread::sleep(Duration::from_secs_f64(alive_s));
        if running.has_ended()? {
            eprintln!("the run ended before kill {kill}");
            break;
        }
        running.signal(Signal::Kill)?;
        running.wait(Duration::from_secs(10))?;
        before = survived(&folder, before)?;
        let trials = before.as_ref().map_or(0, |run| run.trials.len());
        eprintln!("killed {kill} times, last after {alive_s:.2} s: {trials} trials are there");
    }
    if bench.size == Size::Small {
        return Ok(());
    }
    let Ended { code, .. } = Running::start(&mut run(bench, &folder, true))?.wait(FINISH_WITHIN)?;
    ensure!(matches!(code, Some(0 | 3)), "the resumed run ended with {code:?}");
    let run = survived(&folder, before)?.context("a finished run has a store")?;
    ensure!(run.finished_unix_ms.is_some(), "the resumed run is not marked as finished");
    eprintln!("finished with {} trials", run.trials.len());
    Ok(())
}

/// The command for a run without name servers when small: those are not found on an empty path.
fn run(bench: &Bench, folder: &Path, resume: bool) -> Command {
    let mut command = Command::new(&bench.kqps.program);
    command.arg("run").arg("--out").arg(folder).args(["--budget", bench.choose("10s", "60s")]);
    if resume {
        command.arg("--resume");
    }
    if bench.size == Size::Small {
        command.env("PATH", OsStr::new("/nonexistent"));
    }
    command
}

/// Reads the store after a kill, which must hold everything that it held before, unchanged. None when the run
/// was killed before it made its store.
fn survived(folder: &Path, before: Option<Run>) -> Result<Option<Run>> {
    let path = folder.join("run.sqlite");
    if before.is_none() && !path.exists() {
        return Ok(None);
    }
    let after = Store::read(&path).context("a killed run's store cannot be read")?;
    if let Some(before) = before {
        ensure!(after.trials.starts_with(&before.trials), "a committed trial was lost or changed");
    }
    let numbers = after.trials.iter().map(|trial| trial.number);
    ensure!(numbers.eq(1..=after.trials.len() as u64), "trials are not numbered from 1 on");
    once(&after)?;
    Ok(Some(after))
}

/// A ceiling is one trial in each block; a second one would be a repetition.
fn once(run: &Run) -> Result<()> {
    let mut seen = BTreeSet::new();
    for trial in run.trials.iter().filter(|trial| trial.measured().is_some()) {
        let cell = run.cells.get(trial.cell as usize).context("a trial of no cell")?;
        if cell.role != Role::Subject && !seen.insert((trial.cell, trial.block)) {
            bail!("block {} of {} was measured twice", trial.block, cell.name);
        }
    }
    Ok(())
}
