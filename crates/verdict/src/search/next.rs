//! Chooses the trial to make next. Coarse levels come first, so that the full sums are spent on two loads and
//! not on every step. Each call walks the levels from coarse to fine and returns the first trial that is
//! missing. If a later trial contradicts a coarse level, the search therefore returns to that level.

use kqps_observation::run::Purpose;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::at_load::{AtLoad, by_load};
use super::bounds::{Bounds, Pair};
use super::buffer::buffer_packets;
use super::class::{Class, conditional_throughput};
use super::futile::{Futile, futile};
use super::goal::Goal;
use super::level::{Level, Step};
use super::probe::{HELD_BACK, Probe};
use crate::narrow::narrow;

/// The knowledge of the search before the first trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Start {
    /// The bounds of another start of the same cell, lower and upper, queries a second: they are tried first.
    /// Without them, the search asks for an overload trial, which shows where to begin.
    pub bounds_qps: Option<(f64, f64)>,
}

/// The next step of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Next {
    /// Load the subject with more than it can answer (a closed loop, or the greatest load). The probe of
    /// this trial has [`Purpose::Ceiling`]; only its answered rate matters.
    Overload {
        /// Seconds that the trial lasts.
        duration_s: f64,
    },
    /// Load the subject in open loop.
    Trial {
        /// The load, queries a second.
        rate_qps: f64,
        /// Seconds that the trial lasts.
        duration_s: f64,
        /// [`Purpose::Search`] or [`Purpose::Retest`]. The probe of this trial must carry it.
        purpose: Purpose,
    },
    /// The search is over, with this result.
    Done(Bounds),
}

/// The most trials that a search makes. After these it ends with what it has.
pub fn most_trials(goal: &Goal) -> usize {
    let per_load = (goal.sum_s / goal.final_s).ceil() as usize;
    60 + 8 * per_load
}

/// Returns the next step. `probes` are all trials of this search so far, in the order in which they were made.
/// Probes that are neither search nor re-test nor overload are ignored. `goal` must pass [`Goal::check`].
pub fn next_trial(goal: &Goal, start: &Start, probes: &[Probe]) -> Next {
    let search = Search::new(goal, probes);
    if search.futile.is_some() {
        return Next::Done(search.so_far());
    }
    let Some(mut hint) = first_hint(goal, start, probes) else {
        return Next::Overload { duration_s: goal.final_s.min(1.0) };
    };
    if let Some(refuted_qps) = search.refuted_qps {
        return search.retest_again(RETESTS).unwrap_or_else(|| search.below_refuted(refuted_qps));
    }
    for level in &search.levels {
        match level.step(&search.loads, hint) {
            Step::Settled(pair) => hint = pair,
            Step::Ask(rate_qps) if search.has_time_for(level, rate_qps) => {
                return search.ask(level, rate_qps);
            }
            Step::Ask(_) => return search.hurry(),
        }
    }
    search.finish(hint, false)
}

/// The bounds from the trials of a search, whether or not it came to its end: for judging stored trials. It
/// needs no start.
pub fn bounds_found(goal: &Goal, probes: &[Probe]) -> Bounds {
    Search::new(goal, probes).so_far()
}

/// Where to begin: at the bounds of another start, or at a load a little below the rate answered under
/// overload.
fn first_hint(goal: &Goal, start: &Start, probes: &[Probe]) -> Option<Pair> {
    if let Some((lower_qps, upper_qps)) = start.bounds_qps {
        let (lower_qps, upper_qps) = (goal.round_load(lower_qps), goal.round_load(upper_qps));
        return Some(Pair { lower_qps: Some(lower_qps), upper_qps: Some(upper_qps) });
    }
    let overload = probes.iter().find(|probe| probe.purpose == Purpose::Ceiling)?;
    // A subject with much work per query answers late under overload, and in time below it.
    let answered_qps = if overload.answered_qps > 0.0 { overload.answered_qps } else { overload.late_qps };
    let below_qps = answered_qps * (1.0 - 2.0 * goal.width);
    // The greatest load held the overload back, and not the subject, which may answer all of it.
    let is_held_back = answered_qps >= goal.max_qps * HELD_BACK;
    let first_qps = if is_held_back { goal.max_qps } else { below_qps };
    Some(Pair { lower_qps: Some(goal.round_load(first_qps)), upper_qps: None })
}

/// A re-test is one trial, and a second one if the first is bad.
const RETESTS: usize = 2;

/// If both are bad and no lesser load can be established in time, more trials follow, up to this many, while
/// the goal can still be met: two trials that noise spoiled should not decide.
pub(super) const RETESTS_MOST: usize = 6;

/// Whether more trials of the re-test at a load were bad than the goal allows.
fn is_refuted(goal: &Goal, at: &AtLoad<'_>) -> bool {
    let (_, bad) = at.good_and_bad(goal);
    bad as f64 > at.probes.len() as f64 * goal.exceed
}

/// A search with the trials so far.
pub(super) struct Search<'a> {
    pub(super) goal: &'a Goal,
    pub(super) levels: Vec<Level>,
    pub(super) loads: Vec<AtLoad<'a>>,
    pub(super) probes: &'a [Probe],
    retests: Vec<AtLoad<'a>>,
    /// The least load that had met the goal and failed its re-test: neither it nor a greater load is a lower
    /// bound.
    pub(super) refuted_qps: Option<f64>,
    futile: Option<Futile>,
}

impl<'a> Search<'a> {
    fn new(goal: &'a Goal, probes: &'a [Probe]) -> Self {
        let loads = by_load(probes, |probe| probe.purpose == Purpose::Search);
        let levels = Level::all(goal, buffer_packets(probes));
        let retests = by_load(probes, |probe| probe.purpose == Purpose::Retest);
        let refuted_qps = retests.iter().find(|at| is_refuted(goal, at)).map(|at| at.load_qps);
        let futile = futile(goal, probes, &loads);
        Self { goal, levels, loads, probes, retests, refuted_qps, futile }
    }

    /// The bounds of the goal itself. A load that failed its re-test is no lower bound, and neither is a
    /// greater one.
    pub(super) fn bounds(&self) -> Pair {
        let last = self.last_level();
        let mut found = last.bounds(&self.loads);
        if let Some(refuted_qps) = self.refuted_qps {
            let below = self.loads.iter().filter(|at| at.load_qps < refuted_qps);
            found.lower_qps = Pair::relevant(below, |load_qps| last.goal_at(load_qps)).lower_qps;
        }
        found
    }

    fn so_far(&self) -> Bounds {
        let (found, incomplete) = self.bounds_so_far();
        self.result(found, incomplete)
    }

    pub(super) fn last_level(&self) -> &Level {
        self.levels.last().expect("the goal itself is a level")
    }

    pub(super) fn has_trials(&self) -> bool {
        self.probes.len() < most_trials(self.goal)
    }

    pub(super) fn ask(&self, level: &Level, rate_qps: f64) -> Next {
        let duration_s = level.duration_s(&self.loads, rate_qps);
        Next::Trial { rate_qps, duration_s, purpose: Purpose::Search }
    }

    /// The goal's bounds, and whether the search is incomplete because they are not yet close enough. If it is,
    /// the upper bound of a coarser level replaces a missing one. If it is not, a coarser level may still need
    /// trials, which does not matter.
    pub(super) fn bounds_so_far(&self) -> (Pair, bool) {
        let last = self.last_level();
        let mut found = self.bounds();
        let settled =
            self.futile.is_some() || matches!(last.step(&self.loads, Pair::default()), Step::Settled(_));
        if !settled {
            found.upper_qps = found.upper_qps.or_else(|| self.coarse_upper_qps(found.lower_qps));
        }
        (found, !settled)
    }

    /// The upper bound of a coarser level, above `lower_qps`.
    fn coarse_upper_qps(&self, lower_qps: Option<f64>) -> Option<f64> {
        let uppers = self.levels.iter().rev().filter_map(|level| level.bounds(&self.loads).upper_qps);
        uppers.into_iter().find(|upper_qps| lower_qps.is_none_or(|lower_qps| *upper_qps > lower_qps))
    }

    /// Another trial of a re-test that has too many bad ones so far, if it may still recover within `trials_most`
    /// trials and there is time.
    pub(super) fn retest_again(&self, trials_most: usize) -> Option<Next> {
        let bad_most = trials_most as f64 * self.goal.exceed;
        let may_recover = |at: &&AtLoad<'_>| at.good_and_bad(self.goal).1 as f64 <= bad_most;
        let open = self.retests.iter().filter(|at| is_refuted(self.goal, at)).find(may_recover)?;
        let duration_s = self.last_level().goal_at(open.load_qps).final_s;
        let next = Next::Trial { rate_qps: open.load_qps, duration_s, purpose: Purpose::Retest };
        self.may_overrun_for(duration_s).then_some(next)
    }

    /// The re-test of the lower bound, or the result.
    pub(super) fn finish(&self, found: Pair, incomplete: bool) -> Next {
        let bounds = self.result(found, incomplete);
        let Some(lower_qps) = found.lower_qps else { return Next::Done(bounds) };
        let duration_s = self.last_level().goal_at(lower_qps).final_s;
        if bounds.retests > 0 || !self.may_overrun_for(duration_s) {
            return Next::Done(bounds);
        }
        Next::Trial { rate_qps: lower_qps, duration_s, purpose: Purpose::Retest }
    }

    /// Whether even the greatest load meets the goal.
    fn is_met_at_most(&self) -> bool {
        let most_qps = self.goal.round_load(self.goal.max_qps);
        self.last_level().class_at(&self.loads, most_qps) == Class::Lower
    }

    fn result(&self, found: Pair, incomplete: bool) -> Bounds {
        let mut bounds = Bounds {
            lower_qps: found.lower_qps,
            upper_qps: found.upper_qps,
            irregular: found.lower_qps.is_some()
                && self.refuted_qps.is_none()
                && (found.upper_qps.is_none() || self.is_met_at_most()),
            incomplete,
            refuted_qps: self.refuted_qps,
            futile: self.futile,
            trials: narrow(self.probes.len()),
            ..Bounds::default()
        };
        if let Some(lower_qps) = found.lower_qps {
            let last = self.last_level();
            let goal = last.goal_at(lower_qps);
            let at_lower = self.loads.iter().filter(|at| at.load_qps.total_cmp(&lower_qps).is_eq());
            let at_lower = at_lower.flat_map(|at| at.probes.iter().copied());
            bounds.throughput_qps = Some(conditional_throughput(&goal, lower_qps, at_lower));
            bounds.hidden_share = last.hidden_share(lower_qps);
            let retests = self.retests.iter().find(|at| at.load_qps.total_cmp(&lower_qps).is_eq());
            bounds.retests = retests.map_or(0, |at| at.probes.len());
            bounds.retests_good = retests.map_or(0, |at| at.good_and_bad(self.goal).0);
        }
        bounds.drifted = match self.refuted_qps {
            Some(_) => Some(true),
            None => (bounds.retests > 0).then_some(bounds.is_shaky()),
        };
        (bounds.met_qps, bounds.missed_qps) = self.met_and_missed();
        bounds
    }

    /// The greatest load up to which no trial was bad, and the least load with a bad trial.
    fn met_and_missed(&self) -> (Option<f64>, Option<f64>) {
        let bears = |probe: &Probe| matches!(probe.purpose, Purpose::Search | Purpose::Retest);
        let loads = by_load(self.probes, bears);
        let is_missed = |at: &&AtLoad<'_>| at.good_and_bad(self.goal).1 > 0;
        let met = loads.iter().take_while(|at| !is_missed(at)).last();
        (met.map(|at| at.load_qps), loads.iter().find(is_missed).map(|at| at.load_qps))
    }
}
