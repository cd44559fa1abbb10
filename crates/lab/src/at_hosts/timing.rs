//! When a trial begins, on the clock of each host.

/// Nanoseconds from the request to the start of a trial: enough for a player to start and to open a dataset that it has
/// played before.
const LEAD_NS: u64 = 300_000_000;

/// The most additional time for a player that was late, nanoseconds. An agent refuses a start that is a minute ahead.
const MORE_MOST_NS: u64 = 40_000_000_000;

/// A player that begins later than this share of the trial spoils it.
const LATE_MOST: f64 = 0.01;

/// The start of a trial on this host's monotonic clock, nanoseconds. Requests take up to `worst_rtt_ns` to reach a
/// host. `late_ns` is how late a player was at most so far; all get twice as much more time to get ready.
pub(super) fn start_ns(now_ns: u64, worst_rtt_ns: u64, late_ns: u64) -> u64 {
    now_ns + LEAD_NS + worst_rtt_ns + late_ns.saturating_mul(2).min(MORE_MOST_NS)
}

/// A time of this host's monotonic clock on a clock that is ahead of it by `offset_ns`.
pub(super) fn on_clock(at_ns: u64, offset_ns: i64) -> u64 {
    at_ns.saturating_add_signed(offset_ns)
}

/// Whether a player that began this much later than asked spoils a trial of this many seconds.
pub(super) fn is_late(late_ns: u64, duration_s: f64) -> bool {
    late_ns as f64 > duration_s * 1e9 * LATE_MOST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_clock_shows_the_same_moment() {
        let start_ns = start_ns(10_000_000_000, 2_000_000, 0);
        assert_eq!(start_ns, 10_302_000_000);
        let ahead_ns = [0, 5_000_000_000, -4_000_000_000, i64::MIN];
        let theirs = ahead_ns.map(|offset_ns| on_clock(start_ns, offset_ns));
        assert_eq!(theirs, [10_302_000_000, 15_302_000_000, 6_302_000_000, 0]);
    }

    #[test]
    fn a_player_that_was_late_gets_more_time() {
        let usual_ns = start_ns(0, 1_000, 0);
        assert_eq!(start_ns(0, 1_000, 70_000_000), usual_ns + 140_000_000);
        assert!(start_ns(0, 1_000, u64::MAX) < 60_000_000_000);
    }

    #[test]
    fn a_hundredth_of_the_trial_is_in_time_and_more_is_not() {
        assert!(!is_late(0, 0.1) && !is_late(1_000_000, 0.1));
        assert!(is_late(1_000_001, 0.1) && !is_late(1_000_001, 1.0));
    }
}
