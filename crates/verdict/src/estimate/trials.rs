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
            let played_qps = trial.load.intended_qps.filter(|qps| *qps > 0.0)?;
            let taken_qps = (played_qps - backlog(trial) / trial.load.duration_s) / speed;
            let is_bad = Probe::of(trial, goal, purpose).is_bad(goal);
            (taken_qps > 0.0).then_some(if is_bad {
                Evidence::Missed(taken_qps)
            } else {
                Evidence::Met(taken_qps)
            })
        }
        (Purpose::Closed | Purpose::Ceiling, LoadMode::Closed) => answered(trial, speed),
        _ => None,
    }
}

/// With more than half of the queries bad the median latency is that of queries without an answer.
const MOST_BAD: f64 = 0.5;

/// Queries that waited in the subject's buffers when the trial's time was up. A load that is too much fills them first, and only
/// then loses queries, so the subject took less than was played. If all queries were answered the wait for the last answers
/// tells how many these were; else the median of those under way (latency times rate, Little's law), for buffers that overflow
/// are full most of the time.
fn backlog(trial: &Trial) -> f64 {
    let (accounts, load) = (&trial.accounts, &trial.load);
    if accounts.correct == accounts.intended {
        return load.drain_s * load.answered_qps;
    }
    let median_s = trial.latency_us.p50.map_or(0.0, |p50_us| p50_us as f64 / 1e6);
    if accounts.bad_ratio() < MOST_BAD { median_s * load.answered_qps } else { 0.0 }
}

fn answered(trial: &Trial, speed: f64) -> Option<Evidence> {
    let answered_qps = trial.load.answered_qps / speed;
    (answered_qps > 0.0).then_some(Evidence::Answered(answered_qps))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Preset;
    use kqps_observation::trial::Load;
    use kqps_observation::{Accounts, Quantiles};

    const DURATION_S: f64 = 0.5;

    /// A trial at a subject that answers 100,000 queries a second and has room for so many that wait.
    fn played(load_qps: f64, room: f64) -> Trial {
        let capacity_qps = 100_000.0;
        let excess_qps = (load_qps - capacity_qps).max(0.0);
        let waiting = |after_s: f64| (excess_qps * after_s).min(room);
        let lost = excess_qps * DURATION_S - waiting(DURATION_S);
        let intended = (load_qps * DURATION_S).round();
        let correct = (intended - lost).round();
        Trial {
            load: Load {
                intended_qps: Some(load_qps),
                answered_qps: correct / DURATION_S,
                duration_s: DURATION_S,
                drain_s: if lost > 0.0 { 0.25 } else { waiting(DURATION_S) / capacity_qps },
                ..Load::default()
            },
            accounts: Accounts {
                intended: intended as u64,
                correct: correct as u64,
                lost: lost.round() as u64,
                ..Accounts::default()
            },
            latency_us: Quantiles {
                p50: Some((waiting(DURATION_S / 2.0) / capacity_qps * 1e6) as u64),
                ..Quantiles::default()
            },
            ..Trial::default()
        }
    }

    /// Short trials fill a large buffer and lose nothing at 4 % more than the subject answers.
    #[test]
    fn what_waits_in_buffers_was_not_answered_at_the_load() {
        let goal = Preset::Quick.goal();
        for room in [0.0, 300.0, 2_000.0] {
            let trials: Vec<Trial> =
                (0..40).map(|step| played(94_000.0 + 400.0 * f64::from(step), room)).collect();
            let sought: Vec<(Purpose, &Trial)> =
                trials.iter().map(|trial| (Purpose::Search, trial)).collect();
            let missed =
                sought.iter().filter(|(purpose, trial)| Probe::of(trial, &goal, *purpose).is_bad(&goal));
            let median_qps = of_search(&goal, &sought, Speed::Reference).unwrap().interval().median;
            assert!(missed.count() >= 12, "room for {room}");
            assert!((median_qps / 100_000.0 - 1.0).abs() < 0.006, "room for {room}: {median_qps}");
        }
    }
}
