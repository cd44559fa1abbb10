//! The bounds of a goal among the loads tried.

use serde::{Deserialize, Serialize};

use super::class::{Class, classify};
use super::futile::Futile;
use super::goal::Goal;
use super::probe::Probe;

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools)] // each is a fact of its own
pub struct Bounds {
    /// The Relevant Lower Bound, queries a second: the greatest load that met the goal, unless that failed its
    /// re-test; then the greatest below it. None where no load is known to meet the goal.
    pub lower_qps: Option<f64>,
    /// The Relevant Upper Bound, queries a second; none when even the greatest load meets the goal.
    pub upper_qps: Option<f64>,
    /// Conditional throughput at the lower bound, correct answers a second.
    pub throughput_qps: Option<f64>,
    /// The greatest load is a lower bound, or there is no upper bound, and the lower one was not refuted: the subject may
    /// be faster than what was tried.
    pub irregular: bool,
    /// Whether a load that had met the goal failed when it was tried again at the end, or the lower bound missed the goal in
    /// more than one trial of its re-test; none where nothing was tried again.
    pub drifted: Option<bool>,
    /// The load that failed so, queries a second: neither it nor a greater one is known to hold. The least where several
    /// failed.
    #[serde(default)]
    pub refuted_qps: Option<f64>,
    /// How many trials it took to show once more, at the end, that the lower bound meets the goal: two where the first was
    /// bad, and 0 where it was not tried again.
    #[serde(default)]
    pub retests: usize,
    /// In how many of them it met the goal.
    #[serde(default)]
    pub retests_good: usize,
    /// The greatest load up to which no trial was bad, queries a second. That may be fewer trials than a bound takes.
    #[serde(default)]
    pub met_qps: Option<f64>,
    /// The least load of which a trial was bad, queries a second.
    #[serde(default)]
    pub missed_qps: Option<f64>,
    /// Why the search ended early, where it did: no other load would have done better.
    #[serde(default)]
    pub futile: Option<Futile>,
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

impl Bounds {
    /// Rates that are told at a speed are told at one that is so many times that.
    pub(crate) fn tell_at(&mut self, speed: f64) {
        let rates = [
            &mut self.lower_qps,
            &mut self.upper_qps,
            &mut self.throughput_qps,
            &mut self.refuted_qps,
            &mut self.met_qps,
            &mut self.missed_qps,
        ];
        rates.into_iter().flatten().for_each(|qps| *qps *= speed);
    }

    /// In how many trials of its re-test the lower bound missed the goal.
    pub fn retests_bad(&self) -> usize {
        self.retests.saturating_sub(self.retests_good)
    }

    /// Whether the lower bound passed its re-test, but missed the goal in more than one trial of it.
    pub fn is_shaky(&self) -> bool {
        self.retests_bad() > BAD_RETESTS_MOST
    }
}

/// One bad trial of a re-test may be a moment's noise; where more are bad the load drifted, whether or not the goal allows
/// them.
const BAD_RETESTS_MOST: usize = 1;

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

    /// The trial in which the least share of the queries was bad.
    pub(super) fn best(&self) -> Option<&Probe> {
        self.probes.iter().copied().min_by(|a, b| a.bad_ratio.total_cmp(&b.bad_ratio))
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
    pub(super) fn relevant<'a, 'p: 'a>(
        loads: impl IntoIterator<Item = &'a AtLoad<'p>>,
        goal_at: impl Fn(f64) -> Goal,
    ) -> Self {
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
