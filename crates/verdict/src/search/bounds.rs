//! The bounds of a goal among the loads that were tried.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::at_load::AtLoad;
use super::class::{Class, classify};
use super::futile::Futile;
use super::goal::Goal;

/// The result of a search. All rates are at one core speed, the reference speed at first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(clippy::struct_excessive_bools)] // each is a fact of its own
pub struct Bounds {
    /// The Relevant Lower Bound, queries a second: the greatest load that met the goal. If that load failed its
    /// re-test, it is the greatest such load below. `None` if no load is known to meet the goal.
    pub lower_qps: Option<f64>,
    /// The Relevant Upper Bound, queries a second; `None` if even the greatest load meets the goal.
    pub upper_qps: Option<f64>,
    /// Conditional throughput at the lower bound, correct answers a second.
    pub throughput_qps: Option<f64>,
    /// Whether the subject may be faster than any load tried: the greatest load is a lower bound, or there is
    /// no upper bound, and the lower one was not refuted.
    pub irregular: bool,
    /// Whether a load that had met the goal failed its re-test at the end, or the lower bound missed the goal
    /// in more than one trial of its re-test; `None` if nothing was re-tested.
    pub drifted: Option<bool>,
    /// The load that failed its re-test, queries a second: neither it nor any greater load is a bound. The
    /// least one if several failed.
    #[serde(default)]
    pub refuted_qps: Option<f64>,
    /// The number of trials in the re-test of the lower bound at the end: one if it was good, up to six if bad
    /// ones came first, and 0 if the bound was not re-tested.
    #[serde(default)]
    pub retests: usize,
    /// The number of these trials that met the goal.
    #[serde(default)]
    pub retests_good: usize,
    /// The greatest load up to which no trial was bad, queries a second. A bound may need more trials than
    /// these.
    #[serde(default)]
    pub met_qps: Option<f64>,
    /// The least load with a bad trial, queries a second.
    #[serde(default)]
    pub missed_qps: Option<f64>,
    /// Why the search ended early because no other load would have done better; `None` if it did not.
    #[serde(default)]
    pub futile: Option<Futile>,
    /// Whether the time or the number of trials ran out first: the bounds are farther apart than the goal's
    /// width, and the upper one may rest on fewer trials.
    pub incomplete: bool,
    /// Whether the user or an error ended the search before it was over. What it had not found by then means nothing.
    #[serde(default)]
    pub interrupted: bool,
    /// Share of the load that the subject's buffers could have hidden in a full-length trial at the lower
    /// bound, 0 to 1; `None` if their size is not known.
    pub hidden_share: Option<f64>,
    /// The number of trials that the search made, the overload included.
    pub trials: u32,
}

impl Bounds {
    /// Converts all rates to another core speed, which is this multiple of the present one.
    pub(crate) fn convert_to(&mut self, speed: f64) {
        let rates = [
            &mut self.lower_qps,
            &mut self.upper_qps,
            &mut self.throughput_qps,
            &mut self.refuted_qps,
            &mut self.met_qps,
            &mut self.missed_qps,
        ];
        rates.into_iter().flatten().for_each(|qps| *qps *= speed);
        self.futile = self.futile.map(|futile| futile.at_speed(speed));
    }

    /// The number of trials of its re-test in which the lower bound missed the goal.
    pub fn retests_bad(&self) -> usize {
        self.retests.saturating_sub(self.retests_good)
    }

    /// Whether the lower bound passed its re-test, but missed the goal in more than one trial of it.
    pub fn is_shaky(&self) -> bool {
        self.retests_bad() > BAD_RETESTS_MOST
    }
}

/// A single bad trial of a re-test may be momentary noise. With more bad trials the load drifted, whether or not the
/// goal allows them.
const BAD_RETESTS_MOST: usize = 1;

/// The Relevant Lower and Upper Bounds: the smallest upper bound, and the largest lower bound below it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Pair {
    pub(super) lower_qps: Option<f64>,
    pub(super) upper_qps: Option<f64>,
}

impl Pair {
    /// Finds the bounds among loads in rising order. `goal_at` returns the goal at a load: full buffers make
    /// some loads need longer trials.
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

    /// Whether a load lies strictly between the bounds. A missing bound does not limit it.
    pub(super) fn holds(&self, load_qps: f64) -> bool {
        self.lower_qps.is_none_or(|lower_qps| load_qps > lower_qps)
            && self.upper_qps.is_none_or(|upper_qps| load_qps < upper_qps)
    }
}
