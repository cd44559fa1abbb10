//! How a search manages its time: it reserves the time for a lower bound and, once only that is left,
//! establishes one.

use super::bounds::Pair;
use super::level::{LONGEST_STEP, Level};
use super::next::{Next, RETESTS_MOST, Search};

/// A search without a lower bound may take this multiple of its limit, and so may a search that refines an
/// estimate.
pub const LATEST: f64 = 1.15;

/// A load with at least this probability of being a lower bound is worth a trial.
const LIKELY: f64 = 0.5;

/// If the time is too short to come closer, the next load is lower by at least this factor: noise that spoiled
/// the loads above would spoil those just below as well.
const HURRIED_STEP: f64 = 1.25;

impl Search<'_> {
    /// Whether a trial fits, so that the search still ends within its limit. The time for a lower bound and its
    /// re-test is reserved.
    pub(super) fn has_time_for(&self, level: &Level, rate_qps: f64) -> bool {
        if self.loads.is_empty() {
            // The overload, or two spoiled trials, do not show how long trials take.
            return self.may_overrun_for(level.duration_s(&self.loads, rate_qps));
        }
        let ends_s = self.spent_s() + level.duration_s(&self.loads, rate_qps) + self.beside_s();
        self.has_trials() && ends_s + self.kept_back_s(rate_qps) <= self.goal.limit_s
    }

    /// Whether indispensable trials end soon enough, if they need no drain.
    pub(super) fn may_overrun_for(&self, duration_s: f64) -> bool {
        self.has_trials() && self.spent_s() + duration_s <= self.goal.limit_s * LATEST
    }

    fn spent_s(&self) -> f64 {
        self.probes.iter().map(|probe| probe.wall_s).sum()
    }

    /// Mean seconds that a trial takes beyond its duration: its drain, and the spoiled trials that it replaces.
    fn beside_s(&self) -> f64 {
        let beside = self.probes.iter().map(|probe| probe.wall_s - probe.duration_s);
        beside.sum::<f64>() / self.probes.len().max(1) as f64
    }

    /// Seconds from now on to establish a lower bound and re-test it. The bound is assumed near `rate_qps` if
    /// no better guess exists. If trials at one load disagree, the first attempt may fail, so the time for a
    /// second is included.
    fn kept_back_s(&self, rate_qps: f64) -> f64 {
        let found = self.last_level().bounds(&self.loads);
        let Some(lower_qps) = found.lower_qps else {
            let attempts = if self.is_noisy() { 2.0 } else { 1.0 };
            return attempts * self.sure_s(self.hope_qps(found).unwrap_or(rate_qps));
        };
        // The re-test may fail.
        let again_s = if self.is_noisy() { self.sure_s(lower_qps / HURRIED_STEP) } else { 0.0 };
        self.sure_s(lower_qps) + again_s
    }

    /// Seconds of trials that establish a lower bound, if none of them is bad, and of its re-test.
    fn sure_s(&self, lower_qps: f64) -> f64 {
        let final_s = self.last_level().goal_at(lower_qps).final_s;
        let wanted_s = self.wants_s(lower_qps).min(self.goal.sum_s);
        wanted_s + final_s + (wanted_s / final_s + 1.0) * self.beside_s()
    }

    /// Whether some load was good in one trial and bad in another.
    fn is_noisy(&self) -> bool {
        self.loads.iter().any(|at| {
            let (good, bad) = at.good_and_bad(self.goal);
            good > 0 && bad > 0
        })
    }

    /// The next step without time to come closer: establish a lower bound, and end.
    pub(super) fn hurry(&self) -> Next {
        let last = self.last_level();
        let found = last.bounds(&self.loads);
        if found.lower_qps.is_none()
            && let Some(rate_qps) = self.best_hope_qps(found)
        {
            return self.ask(last, rate_qps);
        }
        let (found, incomplete) = self.bounds_so_far();
        self.finish(found, incomplete)
    }

    /// The next step after the lower bound failed its re-test: establish a lesser bound while there is time,
    /// and re-test it. Loads just below would probably fail as well, so a load well below comes first, and
    /// otherwise one that was begun.
    pub(super) fn below_refuted(&self, refuted_qps: f64) -> Next {
        let (found, incomplete) = self.bounds_so_far();
        if found.lower_qps.is_some() {
            return self.finish(found, incomplete);
        }
        // Slightly more, since loads are rounded.
        let well_below_qps = refuted_qps / HURRIED_STEP * 1.01;
        let below = |limit_qps: f64| {
            let upper_qps = found.upper_qps.map_or(limit_qps, |upper_qps| upper_qps.min(limit_qps));
            self.best_hope_qps(Pair { lower_qps: None, upper_qps: Some(upper_qps) })
        };
        match below(well_below_qps).or_else(|| below(refuted_qps)) {
            Some(rate_qps) => self.ask(self.last_level(), rate_qps),
            None => self.retest_again(RETESTS_MOST).unwrap_or_else(|| self.finish(found, incomplete)),
        }
    }

    /// The load that is most likely a lower bound in the time that is left: one that was begun, or one well
    /// below all failed loads. It is a greater load that is likely too, if one more trial of it leaves the time
    /// to fall back.
    fn best_hope_qps(&self, found: Pair) -> Option<f64> {
        let begun = self.loads.iter().map(|at| at.load_qps);
        let hopes = begun.chain(self.well_below_qps()).filter(|load_qps| found.holds(*load_qps));
        let in_time = hopes.filter(|load_qps| self.may_overrun_for(self.wants_s(*load_qps)));
        let hopes: Vec<(f64, f64)> = in_time.map(|load_qps| (load_qps, self.chance(load_qps))).collect();
        let (safest_qps, _) = hopes.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let fallback_s = self.beside_s() + self.wants_s(safest_qps);
        let leaves_time = |load_qps: f64| {
            let trial_s = self.last_level().duration_s(&self.loads, load_qps);
            self.may_overrun_for(trial_s + fallback_s)
        };
        let likely = hopes.iter().filter(|(load_qps, chance)| *chance >= LIKELY && leaves_time(*load_qps));
        likely.map(|(load_qps, _)| *load_qps).reduce(f64::max).or(Some(safest_qps))
    }

    /// Seconds of further trials that make a load a lower bound, if none of them is bad.
    fn wants_s(&self, load_qps: f64) -> f64 {
        self.last_level().lower_wants_s(&self.loads, load_qps)
    }

    /// The probability that a load is a lower bound after the fewest trials that can show it. A trial that was
    /// good at a greater load would have been good at this one, and a trial that was bad at a lesser load would
    /// have been bad.
    fn chance(&self, load_qps: f64) -> f64 {
        let (mut good, mut bad) = (0, 0);
        for at in &self.loads {
            let (good_there, bad_there) = at.good_and_bad(self.goal);
            good += if at.load_qps >= load_qps { good_there } else { 0 };
            bad += if at.load_qps <= load_qps { bad_there } else { 0 };
        }
        let trials = self.wants_s(load_qps) / self.last_level().goal_at(load_qps).final_s;
        // Laplace's rule of succession, for each of the trials.
        ((good + 1) as f64 / (good + bad + 2) as f64).powf(trials)
    }

    /// The lower bound of a coarser level, if it may still be one of the last level.
    fn hope_qps(&self, found: Pair) -> Option<f64> {
        let lowers = self.levels.iter().rev().filter_map(|level| level.bounds(&self.loads).lower_qps);
        lowers.into_iter().find(|lower_qps| found.holds(*lower_qps))
    }

    /// A load with a good chance, because it is far below every load that ever failed: one that was tried, or a
    /// new one. Each time, the distance below the least failed load equals its distance from the greatest load
    /// that was ever good: a failure that far below was no matter of a few per cent.
    fn well_below_qps(&self) -> Option<f64> {
        let failed = self.loads.iter().find(|at| at.good_and_bad(self.goal).1 > 0);
        let failed = failed.map(|at| at.load_qps).into_iter().chain(self.refuted_qps).reduce(f64::min);
        let Some(failed_qps) = failed else {
            return self.loads.first().map(|at| at.load_qps);
        };
        let reached = self.loads.iter().rev().find(|at| at.good_and_bad(self.goal).0 > 0);
        let reached_qps = reached.map_or(failed_qps, |at| at.load_qps);
        let again_qps = failed_qps * (failed_qps / reached_qps).clamp(1.0 / LONGEST_STEP, 1.0 / HURRIED_STEP);
        let below_qps = self.last_level().below(&self.loads, failed_qps);
        let below_qps = self.goal.round_load(below_qps.min(again_qps));
        let tried = self.loads.iter().rev().map(|at| at.load_qps).find(|load_qps| *load_qps <= below_qps);
        (failed_qps > self.goal.min_qps).then(|| tried.unwrap_or(below_qps))
    }
}
