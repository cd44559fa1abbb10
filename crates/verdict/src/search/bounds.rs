//! The bounds of a goal among the loads tried.

use serde::{Deserialize, Serialize};

use super::class::{Class, classify};
use super::goal::Goal;
use super::probe::Probe;

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    /// The Relevant Lower Bound, queries a second; none when even the least load misses the goal.
    pub lower_qps: Option<f64>,
    /// The Relevant Upper Bound, queries a second; none when even the greatest load meets the goal.
    pub upper_qps: Option<f64>,
    /// Conditional throughput at the lower bound, correct answers a second.
    pub throughput_qps: Option<f64>,
    /// The greatest load is a lower bound, or there is no upper bound: the subject may be faster than what was tried.
    pub irregular: bool,
    /// Whether the lower bound no longer held when it was tried once more at the end; none where it was not tried again.
    pub drifted: Option<bool>,
    /// The time or the number of trials was used up first: the bounds are farther apart than the goal's width,
    /// and the upper one may rest on fewer trials.
    pub incomplete: bool,
    /// The user ended the search before it was over. What it lacks by then is no finding.
    #[serde(default)]
    pub interrupted: bool,
    /// Share of the load that the subject's buffers could have hidden in a full-length trial at the lower
    /// bound, where their size is known.
    pub hidden_share: Option<f64>,
    /// Trials that the search made, the overload included.
    pub trials: u32,
}

/// Trials at one load.
pub(super) struct AtLoad<'a> {
    pub(super) load_qps: f64,
    pub(super) probes: Vec<&'a Probe>,
}

impl AtLoad<'_> {
    /// How many of its trials were good, and how many bad.
    pub(super) fn good_and_bad(&self, goal: &Goal) -> (usize, usize) {
        let bad = self.probes.iter().filter(|probe| probe.is_bad(goal)).count();
        (self.probes.len() - bad, bad)
    }
}

/// Search probes by load, in rising order.
pub(super) fn by_load(probes: &[Probe], wanted: impl Fn(&Probe) -> bool) -> Vec<AtLoad<'_>> {
    let mut loads: Vec<AtLoad<'_>> = Vec::new();
    for probe in probes.iter().filter(|probe| probe.load_qps > 0.0 && wanted(probe)) {
        match loads.binary_search_by(|at| at.load_qps.total_cmp(&probe.load_qps)) {
            Ok(index) => loads[index].probes.push(probe),
            Err(index) => loads.insert(index, AtLoad { load_qps: probe.load_qps, probes: vec![probe] }),
        }
    }
    loads
}

/// The Relevant Lower and Upper Bounds: the smallest upper bound, and the largest lower bound below it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Pair {
    pub(super) lower_qps: Option<f64>,
    pub(super) upper_qps: Option<f64>,
}

impl Pair {
    /// `goal_at` gives the goal as it is at a load, which differs where buffers ask for longer trials.
    pub(super) fn relevant(loads: &[AtLoad<'_>], goal_at: impl Fn(f64) -> Goal) -> Self {
        let mut pair = Self::default();
        for at in loads {
            match classify(&goal_at(at.load_qps), at.probes.iter().copied()) {
                Class::Lower => pair.lower_qps = Some(at.load_qps),
                Class::Upper => {
                    pair.upper_qps = Some(at.load_qps);
                    break;
                }
                Class::Undecided => {}
            }
        }
        pair
    }

    /// Whether a load lies strictly between the bounds that there are.
    pub(super) fn holds(&self, load_qps: f64) -> bool {
        self.lower_qps.is_none_or(|lower_qps| load_qps > lower_qps)
            && self.upper_qps.is_none_or(|upper_qps| load_qps < upper_qps)
    }
}
