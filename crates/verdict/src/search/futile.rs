//! Ends a search early if no other load would do any better. A server that answers wrongly has no figure,
//! whatever its rate. If the share of queries without an answer does not fall with the load, the load is not
//! the cause.

use kqps_observation::run::Purpose;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::at_load::AtLoad;
use super::goal::Goal;
use super::probe::Probe;
use crate::percent;

/// Why no other load would do better.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Futile {
    /// Too many answers of one trial were wrong.
    Wrong {
        /// Share of the intended queries that were answered wrongly, 0 to 1.
        ratio: f64,
    },
    /// No query of the overload was answered.
    Silent,
    /// Answers came after the timeout, and at a much smaller load just as many of them.
    Late {
        /// The smaller load, queries a second.
        less_qps: f64,
        /// Share of its queries without a correct answer in time, 0 to 1.
        less_ratio: f64,
        /// The greater load, queries a second.
        load_qps: f64,
        /// Seconds after which a reply is late.
        timeout_s: f64,
    },
    /// At a much smaller load, a share just as large of the queries had no correct answer.
    Lossy {
        /// The greater load, queries a second.
        load_qps: f64,
        /// The bad ratio at the greater load, 0 to 1.
        ratio: f64,
        /// The smaller load, queries a second.
        less_qps: f64,
        /// The bad ratio at the smaller load, 0 to 1.
        less_ratio: f64,
    },
}

impl Futile {
    /// The reason in words, which hold for queries and for connections alone. `rate` formats a rate in queries a second
    /// with its unit.
    pub fn in_words(&self, rate: &dyn Fn(f64) -> String) -> String {
        match *self {
            Self::Wrong { ratio } => {
                let wrong = percent::fixed(ratio, if ratio < 0.01 { 3 } else { 0 });
                format!("{wrong} % of the queries were answered wrongly")
            }
            Self::Silent => "nothing was answered".to_owned(),
            Self::Late { less_qps, less_ratio, load_qps, timeout_s } => {
                let which = match less_ratio {
                    1.0.. => "all answers".to_owned(),
                    ratio => format!("{} % of the answers", percent::fixed(ratio, 1)),
                };
                let (less, load) = (rate(less_qps), rate(load_qps));
                format!("{which} came late (timeout {} ms), at {less} as at {load}", timeout_s * 1e3)
            }
            Self::Lossy { load_qps, ratio, less_qps, less_ratio } => format!(
                "the loss does not fall with the load: {} % had no correct answer in time at {}, and {} % at {}",
                percent::fixed(ratio, 1),
                rate(load_qps),
                percent::fixed(less_ratio, 1),
                rate(less_qps)
            ),
        }
    }

    /// The reason with its loads at a core speed that is this multiple of the present one.
    #[must_use]
    pub(crate) fn at_speed(mut self, speed: f64) -> Self {
        if let Self::Late { less_qps, load_qps, .. } | Self::Lossy { less_qps, load_qps, .. } = &mut self {
            *less_qps *= speed;
            *load_qps *= speed;
        }
        self
    }
}

/// A search ends if the share of wrong answers exceeds this, or the goal's loss if that is less.
const WRONG_MOST: f64 = 0.01;

/// The number of loads that must have failed before the loss counts as independent of the load.
const LOADS_LEAST: usize = 3;

/// The least factor between two loads whose losses are compared; it is greater if the loss is small. A host
/// that stands still for a moment in each trial loses a little at every load that is not far below the others.
const APART: f64 = 4.0;
const APART_IF_SMALL: f64 = 8.0;
/// A loss below this is small.
const SMALL: f64 = 0.1;

/// The loss at the smaller load counts as just as large if it is at least this share of the other.
const AS_LARGE: f64 = 0.8;

/// A subject at its limit answers the same number a second at either load, so it answers a much larger share of
/// the smaller one. If the answered share grows by less than this factor, something else is the limit.
const SHARE_GROWS: f64 = 1.25;

/// With fewer bad queries than this at the smaller load, their share is not known well enough.
const BAD_LEAST: f64 = 10.0;

/// If at least this share of the queries without an answer in time was answered late, the timeout is the cause.
const MOSTLY_LATE: f64 = 0.5;

/// Why the search should end early; `None` if it should go on. `loads` are the loads of its search trials.
pub(super) fn futile(goal: &Goal, probes: &[Probe], loads: &[AtLoad<'_>]) -> Option<Futile> {
    let bears = |probe: &&Probe| probe.purpose.is_of_search();
    let wrong = probes.iter().filter(bears).map(|probe| probe.wrong_ratio);
    if let Some(ratio) = wrong.into_iter().find(|ratio| *ratio > goal.loss.min(WRONG_MOST)) {
        return Some(Futile::Wrong { ratio });
    }
    let is_silent = |probe: &&Probe| {
        probe.purpose == Purpose::Ceiling && probe.answered_qps <= 0.0 && probe.late_qps <= 0.0
    };
    if loads.is_empty() && probes.iter().any(|probe| is_silent(&probe)) {
        return Some(Futile::Silent);
    }
    lossy(goal, loads)
}

fn lossy(goal: &Goal, loads: &[AtLoad<'_>]) -> Option<Futile> {
    let lost_at_each = loads.iter().all(|at| at.probes.iter().all(|probe| probe.bad_ratio > goal.loss));
    if !lost_at_each || loads.len() < LOADS_LEAST {
        return None;
    }
    let least = loads.first()?;
    let best = least.best()?;
    let (less_qps, less_ratio) = (least.load_qps, best.bad_ratio);
    let apart = if less_ratio < SMALL { APART_IF_SMALL } else { APART };
    let greater = loads.iter().find(|at| at.load_qps >= less_qps * apart)?;
    let (load_qps, ratio) = (greater.load_qps, greater.best()?.bad_ratio);
    let is_known = less_qps * best.duration_s * less_ratio >= BAD_LEAST;
    let is_as_large = less_ratio >= ratio * AS_LARGE && 1.0 - less_ratio <= (1.0 - ratio) * SHARE_GROWS;
    if !is_known || !is_as_large {
        return None;
    }
    // A reply that takes longer than the rest of the trial counts as lost, although it is late.
    let are_late = best.late_qps > 0.0
        && (best.answered_qps <= 0.0 || best.late_qps >= less_qps * less_ratio * MOSTLY_LATE);
    Some(if are_late {
        Futile::Late { less_qps, less_ratio, load_qps, timeout_s: best.timeout_s }
    } else {
        Futile::Lossy { load_qps, ratio, less_qps, less_ratio }
    })
}
