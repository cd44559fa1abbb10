//! A level of a search: the goal itself, or the goal with a smaller duration sum, which settles a load with fewer
//! trials. From the trials so far, a level knows its bounds, or which load to try next.

use super::at_load::AtLoad;
use super::bounds::Pair;
use super::class::{Class, bad_s_wanted, classify, good_s_wanted};
use super::goal::{BUFFERS_OUTLASTED, Goal};

/// Duration sums of the coarse levels, on a logarithmic scale from one trial (0) to the goal's sum (1).
const COARSE_SUMS: [f64; 2] = [0.0, 0.5];

/// The longest step of an expansion, as a factor.
pub(super) const LONGEST_STEP: f64 = 4.0;

pub(super) struct Level {
    goal: Goal,
    /// Packets that the buffers hold. Only the last level has it: buffers hide loss, so its trials at low loads
    /// must last longer.
    buffer_packets: Option<f64>,
}

/// The result of a level.
pub(super) enum Step {
    /// The level needs a trial at this load.
    Ask(f64),
    /// The bounds of the level. A bound is missing if the range of loads ended first.
    Settled(Pair),
}

impl Level {
    /// All levels, the coarsest first, the goal itself last.
    pub(super) fn all(goal: &Goal, buffer_packets: Option<f64>) -> Vec<Self> {
        let coarse = COARSE_SUMS.iter().map(|share| {
            let sum_s = goal.final_s * (goal.sum_s / goal.final_s).powf(*share);
            Self { goal: Goal { sum_s, ..goal.clone() }, buffer_packets: None }
        });
        let last = Self { goal: goal.clone(), buffer_packets };
        coarse.chain([last]).collect()
    }

    /// The level's goal at a load. A trial never becomes longer than the duration sum.
    pub(super) fn goal_at(&self, load_qps: f64) -> Goal {
        let mut goal = self.goal.clone();
        if let Some(packets) = self.buffer_packets {
            let outlasted_s = BUFFERS_OUTLASTED * packets / (goal.width * load_qps);
            goal.final_s = goal.final_s.max(outlasted_s.min(goal.sum_s));
        }
        goal
    }

    /// The share of a load that the buffers can hide in a full-length trial; `None` if their size is not known.
    pub(super) fn hidden_share(&self, load_qps: f64) -> Option<f64> {
        self.buffer_packets.map(|packets| packets / (load_qps * self.goal_at(load_qps).final_s))
    }

    pub(super) fn class_at(&self, loads: &[AtLoad<'_>], load_qps: f64) -> Class {
        let probes = at(loads, load_qps).map(|at| at.probes.as_slice()).unwrap_or_default();
        classify(&self.goal_at(load_qps), probes.iter().copied())
    }

    pub(super) fn bounds(&self, loads: &[AtLoad<'_>]) -> Pair {
        Pair::relevant(loads, |load_qps| self.goal_at(load_qps))
    }

    /// Seconds that the next trial at a load lasts. If all so far were bad, it lasts as long as an upper bound
    /// still needs, and a hundredth longer: three bad trials of half a second then exceed half of a sum of
    /// three seconds, and no fourth is needed. Bad trials count however short they are, so that an upper bound
    /// does not wait for buffers to fill.
    pub(super) fn duration_s(&self, loads: &[AtLoad<'_>], load_qps: f64) -> f64 {
        let goal = self.goal_at(load_qps);
        let Some(at) = at(loads, load_qps).filter(|at| at.probes.iter().all(|probe| probe.is_bad(&goal)))
        else {
            return goal.final_s;
        };
        let wanted_s = bad_s_wanted(&goal, at.probes.iter().copied());
        wanted_s.clamp(self.goal.final_s, goal.final_s) * 1.01
    }

    /// Seconds of further trials that make a load a lower bound of this level, if all of them are good.
    pub(super) fn lower_wants_s(&self, loads: &[AtLoad<'_>], load_qps: f64) -> f64 {
        let goal = self.goal_at(load_qps);
        let probes = at(loads, load_qps).map(|at| at.probes.as_slice()).unwrap_or_default();
        (good_s_wanted(&goal, probes.iter().copied()) / goal.final_s).ceil() * goal.final_s
    }

    /// The next load to try, or the bounds. `hint` holds the bounds of the level before. Its loads are
    /// confirmed or refuted before any other load is tried.
    pub(super) fn step(&self, loads: &[AtLoad<'_>], hint: Pair) -> Step {
        let found = self.bounds(loads);
        let hinted = [hint.lower_qps, hint.upper_qps].into_iter().flatten();
        for load_qps in hinted.filter(|load_qps| found.holds(*load_qps)) {
            if self.class_at(loads, load_qps) == Class::Undecided {
                return Step::Ask(load_qps);
            }
        }
        let next_qps = match (found.lower_qps, found.upper_qps) {
            (Some(lower_qps), Some(upper_qps)) => self.between(loads, lower_qps, upper_qps),
            (Some(lower_qps), None) => (lower_qps < self.goal.max_qps).then(|| self.above(loads, lower_qps)),
            (None, Some(upper_qps)) => (upper_qps > self.goal.min_qps).then(|| self.below(loads, upper_qps)),
            (None, None) => Some(self.goal.round_load((self.goal.min_qps * self.goal.max_qps).sqrt())),
        };
        next_qps.map_or(Step::Settled(found), Step::Ask)
    }

    /// A load between two bounds: one near the middle that was begun already, or else one that follows from the
    /// upper bound's loss, or else the logarithmic middle. `None` if the bounds are close enough, or if nothing
    /// lies between them after rounding.
    fn between(&self, loads: &[AtLoad<'_>], lower_qps: f64, upper_qps: f64) -> Option<f64> {
        // The rounding of loads may make a step of exactly the width slightly wider.
        if (upper_qps - lower_qps) / upper_qps <= self.goal.width * 1.000_001 {
            return None;
        }
        let whole = (upper_qps / lower_qps).ln();
        let off_middle = |load_qps: f64| ((load_qps / lower_qps).ln() / whole - 0.5).abs();
        let is_inside = |load_qps: &f64| *load_qps > lower_qps && *load_qps < upper_qps;
        let begun = loads.iter().map(|at| at.load_qps).filter(is_inside);
        begun
            .filter(|load_qps| off_middle(*load_qps) <= 0.25)
            .filter(|load_qps| self.class_at(loads, *load_qps) == Class::Undecided)
            .min_by(|a, b| off_middle(*a).total_cmp(&off_middle(*b)))
            .or_else(|| self.beside_answered(loads, lower_qps, upper_qps))
            .or_else(|| Some(self.goal.round_load((lower_qps * upper_qps).sqrt())).filter(is_inside))
    }

    /// If the upper bound is far above what the subject answered there, the truth is probably near that
    /// answered rate: half a width below it, or half a width above. A small loss is ignored: with a soft knee
    /// it would lead down in tiny steps.
    fn beside_answered(&self, loads: &[AtLoad<'_>], lower_qps: f64, upper_qps: f64) -> Option<f64> {
        let width = self.goal.width;
        let answered_qps = self.answered_at(loads, upper_qps);
        if answered_qps >= upper_qps * (1.0 - 1.5 * width) || lower_qps >= upper_qps * (1.0 - 2.0 * width) {
            return None;
        }
        let beside = [answered_qps * (1.0 - width / 2.0), answered_qps * (1.0 + width / 2.0)];
        beside
            .map(|load_qps| self.goal.round_load(load_qps))
            .into_iter()
            .find(|load_qps| *load_qps > lower_qps * (1.0 + width / 2.0) && *load_qps < upper_qps)
    }

    /// The load that would have met the goal if the subject had answered no more than in the best trial at this
    /// one. The best trial counts because stalls spoil the others.
    fn answered_at(&self, loads: &[AtLoad<'_>], load_qps: f64) -> f64 {
        let probes = at(loads, load_qps).map(|at| at.probes.as_slice()).unwrap_or_default();
        let least_bad = probes.iter().map(|probe| probe.bad_ratio).fold(1.0, f64::min);
        load_qps * (1.0 - least_bad) / (1.0 - self.goal.loss)
    }

    /// The next step of an expansion, as a factor above 1: two widths, squared for every further bound of the
    /// same kind that this level found.
    fn stride(&self, loads: &[AtLoad<'_>], class: Class) -> f64 {
        let found = loads.iter().filter(|at| self.class_at(loads, at.load_qps) == class).count();
        let doublings = found.saturating_sub(1).min(16) as f64;
        let first = 1.0 / (1.0 - (2.0 * self.goal.width).min(0.5));
        first.powf(doublings.exp2()).min(LONGEST_STEP)
    }

    fn above(&self, loads: &[AtLoad<'_>], lower_qps: f64) -> f64 {
        self.goal.round_load(lower_qps * self.stride(loads, Class::Lower))
    }

    /// A load below an upper bound: one step below, or further if the answered rate there suggests it.
    pub(super) fn below(&self, loads: &[AtLoad<'_>], upper_qps: f64) -> f64 {
        let step_qps = upper_qps / self.stride(loads, Class::Upper);
        let answered_qps = self.answered_at(loads, upper_qps) * (1.0 - self.goal.width / 2.0);
        self.goal.round_load(step_qps.min(answered_qps.max(upper_qps / LONGEST_STEP)))
    }
}

fn at<'a, 'p>(loads: &'a [AtLoad<'p>], load_qps: f64) -> Option<&'a AtLoad<'p>> {
    let index = loads.binary_search_by(|at| at.load_qps.total_cmp(&load_qps)).ok()?;
    Some(&loads[index])
}
