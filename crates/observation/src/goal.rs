//! The goal of a rate search, in numbers, since the meaning of a goal's name may change from version to version.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The goal of a search. Its name is in the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GoalFacts {
    /// Seconds that a trial must last to be full-length.
    pub final_s: f64,
    /// Seconds of trials that settle one load.
    pub sum_s: f64,
    /// The greatest bad ratio of a good trial, 0 to 1.
    pub loss: f64,
    /// Share of the duration sum that bad trials may have at a lower bound, 0 to 1.
    pub exceed: f64,
    /// How far apart the bounds may be at the end, as a share of the upper one, 0 to 1.
    pub width: f64,
    /// The smallest load, queries per second.
    pub min_qps: f64,
    /// The largest load, queries per second.
    pub max_qps: f64,
    /// Seconds after which the search only confirms a lower bound.
    pub limit_s: f64,
    /// A trial with more than 1 % of its latencies above this is bad too, microseconds.
    #[serde(default)]
    pub p99_us: Option<u64>,
}
