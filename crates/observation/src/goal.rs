//! What a rate search was told to look for, in numbers: what a name stands for may change from version to version.

use serde::{Deserialize, Serialize};

/// A search's goal; its name is the run's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GoalFacts {
    /// Seconds that a trial must last to be full-length.
    pub final_s: f64,
    /// Seconds of trials that settle one load.
    pub sum_s: f64,
    /// The greatest bad ratio of a good trial, 0 to 1.
    pub loss: f64,
    /// Share of the duration sum that bad trials may take at a lower bound, 0 to 1.
    pub exceed: f64,
    /// How far apart the bounds may end, a share of the upper one, 0 to 1.
    pub width: f64,
    /// The smallest load, queries a second.
    pub min_qps: f64,
    /// The largest load, queries a second.
    pub max_qps: f64,
    /// Seconds after which the search only makes sure of a lower bound.
    pub limit_s: f64,
    /// A trial with more than 1 % of its latencies above this is bad too, microseconds.
    #[serde(default)]
    pub p99_us: Option<u64>,
}
