//! Reads the evidence of a cell's trials about its rate, at the reference speed or as the host came.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use kqps_observation::run::{Purpose, Role};
use kqps_observation::trial::LoadMode;
use kqps_observation::{Run, RunTrial, Trial};

use super::{Estimate, Evidence};
use crate::evidence::{counted_at_last, counted_of_cell, is_sound, speed};
use crate::search::{Goal, Probe};

/// The core speed at which rates are stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speed {
    /// The reference speed. Trials that the host or the player spoiled are left out if the rest bounds the
    /// rate.
    Reference,
    /// The speed that the cores had, stalls included.
    AsItCame,
}

/// The trials that an estimate rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    /// Trials that neither the host nor the player spoiled, and that were so short that the speed before and
    /// after them held in between.
    Short,
    /// Trials that neither the host nor the player spoiled.
    Undisturbed,
    All,
}

/// Seconds. If there are shorter trials, a gauged trial that lasts longer than this, and longer than the goal's
/// own trials, says little: the host may have had another speed in between.
const SHORT_S: f64 = 1.0;

/// A re-test of a load lasts a hundredth longer.
const LONGER: f64 = 1.02;

impl Which {
    /// The choices to try in turn, from the strictest: if some trials do not bound a rate, more of them may,
    /// however far they scatter.
    fn to_try(at: Speed) -> &'static [Self] {
        match at {
            Speed::Reference => &[Self::Short, Self::Undisturbed, Self::All],
            Speed::AsItCame => &[Self::All],
        }
    }

    /// Marks an estimate by this choice, if it rests on spoiled trials that were to be left out.
    fn mark(self, estimate: Estimate, at: Speed) -> Estimate {
        let rests_on_spoiled = self == Self::All && at == Speed::Reference;
        Estimate { rests_on_spoiled, ..estimate }
    }

    /// Whether the choice includes a trial that counts.
    fn has(self, trial: &Trial, goal: &Goal) -> bool {
        let is_short =
            || trial.speed.is_none() || trial.load.duration_s <= SHORT_S.max(goal.final_s) * LONGER;
        match self {
            Self::Short => is_short() && is_sound(trial),
            Self::Undisturbed => is_sound(trial),
            Self::All => true,
        }
    }
}

/// The estimate of a cell, or `None` if its trials do not bound it. It is also `None` for a goal that allows
/// another share of bad trials than half: the bounds give the figure then.
pub fn of_cell(run: &Run, cell: usize, goal: &Goal, at: Speed) -> Option<Estimate> {
    of_cells(run, &[cell], goal, at)
}

/// The estimate over cells that measure the same.
pub(crate) fn of_cells(run: &Run, cells: &[usize], goal: &Goal, at: Speed) -> Option<Estimate> {
    Which::to_try(at).iter().find_map(|which| {
        let starts: Vec<_> =
            cells.iter().flat_map(|&cell| starts(run, cell, goal, at, *which).into_values()).collect();
        Some(which.mark(Estimate::from_starts(&starts)?, at))
    })
}

/// The rate of every start of a cell whose trials bound it, by block, at the reference speed: the median of an estimate
/// from the trials of that start alone.
pub(crate) fn rates_of_starts(run: &Run, cell: usize, goal: &Goal) -> BTreeMap<u32, f64> {
    let at = Speed::Reference;
    let mut rates_qps = BTreeMap::new();
    for which in Which::to_try(at) {
        for (block, evidence) in starts(run, cell, goal, at, *which) {
            if let Entry::Vacant(rate) = rates_qps.entry(block)
                && let Some(estimate) = Estimate::from_starts(&[evidence])
            {
                rate.insert(estimate.quantile(0.5));
            }
        }
    }
    rates_qps
}

/// The evidence of every start of a cell that did not fail, by block.
fn starts(run: &Run, cell: usize, goal: &Goal, at: Speed, which: Which) -> BTreeMap<u32, Vec<Evidence>> {
    let failed: BTreeSet<u32> =
        run.trials_of(cell).filter(|one| one.failure().is_some()).map(|one| one.block).collect();
    let trials: Vec<(&RunTrial, &Trial)> = match which {
        Which::All => run.trials_of(cell).filter_map(|one| Some((one, one.measured()?))).collect(),
        _ => counted_of_cell(run, cell),
    };
    let is_overload = |purpose| purpose == Purpose::Ceiling && run.cells[cell].role == Role::Subject;
    let mut starts: BTreeMap<u32, Vec<Evidence>> = BTreeMap::new();
    for (one, trial) in trials.into_iter().filter(|(_, trial)| which.has(trial, goal)) {
        if !failed.contains(&one.block) && !is_overload(one.purpose) {
            starts.entry(one.block).or_default().extend(evidence(goal, one.purpose, trial, at));
        }
    }
    starts
}

/// The estimate of a search, whose trials are those of one start.
pub fn of_search(goal: &Goal, trials: &[(Purpose, &Trial)], at: Speed) -> Option<Estimate> {
    let is_sought = |purpose: Purpose| !matches!(purpose, Purpose::Ceiling | Purpose::WarmUp);
    let all: Vec<_> = trials.iter().copied().filter(|(purpose, _)| is_sought(*purpose)).collect();
    let counted: Vec<_> = counted_at_last(&all, |one| *one).into_iter().copied().collect();
    Which::to_try(at).iter().find_map(|which| {
        let trials = if *which == Which::All { &all } else { &counted };
        let trials = trials.iter().filter(|(_, trial)| which.has(trial, goal));
        let evidence = trials.filter_map(|(purpose, trial)| evidence(goal, *purpose, trial, at)).collect();
        Some(which.mark(Estimate::from_starts(&[evidence])?, at))
    })
}

/// The estimate of an echo's rate from one trial in a closed loop, at the reference speed. `None` if nothing
/// was answered.
pub fn of_echo(trial: &Trial) -> Option<Estimate> {
    Estimate::from_starts(&[answered(trial, speed(trial)).into_iter().collect()])
}

/// The evidence of a trial; `None` if it says nothing about the rate. The load that was played counts, not the
/// load that was wanted, since the player adapts the load to the speed of the cores.
fn evidence(goal: &Goal, purpose: Purpose, trial: &Trial, at: Speed) -> Option<Evidence> {
    let speed = if at == Speed::AsItCame { 1.0 } else { speed(trial) };
    match (purpose, trial.load.mode) {
        (Purpose::Search | Purpose::Retest | Purpose::Refine, LoadMode::Open) if goal.wants_half() => {
            let played_qps = trial.load.intended_qps.filter(|qps| *qps > 0.0)?;
            let less = |queries: f64| (played_qps - queries / trial.load.duration_s) / speed;
            if Probe::from_trial(trial, goal, purpose).is_bad(goal) {
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

/// If more than half of the queries are bad, the median latency is that of queries without an answer.
const MOST_BAD: f64 = 0.5;

/// How many queries waited in the subject's buffers, as a median over a trial with losses. By Little's law,
/// latency times rate gives the queries under way; those that the least latency accounts for are subtracted.
/// Buffers that overflow are full most of the time, and the subject did not answer what filled them.
fn under_way(trial: &Trial) -> f64 {
    if trial.accounts.bad_ratio() >= MOST_BAD {
        return 0.0;
    }
    let latency_us = |us: Option<u64>| us.map_or(0.0, |us| us as f64);
    let waiting_us = latency_us(trial.latency_us.p50) - latency_us(trial.latency_us.min);
    (waiting_us / 1e6 * trial.load.answered_qps).max(0.0)
}

/// From this share of the queries on, a queue is visible.
const WAITING_LEAST: f64 = 0.002;

/// How many queries waited at the end of a trial whose queries were all answered while the queue grew. A buffer
/// that holds the queue hides that the load is too great, but the excess is known: the subject answered all but
/// these. `None` if the subject kept up. A subject that stood still just before the end kept up too: its median
/// latency is as low as ever.
fn growing(trial: &Trial) -> Option<f64> {
    let (accounts, load) = (&trial.accounts, &trial.load);
    let after = accounts.correct.saturating_sub(load.correct_in_time?) as f64;
    let always = trial.latency_us.min? as f64 / 1e6 * load.answered_qps;
    let waiting = after - always;
    // In a queue that grows steadily, the median query sees half of its final length.
    let is_growing = waiting > accounts.intended as f64 * WAITING_LEAST && under_way(trial) > waiting / 4.0;
    is_growing.then_some(waiting)
}

/// Whether the queue grew throughout a trial in open loop whose queries were answered.
pub(crate) fn is_growing(trial: &Trial) -> bool {
    trial.load.mode == LoadMode::Open && growing(trial).is_some()
}

fn answered(trial: &Trial, speed: f64) -> Option<Evidence> {
    let answered_qps = trial.load.answered_qps / speed;
    (answered_qps > 0.0).then_some(Evidence::Answered(answered_qps))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Preset;
    use kqps_observation::trial::LoadFacts;
    use kqps_observation::{Accounts, CoreGauge, GaugeFacts, Quantiles, SpeedFacts};

    const DURATION_S: f64 = 0.5;

    const CAPACITY_QPS: f64 = 100_000.0;

    /// A trial of a subject that buffers up to `room` queries and is `away_s` seconds away.
    fn played(load_qps: f64, room: f64, away_s: f64) -> Trial {
        let excess_qps = (load_qps - CAPACITY_QPS).max(0.0);
        let waiting = |after_s: f64| (excess_qps * after_s).min(room);
        let lost = excess_qps * DURATION_S - waiting(DURATION_S);
        let intended = (load_qps * DURATION_S).round();
        let correct = (intended - lost).round();
        Trial {
            load: LoadFacts {
                intended_qps: Some(load_qps),
                answered_qps: correct / DURATION_S,
                duration_s: DURATION_S,
                correct_in_time: Some(
                    (correct - waiting(DURATION_S) - away_s * load_qps.min(CAPACITY_QPS)) as u64,
                ),
                ..LoadFacts::default()
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
            let missed = sought
                .iter()
                .filter(|(purpose, trial)| Probe::from_trial(trial, &goal, *purpose).is_bad(&goal));
            let median_qps = of_search(&goal, &sought, Speed::Reference).unwrap().interval().median;
            assert!(missed.count() >= 12, "room for {room}");
            assert!(
                (median_qps / 100_000.0 - 1.0).abs() < 0.006,
                "room for {room}, {away_s} s away: {median_qps}"
            );
        }
    }

    /// Trials that are good up to a load and bad from the next one on, with these speeds before and after.
    fn around(load_qps: f64, duration_s: f64, speeds: (f64, f64)) -> Vec<Trial> {
        let gauge =
            |turns_per_s| GaugeFacts { cores: vec![CoreGauge { cpu: 1, turns_per_s, stalled_s: 0.0 }] };
        let loads = (-10..=10).map(|step| load_qps * (1.0 + f64::from(step) / 200.0));
        let trial = |played_qps: f64| {
            let intended = (played_qps * duration_s) as u64;
            let lost = if played_qps > load_qps { intended / 20 } else { 0 };
            Trial {
                load: LoadFacts { intended_qps: Some(played_qps), duration_s, ..LoadFacts::default() },
                accounts: Accounts { intended, correct: intended - lost, lost, ..Accounts::default() },
                speed: Some(SpeedFacts {
                    before: gauge(speeds.0),
                    after: gauge(speeds.1),
                    reference_turns_per_s: 100.0,
                    ..SpeedFacts::default()
                }),
                ..Trial::default()
            }
        };
        loads.map(trial).collect()
    }

    fn median_qps(trials: &[Vec<Trial>]) -> f64 {
        let sought: Vec<(Purpose, &Trial)> =
            trials.iter().flatten().map(|trial| (Purpose::Refine, trial)).collect();
        of_search(&Preset::Quick.goal(), &sought, Speed::Reference).unwrap().interval().median
    }

    #[test]
    fn what_the_host_spoiled_counts_for_want_of_others() {
        let undisturbed = around(100e3, 0.1, (100.0, 100.0));
        let spoiled = around(60e3, 0.1, (115.0, 85.0));
        assert!((median_qps(&[spoiled.clone(), undisturbed]) / 100e3 - 1.0).abs() < 0.01);
        assert!((median_qps(&[spoiled]) / 60e3 - 1.0).abs() < 0.01);
    }

    #[test]
    fn what_the_player_spoiled_counts_for_want_of_others() {
        let good = around(100e3, 0.5, (100.0, 100.0));
        let mut spoiled = around(60e3, 0.5, (100.0, 100.0));
        for trial in &mut spoiled {
            trial.players.first.socket_drops = trial.accounts.intended / 10;
        }
        assert!((median_qps(&[spoiled.clone(), good]) / 100e3 - 1.0).abs() < 0.01);
        assert!((median_qps(&[spoiled]) / 60e3 - 1.0).abs() < 0.01);
    }

    #[test]
    fn a_load_tried_once_more_and_trials_of_a_goal_that_wants_long_ones_are_short() {
        let has = |duration_s, final_s| {
            let trial = &around(100e3, duration_s, (100.0, 100.0))[0];
            Which::Short.has(trial, &Goal { final_s, ..Preset::Default.goal() })
        };
        assert!(has(1.01, 1.0) && has(2.02, 2.0));
        assert!(!has(1.35, 1.0) && !has(1.35, 0.5));
    }

    #[test]
    fn what_lasted_so_long_that_the_speed_may_have_been_another_counts_for_want_of_others() {
        let short = around(100e3, 0.5, (100.0, 100.0));
        let long = around(60e3, 2.0, (100.0, 100.0));
        let not_gauged = |trial: &Trial| Trial { speed: None, ..trial.clone() };
        let not_gauged: Vec<Trial> = long.iter().map(not_gauged).collect();
        assert!(
            (median_qps(&[long.clone(), long.clone(), long.clone(), short.clone()]) / 100e3 - 1.0).abs()
                < 0.01
        );
        assert!((median_qps(&[long]) / 60e3 - 1.0).abs() < 0.01);
        // A target on another host has no gauge, and all of its trials count.
        let of_all_qps = median_qps(&[not_gauged.clone(), not_gauged.clone(), not_gauged, short]);
        assert!(of_all_qps < 70e3, "{of_all_qps}");
    }
}
