//! Trials that a run keeps when it is killed: every committed one, unchanged, with the numbers from 1 on.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use kqps_observation::{Run, Store};

/// The name of the store in the folder of a run.
pub(super) const STORE: &str = "run.sqlite";

/// Reads the store of a run whose writer has ended. It must still hold all that it held before, unchanged.
pub(super) fn survived(folder: &Path, before: Option<&Run>) -> Result<Run> {
    let after = Store::read(&folder.join(STORE)).context("the store of a killed run cannot be read")?;
    let kept = before.is_none_or(|before| after.trials.starts_with(&before.trials));
    ensure!(kept, "a committed trial was lost or changed");
    let numbers = after.trials.iter().map(|trial| trial.number);
    ensure!(numbers.eq(1..=after.trials.len() as u64), "trials are not numbered from 1 on");
    Ok(after)
}

/// The number of committed trials, whether they were measured or not; 0 until the run has made its store.
pub(super) fn committed(folder: &Path) -> usize {
    Store::count_trials(&folder.join(STORE)).map_or(0, |count| count as usize)
}

/// The number of trials that were measured.
pub(super) fn measured(run: &Run) -> usize {
    run.trials.iter().filter(|one| one.measured().is_some()).count()
}
