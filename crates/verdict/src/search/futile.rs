//! When a search ends early: what the trials show would be no better at any other load. A server that answers wrongly
//! has no figure, whatever its rate; and where the share of queries without an answer does not fall with the load,
//! the load is not what costs them.

use std::fmt;

use kqps_observation::run::Purpose;
use serde::{Deserialize, Serialize};

use super::bounds::AtLoad;
use super::goal::Goal;
use super::probe::Probe;

/// Why no other load would do better.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Futile {
    /// Too many answers of one trial were wrong.
    Wrong {
        /// Share of the intended queries that were answered wrongly, 0 to 1.
        ratio: f64,
    },
    /// Not one query of the overload was answered.
    Silent,
    /// Answers came after the timeout, and at a much smaller load as many of them.
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
    /// As large a share of the queries went without a correct answer at a much smaller load.
    Lossy {
        /// The greater load, queries a second.
        load_qps: f64,
        /// Its bad ratio, 0 to 1.
        ratio: f64,
        /// The smaller load, queries a second.
        less_qps: f64,
        /// Its bad ratio, 0 to 1.
        less_ratio: f64,
    },
}

impl fmt::Display for Futile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |ratio: f64| ratio * 100.0;
        match self {
            Self::Wrong { ratio } => {
                let places = if *ratio < 0.01 { 3 } else { 0 };
                write!(formatter, "{:.places$} % of the queries were answered wrongly", percent(*ratio))
            }
            Self::Silent => formatter.write_str("not one query was answered"),
            Self::Late { less_qps, less_ratio, load_qps, timeout_s } => {
                let which = match *less_ratio {
                    1.0.. => "all answers".to_owned(),
                    ratio => format!("{:.1} % of the answers", percent(ratio)),
                };
                write!(
                    formatter,
                    "{which} came late (timeout {} ms), at {less_qps:.0} q/s as at {load_qps:.0} q/s",
                    timeout_s * 1e3
                )
            }
            Self::Lossy { load_qps, ratio, less_qps, less_ratio } => write!(
                formatter,
                "the loss does not fall with the load: {:.1} % of the queries had no correct answer in time at \
                 {load_qps:.0} q/s, and {:.1} % at {less_qps:.0} q/s",
                percent(*ratio),
                percent(*less_ratio)
            ),
        }
    }
}

/// More wrong answers than this, or than the goal's loss where that is less, end a search.
const WRONG_MOST: f64 = 0.01;

/// So many loads must have failed before loss is said not to fall.
const LOADS_LEAST: usize = 3;

/// How far apart two loads must be, as a factor, for their losses to be compared: where the loss is small, further.
/// A host that stands still for a moment in each trial loses a little at every load that is not far below the others.
const APART: f64 = 4.0;
const APART_IF_SMALL: f64 = 8.0;
/// A loss below this is small.
const SMALL: f64 = 0.1;

/// The loss at the smaller load is as large when it is at least this share of the other.
const AS_LARGE: f64 = 0.8;

/// A subject at its limit answers as many a second at either load, and so a larger share of the smaller one: several
/// times as large, at loads so far apart. Where the share grows by less than this, the limit is another.
const SHARE_GROWS: f64 = 1.25;

/// With fewer bad queries than this at the smaller load their share is not known well enough.
const BAD_LEAST: f64 = 10.0;

/// Where at least this share of the queries without an answer in time was answered late, the timeout is why.
const MOSTLY_LATE: f64 = 0.5;

/// Why the search should end, if it should. `loads` are the loads of its search trials.
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
    // While a trial lasts what is too late may come after its end, so that it counts as lost.
    let are_late = best.late_qps > 0.0
        && (best.answered_qps <= 0.0 || best.late_qps >= less_qps * less_ratio * MOSTLY_LATE);
    Some(if are_late {
        Futile::Late { less_qps, less_ratio, load_qps, timeout_s: best.timeout_s }
    } else {
        Futile::Lossy { load_qps, ratio, less_qps, less_ratio }
    })
}
