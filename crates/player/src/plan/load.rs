//! When the queries of a plan leave, and when sending stops.

use std::str::FromStr;
use std::time::Duration;

use kqps_observation::moments::MOMENTS_MOST;
use serde::{Deserialize, Serialize};
use strum::Display;

/// The load, by what decides when the next query leaves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum LoadPlan {
    /// The schedule: a fixed rate, whatever the subject answers.
    Open {
        /// Queries per second, all threads together; above 0.
        rate_qps: f64,
        /// How the queries are spaced.
        arrivals: Arrivals,
        /// The most outstanding queries, all threads together, at least 1 per thread; `None` for no limit. A query that
        /// falls due while the window is full is not sent.
        window: Option<u64>,
    },
    /// The subject's replies: a limited number of outstanding queries, all threads together.
    Closed {
        /// The most outstanding queries, at least 1 per thread.
        outstanding: u64,
    },
    /// The subject's replies, and no more than a rate: query *i* leaves at `t0 + i / rate` or later, as soon as the
    /// window has room. What the window held back is made up for within the same second.
    Limited {
        /// The most outstanding queries, at least 1 per thread.
        outstanding: u64,
        /// Queries per second, all threads together; above 0.
        rate_qps: f64,
    },
}

impl LoadPlan {
    /// The most outstanding queries, if they are limited.
    pub fn window(&self) -> Option<u64> {
        match *self {
            Self::Open { window, .. } => window,
            Self::Closed { outstanding } | Self::Limited { outstanding, .. } => Some(outstanding),
        }
    }
}

/// How the queries of an open loop are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Arrivals {
    /// Query *i* is due at `t0 + i / rate`.
    #[default]
    Even,
    /// Gaps have an exponential distribution with that mean, as from independent clients.
    Poisson,
    /// Gaps are those of a capture. The rate is then their mean, by which the player chooses its sizes.
    Captured,
}

impl FromStr for Arrivals {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "even" => Ok(Self::Even),
            "poisson" => Ok(Self::Poisson),
            "captured" => Ok(Self::Captured),
            _ => Err("expected even, poisson or captured".into()),
        }
    }
}

/// The moments of a load that are recorded, by when queries were due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MomentsPlan {
    /// How long each lasts at first, above 0.
    pub width: Duration,
    /// The most of them, at least 1. If there are more, each two become one.
    pub most: usize,
}

impl Default for MomentsPlan {
    fn default() -> Self {
        Self { width: Duration::from_millis(100), most: MOMENTS_MOST }
    }
}

/// The limits of the sending, which ends at whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// The longest time to send; `None` for no limit.
    pub after: Option<Duration>,
    /// The number of passes over the dataset; `None` for no limit. Each pass of a replay is as many as
    /// [`ReplayPlan::repeat`](super::ReplayPlan::repeat) says, and captured arrivals end after them in any case.
    pub passes: Option<u64>,
}
