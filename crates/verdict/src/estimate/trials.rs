//! What the trials of a cell say of its rate, at the reference speed or as the host came.

use std::collections::{BTreeMap, BTreeSet};

use kqps_observation::run::{Purpose, Role};
use kqps_observation::trial::LoadMode;
use kqps_observation::{Run, RunTrial, Trial};

use super::{Estimate, Evidence};
use crate::disturbed::disturbed;
use crate::evidence::{counted_at_last, counted_of_cell, speed};
use crate::search::{Goal, Probe};

/// At which speed rates are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speed {
    /// That of the reference, without what the host spoiled.
    Reference,
    /// That of the reference, with what the host spoiled: for want of other trials.
    ReferenceOfAll,
    /// As the cores were, stalls included.
    AsItCame,
}

/// The estimate of a cell. Where those that the host did not spoil do not bound it, all of its trials do at the reference speed,
/// however far apart they are. None where these do not either, and for a goal that does not ask for what half of the trials
/// do: then the bounds say it.
pub fn of_cell(run: &Run, cell: usize, goal: &Goal, at: Speed) -> Option<Estimate> {
    let of = |at| Estimate::of(&starts_of(run, cell, goal, at));
    of(at).or_else(|| of(Speed::ReferenceOfAll).filter(|_| at == Speed::Reference))
}

/// What every start of a cell says that did not fail.
pub(crate) fn starts_of(run: &Run, cell: usize, goal: &Goal, at: Speed) -> Vec<Vec<Evidence>> {
    let failed: BTreeSet<u32> =
        run.trials_of(cell).filter(|one| one.failure().is_some()).map(|one| one.block).collect();
    let trials: Vec<(&RunTrial, &Trial)> = match at {
        Speed::Reference => {
            counted_of_cell(run, cell).into_iter().filter(|(_, trial)| disturbed(trial).is_none()).collect()
        }
        Speed::ReferenceOfAll | Speed::AsItCame => {
            run.trials_of(cell).filter_map(|one| Some((one, one.measured()?))).collect()
        }
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
    let is_sought = |purpose: Purpose| !matches!(purpose, Purpose::Ceiling | Purpose::WarmUp);
    let all: Vec<_> = trials.iter().copied().filter(|(purpose, _)| is_sought(*purpose)).collect();
    let of = |trials: &[(Purpose, &Trial)], at| {
        let evidence = trials.iter().filter_map(|(purpose, trial)| evidence(goal, *purpose, trial, at));
        Estimate::of(&[evidence.collect()])
    };
    if at != Speed::Reference {
        return of(&all, at);
    }
    let counted = counted_at_last(&all, |one| *one).into_iter().copied();
    let undisturbed: Vec<_> = counted.filter(|(_, trial)| disturbed(trial).is_none()).collect();
    of(&undisturbed, at).or_else(|| of(&all, Speed::ReferenceOfAll))
}

/// The estimate of an echo's rate from one trial in a closed loop, at the reference speed. None where nothing was answered.
pub fn of_echo(trial: &Trial) -> Option<Estimate> {
    Estimate::of(&[answered(trial, speed(trial)).into_iter().collect()])
}

/// What a trial says; none of one that says nothing of the rate. What was played counts, and not what was wanted: the cores
/// may have been a little faster in the end than before.
fn evidence(goal: &Goal, purpose: Purpose, trial: &Trial, at: Speed) -> Option<Evidence> {
    let speed = if at == Speed::AsItCame { 1.0 } else { speed(trial) };
    match (purpose, trial.load.mode) {
        (Purpose::Search | Purpose::Retest | Purpose::Refine, LoadMode::Open) if goal.wants_half() => {
            let played_qps = trial.load.intended_qps.filter(|qps| *qps > 0.0)?;
            let less = |queries: f64| (played_qps - queries / trial.load.duration_s) / speed;
            if Probe::of(trial, goal, purpose).is_bad(goal) {
                Some(less(under_way(trial))).filter(|qps| *qps > 0.0).map(Evidence::Missed)
            } else {
                Some(
                    growing(trial)
                        .map_or(Evidence::Met(less(0.0)), |waiting| Evidence::Answered(less(waiting))),
                )
            }
        }
        (Purpose::Closed | Purpose::Ceiling, LoadMode::Closed) => answered(trial, speed),
        _ => None,
    }
}

/// With more than half of the queries bad the median latency is that of queries without an answer.
const MOST_BAD: f64 = 0.5;

/// How many queries waited in the subject's buffers, in the median over a trial that lost some: those under way (latency times
/// rate, Little's law) without what the least latency keeps under way. Buffers that overflow are full most of the time, and what
/// filled them was not answered.
fn under_way(trial: &Trial) -> f64 {
    if trial.accounts.bad_ratio() >= MOST_BAD {
        return 0.0;
    }
    let latency_us = |us: Option<u64>| us.map_or(0.0, |us| us as f64);
    let waiting_us = latency_us(trial.latency_us.p50) - latency_us(trial.latency_us.min);
    (waiting_us / 1e6 * trial.load.answered_qps).max(0.0)
}

/// From this share of the queries on it shows that they wait.
const WAITING_LEAST: f64 = 0.002;

/// How many queries waited at the end of a trial that was answered whole while ever more of them waited. Buffers that hold them
/// hide that the load is too much, and it is known how much: the subject answered all but these. None of a subject that kept up,
/// though it may have stood still for a moment just before the end: then the median latency is as low as ever.
fn growing(trial: &Trial) -> Option<f64> {
    let (accounts, load) = (&trial.accounts, &trial.load);
    let after = accounts.correct.saturating_sub(load.correct_in_time?) as f64;
    let always = trial.latency_us.min? as f64 / 1e6 * load.answered_qps;
    let waiting = after - always;
    // Of a queue that grows steadily half as many wait in the median.
    let is_growing = waiting > accounts.intended as f64 * WAITING_LEAST && under_way(trial) > waiting / 4.0;
    is_growing.then_some(waiting)
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

    const CAPACITY_QPS: f64 = 100_000.0;

    /// A trial at a subject that has room for so many that wait, and is so far away.
    fn played(load_qps: f64, room: f64, away_s: f64) -> Trial {
        let excess_qps = (load_qps - CAPACITY_QPS).max(0.0);
        let waiting = |after_s: f64| (excess_qps * after_s).min(room);
        let lost = excess_qps * DURATION_S - waiting(DURATION_S);
        let intended = (load_qps * DURATION_S).round();
        let correct = (intended - lost).round();
        Trial {
            load: Load {
                intended_qps: Some(load_qps),
                answered_qps: correct / DURATION_S,
                duration_s: DURATION_S,
                correct_in_time: Some(
                    (correct - waiting(DURATION_S) - away_s * load_qps.min(CAPACITY_QPS)) as u64,
                ),
                ..Load::default()
            },
            accounts: Accounts {
                intended: intended as u64,
                correct: correct as u64,
                lost: lost.round() as u64,
                ..Accounts::default()
            },
            latency_us: Quantiles {
                min: Some((away_s * 1e6) as u64),
                p50: Some(((away_s + waiting(DURATION_S / 2.0) / CAPACITY_QPS) * 1e6) as u64),
                ..Quantiles::default()
            },
            ..Trial::default()
        }
    }

    /// Short trials fill a large buffer and lose nothing at 4 % more than the subject answers.
    #[test]
    fn what_waits_in_buffers_was_not_answered_at_the_load() {
        let goal = Preset::Quick.goal();
        for (room, away_s) in [(0.0, 0.0), (300.0, 0.0), (2_000.0, 0.0), (0.0, 0.05), (2_000.0, 0.05)] {
            let loads = (0..40).map(|step| 94_000.0 + 400.0 * f64::from(step));
            let trials: Vec<Trial> = loads.map(|load_qps| played(load_qps, room, away_s)).collect();
            let sought: Vec<(Purpose, &Trial)> =
                trials.iter().map(|trial| (Purpose::Search, trial)).collect();
            let missed =
                sought.iter().filter(|(purpose, trial)| Probe::of(trial, &goal, *purpose).is_bad(&goal));
            let median_qps = of_search(&goal, &sought, Speed::Reference).unwrap().interval().median;
            assert!(missed.count() >= 12, "room for {room}");
            assert!(
                (median_qps / 100_000.0 - 1.0).abs() < 0.006,
                "room for {room}, {away_s} s away: {median_qps}"
            );
        }
    }
}
