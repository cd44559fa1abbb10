//! The wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970; 0 if the clock shows an earlier time.
pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
