//! What the trials of a cell say of its rate, at the reference speed or as the host came.

use std::collections::{BTreeMap, BTreeSet};

use kqps_observation::run::{Purpose, Role};
use kqps_observation::trial::LoadMode;
use kqps_observation::{Run, RunTrial, Trial};

use super::{Estimate, Evidence};
use crate::evidence::{counted_of_cell, speed};
use crate::search::{Goal, Probe};

/// At which speed rates are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speed {
    /// That of the reference, without what the host spoiled.
    Reference,
    /// As the cores were, stalls included.
    AsItCame,
}

/// The estimate of a cell. None where its trials do not bound it, and for a goal that does not ask for what half of the trials
/// do: then the bounds say it.
pub fn of_cell(run: &Run, cell: usize, goal: &Goal, at: Speed) -> Option<Estimate> {
    Estimate::of(&starts_of(run, cell, goal, at))
}

/// What every start of a cell says that did not fail.
pub(crate) fn starts_of(run: &Run, cell: usize, goal: &Goal, at: Speed) -> Vec<Vec<Evidence>> {
    let failed: BTreeSet<u32> =
        run.trials_of(cell).filter(|one| one.failure().is_some()).map(|one| one.block).collect();
    let trials: Vec<(&RunTrial, &Trial)> = match at {
        Speed::Reference => counted_of_cell(run, cell),
        Speed::AsItCame => run.trials_of(cell).filter_map(|one| Some((one, one.measured()?))).collect(),
    };
    let is_overload = |purpose| purpose == Purpose::Ceiling && run.cells[cell].role == Role::Subject;
    let mut starts: BTreeMap<u32, Vec<Evidence>> = BTreeMap::new();
    for (one, trial) in trials {
        if !failed.contains(&one.block) && !is_overload(one.purpose) {
            starts.entry(one.block).or_default().extend(evidence(goal, one.purpose, trial, at));
        }
    }
    starts.into_values().collect()
}

/// The same of a search, whose trials are those of one start.
pub fn of_search(goal: &Goal, trials: &[(Purpose, &Trial)], at: Speed) -> Option<Estimate> {
    let sought = trials.iter().filter(|(purpose, _)| *purpose != Purpose::Ceiling);
    Estimate::of(&[sought.filter_map(|(purpose, trial)| evidence(goal, *purpose, trial, at)).collect()])
}

/// What a trial says; none of one that says nothing of the rate. What was played counts, and not what was wanted: the cores
/// may have been a little faster in the end than before.
fn evidence(goal: &Goal, purpose: Purpose, trial: &Trial, at: Speed) -> Option<Evidence> {
    let speed = if at == Speed::Reference { speed(trial) } else { 1.0 };
    match (purpose, trial.load.mode) {
        (Purpose::Search | Purpose::Retest | Purpose::Refine, LoadMode::Open) if goal.wants_half() => {
            let played_qps = trial.load.intended_qps.filter(|qps| *qps > 0.0)? / speed;
            let is_bad = Probe::of(trial, goal, purpose).is_bad(goal);
            Some(if is_bad { Evidence::Missed(played_qps) } else { Evidence::Met(played_qps) })
        }
        (Purpose::Closed | Purpose::Ceiling, LoadMode::Closed) => answered(trial, speed),
        _ => None,
    }
}

fn answered(trial: &Trial, speed: f64) -> Option<Evidence> {
    let answered_qps = trial.load.answered_qps / speed;
    (answered_qps > 0.0).then_some(Evidence::Answered(answered_qps))
}
