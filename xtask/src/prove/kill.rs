//! A run that is killed at any moment and resumed has every trial that was committed, once.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use kqps_kernel::process::Signal;
use kqps_observation::run::Role;
use kqps_observation::{Run, Store};

use super::{Bench, Size};
use crate::child::{Ended, Running};

/// How often the store is looked at for a new trial.
const LOOK: Duration = Duration::from_millis(20);

/// A kill follows a new trial by this at most, seconds: about as long as a trial takes.
const KILL_WITHIN_S: f64 = 1.5;

/// How long a run may take after the last kill.
const FINISH_WITHIN: Duration = Duration::from_mins(15);

/// Kills a run again and again, resumes it, and in the end lets it finish.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    let folder = bench.folder.path().join("run");
    let mut random = fastrand::Rng::with_seed(1);
    let mut before: Option<Run> = None;
    for kill in 1..=bench.choose(2, 40) {
        let running = Running::start(&mut run(bench, &folder, kill > 1))?;
        if !goes_on(&running, &folder, before.as_ref())? {
            let ended = running.wait(Duration::ZERO)?;
            ensure!(is_measured(&ended), "before kill {kill} the run ended by itself, with {:?}", ended.code);
            break;
        }
        std::thread::sleep(Duration::from_secs_f64(random.f64() * KILL_WITHIN_S));
        running.signal(Signal::Kill)?;
        running.wait(Duration::from_secs(10))?;
        let run = survived(&folder, before.as_ref())?;
        eprintln!("kill {kill}: {} trials are there", run.trials.len());
        before = Some(run);
    }
    if bench.size == Size::Small {
        return Ok(());
    }
    let ended = Running::start(&mut run(bench, &folder, true))?.wait(FINISH_WITHIN)?;
    ensure!(is_measured(&ended), "the resumed run ended with {:?}", ended.code);
    let run = survived(&folder, before.as_ref())?;
    ensure!(run.finished_unix_ms.is_some(), "the resumed run is not marked as finished");
    eprintln!("finished with {} trials", run.trials.len());
    Ok(())
}

/// Waits until the run has committed one more trial; false when it ended without that.
fn goes_on(running: &Running, folder: &Path, before: Option<&Run>) -> Result<bool> {
    let known = before.map_or(0, |run| run.trials.len());
    // Until the run has made its store, reading it fails.
    while Store::read(&store(folder)).map_or(0, |run| run.trials.len()) <= known {
        if running.has_ended()? {
            return Ok(false);
        }
        std::thread::sleep(LOOK);
    }
    Ok(true)
}

fn store(folder: &Path) -> PathBuf {
    folder.join("run.sqlite")
}

/// Status 3 says that a figure is refused, which is for a busy host to be expected.
fn is_measured(ended: &Ended) -> bool {
    matches!(ended.code, Some(0 | 3))
}

/// The command for a run without name servers when small: those are not found on an empty path.
fn run(bench: &Bench, folder: &Path, resume: bool) -> Command {
    let mut command = Command::new(&bench.kqps.program);
    command.arg("run").arg("--out").arg(folder);
    if resume {
        command.arg("--resume");
    } else {
        command.args(["--budget", bench.choose("10s", "60s")]);
    }
    if bench.size == Size::Small {
        command.env("PATH", OsStr::new("/nonexistent"));
    }
    command
}

/// Reads the store after a kill, which must hold everything that it held before, unchanged.
fn survived(folder: &Path, before: Option<&Run>) -> Result<Run> {
    let after = Store::read(&store(folder)).context("a killed run's store cannot be read")?;
    let kept = before.is_none_or(|before| after.trials.starts_with(&before.trials));
    ensure!(kept, "a committed trial was lost or changed");
    let numbers = after.trials.iter().map(|trial| trial.number);
    ensure!(numbers.eq(1..=after.trials.len() as u64), "trials are not numbered from 1 on");
    once(&after)?;
    Ok(after)
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
