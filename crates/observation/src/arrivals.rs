//! How replies arrived: the figures of those in time, and what the clock did that dates them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The replies that came in time, right or wrong: dnsperf's completed queries. If connections alone are the load, the
/// connections that were made in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplyFacts {
    /// How many.
    pub count: u64,
    /// Their mean size, bytes of DNS; `None` without any, as are the next four fields.
    pub bytes_mean: Option<f64>,
    /// The mean time from intended send to arrival, microseconds.
    pub mean_us: Option<f64>,
    /// The shortest of these times, microseconds.
    pub min_us: Option<u64>,
    /// The longest of them, microseconds.
    pub max_us: Option<u64>,
    /// When the last one came, seconds since the start.
    pub last_s: Option<f64>,
    /// The standard deviation of the times, microseconds; `None` with fewer than two.
    pub stddev_us: Option<f64>,
}

/// How the wall clock of a player's host was set during a trial. The kernel dates packets by that clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WallClockFacts {
    /// How often it was set.
    pub steps: u32,
    /// By how much at most, seconds; negative if it was set back.
    pub largest_s: f64,
    /// Replies that had a time of arrival before their query or still to come. They count with the query's time or with
    /// the time at which they were read.
    pub misdated: u64,
}
