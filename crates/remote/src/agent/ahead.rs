//! Moments of this host's monotonic clock at which a controller wants something to begin.

use std::time::Duration;

use kqps_kernel::clock;

use super::failure::{Failure, plain};

/// The longest time from a request to the moment that it asks for.
const MOST: Duration = Duration::from_mins(1);

/// Fails if a moment is too far ahead, so that no job waits for long.
pub(super) fn check(at_ns: Option<u64>) -> Result<(), Failure> {
    let ahead_ns = at_ns.map_or(0, |at_ns| at_ns.saturating_sub(clock::now_ns()));
    if Duration::from_nanos(ahead_ns) <= MOST {
        return Ok(());
    }
    Err(plain(format!(
        "a start in {:.0} s is too far ahead: expected {:.0} s at most",
        ahead_ns as f64 / 1e9,
        MOST.as_secs_f64()
    )))
}
