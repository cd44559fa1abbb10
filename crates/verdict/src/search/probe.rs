//! The few facts of a trial that the search needs.

use kqps_observation::run::Purpose;
use kqps_observation::trial::LoadMode;
use kqps_observation::{Histogram, Trial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::goal::Goal;
use crate::warning::refuting;
use crate::{evidence, standstill};

/// A trial, as the search sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Probe {
    /// Intended load in queries a second at the reference speed, rounded by [`Goal::round_load`]; 0 for a
    /// closed loop.
    pub load_qps: f64,
    /// Seconds during which queries were sent.
    pub duration_s: f64,
    /// Seconds that the trial took, the drain included.
    pub wall_s: f64,
    /// Share of the intended queries that were not answered correctly in time, 0 to 1. Queries that were due
    /// while the host stood still are left out.
    pub bad_ratio: f64,
    /// Share of the intended queries that were answered wrongly, 0 to 1. The bad ratio includes it.
    #[serde(default)]
    pub wrong_ratio: f64,
    /// Whether the latency exceeded the goal's limit.
    pub too_slow: bool,
    /// Correct replies a second, at the reference speed.
    pub answered_qps: f64,
    /// Correct replies a second that came after the timeout, at the reference speed.
    #[serde(default)]
    pub late_qps: f64,
    /// Seconds after which a reply is late.
    #[serde(default)]
    pub timeout_s: f64,
    /// Median number of queries under way at once: latency times answered rate (Little's law). `None` without
    /// latencies, and for a closed loop that its highest rate held back.
    #[serde(default)]
    pub under_way: Option<f64>,
    /// The purpose of the trial. [`Purpose::Search`] and [`Purpose::Retest`] affect the bounds;
    /// [`Purpose::Ceiling`] is the overload that gives the first guess.
    pub purpose: Purpose,
}

impl Probe {
    /// Extracts the facts from a trial's record.
    ///
    /// The latency limit holds if at most 1 % of the latencies in the trial's histogram are above it. This
    /// applies to any number of samples, since a search must decide; a printed p99 needs 10,000 samples. A
    /// trial without a histogram is judged by its p99, or else by its longest latency. Without either it is too
    /// slow, since nothing shows that it was not.
    pub fn from_trial(trial: &Trial, goal: &Goal, purpose: Purpose) -> Self {
        let load_qps = evidence::load_qps(trial).map_or(0.0, |load_qps| goal.round_load(load_qps));
        Self {
            load_qps,
            duration_s: trial.load.duration_s,
            wall_s: trial.load.wall_s(),
            bad_ratio: standstill::bad_ratio(trial),
            wrong_ratio: refuting(trial) as f64 / trial.accounts.intended.max(1) as f64,
            too_slow: goal.p99_us.is_some_and(|limit_us| is_slow(trial, limit_us)),
            answered_qps: evidence::answered_qps(trial),
            late_qps: if trial.load.duration_s > 0.0 {
                trial.accounts.late as f64 / trial.load.duration_s
            } else {
                0.0
            },
            timeout_s: trial.load.timeout_s,
            under_way: under_way(trial),
            purpose,
        }
    }

    /// Whether this is a high-loss trial in the sense of RFC 9971.
    pub fn is_bad(&self, goal: &Goal) -> bool {
        self.bad_ratio > goal.loss || self.too_slow
    }
}

/// A closed loop that is answered at this share of its highest rate, or more, is held back by that rate and not by the
/// subject, and then no queue is full.
pub(super) const HELD_BACK: f64 = 0.9;

fn under_way(trial: &Trial) -> Option<f64> {
    let load = &trial.load;
    let limit_qps = load.intended_qps.filter(|_| load.mode == LoadMode::Closed);
    if limit_qps.is_some_and(|limit_qps| load.answered_qps >= limit_qps * HELD_BACK) {
        return None;
    }
    trial.latency_us.p50.map(|p50_us| p50_us as f64 / 1e6 * load.answered_qps)
}

fn is_slow(trial: &Trial, limit_us: u64) -> bool {
    let histogram = trial.histograms.get("latency").and_then(|text| Histogram::decode(text));
    if let Some(histogram) = histogram.filter(|histogram| !histogram.is_empty()) {
        return histogram.share_above(limit_us) > 0.01;
    }
    match (trial.latency_us.p99, trial.latency_us.max) {
        (Some(p99_us), _) => p99_us > limit_us,
        (None, Some(max_us)) => max_us > limit_us,
        (None, None) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Preset;
    use kqps_observation::Accounts;
    use kqps_observation::trial::LoadFacts;

    fn trial() -> Trial {
        Trial {
            load: LoadFacts { intended_qps: Some(1000.2), duration_s: 0.4998, ..LoadFacts::default() },
            accounts: Accounts { intended: 500, sent: 400, unsent: 100, correct: 400, ..Accounts::default() },
            ..Trial::default()
        }
    }

    #[test]
    fn unsent_queries_make_a_trial_bad() {
        let goal = Preset::Quick.goal();
        let probe = Probe::from_trial(&trial(), &goal, Purpose::Search);
        assert!((probe.load_qps - 1000.0).abs() < f64::EPSILON);
        assert!((probe.bad_ratio - 0.2).abs() < 1e-12);
        assert!(probe.is_bad(&goal));
    }

    #[test]
    fn a_closed_loop_shows_a_queue_unless_its_highest_rate_held_it_back() {
        let under_way = |answered_qps| {
            let mut trial = trial();
            trial.load.mode = LoadMode::Closed;
            trial.load.answered_qps = answered_qps;
            trial.latency_us.p50 = Some(100_000);
            Probe::from_trial(&trial, &Preset::Quick.goal(), Purpose::Ceiling).under_way
        };
        assert_eq!((under_way(990.0), under_way(500.0)), (None, Some(50.0)));
    }

    #[test]
    fn the_latency_limit_is_asked_of_the_histogram_whatever_its_size() {
        let goal = Goal { p99_us: Some(500), ..Preset::Quick.goal() };
        let mut trial = trial();
        assert!(Probe::from_trial(&trial, &goal, Purpose::Search).too_slow, "nothing shows that it was not");

        let mut histogram = Histogram::default();
        histogram.record_many_us(100, 99);
        histogram.record_us(900);
        trial.histograms.insert("latency".into(), histogram.encode());
        assert!(!Probe::from_trial(&trial, &goal, Purpose::Search).too_slow, "1 % may be above");
        histogram.record_us(900);
        trial.histograms.insert("latency".into(), histogram.encode());
        assert!(Probe::from_trial(&trial, &goal, Purpose::Search).too_slow);
    }
}
