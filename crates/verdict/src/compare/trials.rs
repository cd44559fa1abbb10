//! The trials of a cell that a comparison takes its figure from.

use std::collections::BTreeMap;

use kqps_observation::run::{Purpose, RunTrial};
use kqps_observation::{Run, Trial};

use crate::evidence::{self, counted_at_last, is_sound};

/// Block → the trials that give the figure of the cell's start in it, for a given load. A start that failed has
/// none. Trials that the player or the host spoiled count only if all trials of the start are spoiled.
pub(super) fn figure_trials(run: &Run, cell: usize) -> BTreeMap<u32, Vec<&Trial>> {
    run.trials_by_block(cell)
        .into_iter()
        .map(|(block, trials)| (block, of_start(&trials)))
        .filter(|(_, trials)| !trials.is_empty())
        .collect()
}

fn of_start<'a>(trials: &[&'a RunTrial]) -> Vec<&'a Trial> {
    if trials.iter().any(|trial| trial.failure().is_some()) {
        return Vec::new();
    }
    let measured = trials.iter().filter_map(|one| Some((one.purpose, one.measured()?)));
    let measured: Vec<_> = measured.filter(|(purpose, _)| is_compared(*purpose)).collect();
    // The highest of several rates says most about a subject.
    let load_qps = |trial: &Trial| evidence::load_qps(trial).unwrap_or(0.0);
    let highest_qps = measured.iter().map(|(_, trial)| load_qps(trial)).fold(0.0, f64::max);
    let highest: Vec<_> = measured.into_iter().filter(|(_, trial)| load_qps(trial) >= highest_qps).collect();
    let sound: Vec<&Trial> =
        highest.iter().map(|(_, trial)| *trial).filter(|trial| is_sound(trial)).collect();
    if !sound.is_empty() {
        return sound;
    }
    counted_at_last(&highest, |(purpose, trial)| (*purpose, *trial))
        .into_iter()
        .map(|(_, trial)| *trial)
        .collect()
}

/// Whether a figure is taken from trials of this purpose; trials of a search are a case of their own.
pub(super) fn is_compared(purpose: Purpose) -> bool {
    matches!(purpose, Purpose::Ceiling | Purpose::Closed | Purpose::Rate)
}
