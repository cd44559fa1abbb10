//! Attempts to make connections: the pauses between those that fail, and the end of opening kept connections at a
//! target that lets most attempts fail.

use crate::connections::ConnectionCounts;

/// Connections that are being made at once before the load begins: fewer than a server's queue or socket buffer takes.
pub(super) const OPENING_AT_ONCE: u64 = 128;

/// Opening ends when failed attempts have held it up for this many timeouts of an attempt.
const HELD_UP_TIMEOUTS: u64 = 4;

/// The pause after the first failed attempt in a row. Each further one doubles it, up to the longest.
const PAUSE_NS: u64 = 10_000_000;
const PAUSE_LONGEST_NS: u64 = 1_000_000_000;

/// The pause after an attempt that follows this many failed ones.
pub(super) fn pause_ns(failures: u32) -> u64 {
    (PAUSE_NS << failures.min(7)).min(PAUSE_LONGEST_NS)
}

/// Whether opening further connections before the load is in vain. A target that answers none of the first attempts
/// will not answer thousands. One that takes some and drops the others would hold the load up, each time for the
/// timeout of an attempt; `failed_ns` is how long all failed attempts took together.
pub(super) fn is_vain(counts: &ConnectionCounts, failed_ns: u64, timeout_ns: u64) -> bool {
    let failed: u64 = counts.failed.iter().sum();
    let none_is_made = counts.established == 0 && failed >= OPENING_AT_ONCE;
    none_is_made || failed_ns > timeout_ns.saturating_mul(HELD_UP_TIMEOUTS * OPENING_AT_ONCE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::Loss;

    #[test]
    fn opening_ends_at_a_target_that_takes_none_and_at_one_that_drops_too_many() {
        let mut counts = ConnectionCounts::default();
        counts.failed[Loss::Refused.number()] = 127;
        assert!(!is_vain(&counts, 0, 1_000));
        counts.failed[Loss::Refused.number()] = 128;
        assert!(is_vain(&counts, 0, 1_000));
        counts.established = 1;
        assert!(!is_vain(&counts, 512 * 1_000, 1_000), "attempts that fail at once hold nothing up");
        assert!(is_vain(&counts, 512 * 1_000 + 1, 1_000));
        assert!(!is_vain(&counts, u64::MAX, u64::MAX));
    }

    #[test]
    fn pauses_grow_to_a_second() {
        assert_eq!([0, 1, 6, 7, 99].map(pause_ns), [10, 20, 640, 1000, 1000].map(|ms| ms * 1_000_000));
    }
}
