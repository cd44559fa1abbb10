//! Classifies a load by its trials: RFC 9971, appendices A and B.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::goal::Goal;
use super::probe::Probe;

/// The relation of a load to a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// The load meets the goal, whatever further trials would show.
    Lower,
    /// The load misses the goal, whatever further trials would show.
    Upper,
    /// Further trials must decide.
    Undecided,
}

/// Sums of durations, in seconds, of the trials at one load.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    full_good_s: f64,
    full_bad_s: f64,
    short_good_s: f64,
    short_bad_s: f64,
}

/// Half a microsecond: the error of a sum of durations, because 0.1 s has no exact binary form.
const SUM_ERROR_S: f64 = 5e-7;

impl Sums {
    fn new<'a>(goal: &Goal, probes: impl IntoIterator<Item = &'a Probe>) -> Self {
        let mut sums = Self::default();
        for probe in probes {
            let sum_s = match (is_full(goal, probe), probe.is_bad(goal)) {
                (true, false) => &mut sums.full_good_s,
                (true, true) => &mut sums.full_bad_s,
                (false, false) => &mut sums.short_good_s,
                (false, true) => &mut sums.short_bad_s,
            };
            *sum_s += counted_s(goal, probe);
        }
        sums
    }

    /// Seconds that count as bad: short good trials compensate for short bad ones.
    fn bad_s(&self, goal: &Goal) -> f64 {
        let forgiven_s = self.short_good_s * goal.exceed / (1.0 - goal.exceed);
        self.full_bad_s + (self.short_bad_s - forgiven_s).max(0.0)
    }

    fn class(&self, goal: &Goal) -> Class {
        let bad_s = self.bad_s(goal);
        let whole_s = (self.full_good_s + bad_s).max(goal.sum_s);
        let allowed_s = whole_s * goal.exceed + SUM_ERROR_S;
        let if_all_else_is_good = bad_s <= allowed_s;
        let if_all_else_is_bad = whole_s - self.full_good_s <= allowed_s;
        match (if_all_else_is_good, if_all_else_is_bad) {
            (true, true) => Class::Lower,
            (false, false) => Class::Upper,
            _ => Class::Undecided,
        }
    }
}

/// A trial that lasted this share of the final duration counts as full: the clock of a real trial never
/// stops at the exact moment.
const NEARLY_FULL: f64 = 0.99;

fn is_full(goal: &Goal, probe: &Probe) -> bool {
    probe.duration_s >= goal.final_s * NEARLY_FULL
}

/// The seconds that a trial adds to the sums. A nearly full one counts as full. Otherwise a sum of 21 s
/// would need a twenty-second trial after 21 trials of 0.9999 s.
fn counted_s(goal: &Goal, probe: &Probe) -> f64 {
    if is_full(goal, probe) { probe.duration_s.max(goal.final_s) } else { probe.duration_s }
}

/// The class of a load from its trials. The caller passes trials of one load only.
pub fn classify<'a>(goal: &Goal, probes: impl IntoIterator<Item = &'a Probe>) -> Class {
    Sums::new(goal, probes).class(goal)
}

/// Seconds of further full-length good trials that make the load a lower bound. Infinite if bad trials rule
/// it out because the goal allows none.
pub(super) fn good_s_wanted<'a>(goal: &Goal, probes: impl IntoIterator<Item = &'a Probe>) -> f64 {
    let sums = Sums::new(goal, probes);
    let bad_s = sums.bad_s(goal);
    let beside_bad_s = if bad_s > 0.0 { bad_s * (1.0 - goal.exceed) / goal.exceed } else { 0.0 };
    (beside_bad_s.max(goal.sum_s * (1.0 - goal.exceed)) - sums.full_good_s).max(0.0)
}

/// Seconds of further bad trials, whatever their length; any more than these make the load an upper bound.
pub(super) fn bad_s_wanted<'a>(goal: &Goal, probes: impl IntoIterator<Item = &'a Probe>) -> f64 {
    let sums = Sums::new(goal, probes);
    let beside_good_s = sums.full_good_s * goal.exceed / (1.0 - goal.exceed);
    (beside_good_s.max(goal.sum_s * goal.exceed) - sums.bad_s(goal)).max(0.0)
}

/// The conditional throughput in queries a second of a load that is a lower bound: the load minus the loss
/// of the worst trial within the share of trials that must be good.
pub fn conditional_throughput<'a>(
    goal: &Goal,
    load_qps: f64,
    probes: impl IntoIterator<Item = &'a Probe>,
) -> f64 {
    let mut full: Vec<&Probe> = probes.into_iter().filter(|probe| is_full(goal, probe)).collect();
    let is_bad = |probe: &Probe| probe.is_bad(goal);
    full.sort_by(|a, b| is_bad(a).cmp(&is_bad(b)).then(a.bad_ratio.total_cmp(&b.bad_ratio)));
    let full_s: f64 = full.iter().map(|probe| counted_s(goal, probe)).sum();
    let mut remaining_s = full_s.max(goal.sum_s) * (1.0 - goal.exceed);
    for probe in full {
        remaining_s -= counted_s(goal, probe);
        if remaining_s <= SUM_ERROR_S {
            return load_qps * (1.0 - probe.bad_ratio);
        }
    }
    0.0
}
