//! When a trial begins, on the clock of each host.

/// Nanoseconds from the request to the start of a trial: enough for a player to start and to open a dataset that it has
/// played before.
const LEAD_NS: u64 = 300_000_000;

/// The most additional time for a player that was late, nanoseconds. An agent refuses a start that is a minute ahead.
const MORE_MOST_NS: u64 = 40_000_000_000;

/// A player that begins later than this share of the trial spoils it, and so does a skew of the starts.
const LATE_MOST: f64 = 0.01;

/// The time from the first reading of counters on the subjects' host to the start of a trial, nanoseconds: enough for
/// the reading, and short beside a trial, since the time of the host is counted from there on.
const READING_NS: u64 = 2_000_000;

/// Players that begin this much apart, beyond the uncertainties of their clocks, must not spoil a trial, nanoseconds.
const APART_NS: u64 = 2_000_000;

/// The start of a trial on this host's monotonic clock, nanoseconds. Requests take up to `worst_rtt_ns` to reach a
/// host. `late_ns` is how late a player was at most so far; all get twice as much more time to get ready.
pub(super) fn start_ns(now_ns: u64, worst_rtt_ns: u64, late_ns: u64) -> u64 {
    now_ns + LEAD_NS + worst_rtt_ns + late_ns.saturating_mul(2).min(MORE_MOST_NS)
}

/// A time of this host's monotonic clock on a clock that is ahead of it by `offset_ns`.
pub(super) fn on_clock(at_ns: u64, offset_ns: i64) -> u64 {
    at_ns.saturating_add_signed(offset_ns)
}

/// When the counters of the subjects' host are read before a trial that begins at `start_ns`, on the same clock.
pub(super) fn watch_ns(start_ns: u64) -> u64 {
    start_ns.saturating_sub(READING_NS)
}

/// The least seconds of a trial over players whose clocks are known with these uncertainties: in a shorter one, the
/// skew that is stated would spoil it every time.
pub(super) fn least_s(uncertainties_ns: impl Iterator<Item = u64>) -> f64 {
    let mut widest_ns: Vec<u64> = uncertainties_ns.collect();
    widest_ns.sort_unstable_by(|a, b| b.cmp(a));
    let two_ns = widest_ns.iter().take(2).fold(APART_NS, |sum, ns| sum.saturating_add(*ns));
    two_ns as f64 / LATE_MOST / 1e9
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
    fn the_subjects_host_is_watched_from_just_before_the_start() {
        let start_ns = start_ns(10_000_000_000, 2_000_000, 70_000_000);
        assert_eq!(start_ns - watch_ns(start_ns), 2_000_000, "however far ahead the start is");
        assert_eq!(watch_ns(1), 0);
    }

    #[test]
    fn a_trial_lasts_long_enough_for_the_clocks() {
        let least_s = |uncertainties_ns: &[u64]| least_s(uncertainties_ns.iter().copied());
        let least_us = |uncertainties_ns: &[u64]| (least_s(uncertainties_ns) * 1e6).round() as u64;
        assert_eq!(least_us(&[]), 200_000);
        assert_eq!(least_us(&[100_000]), 210_000);
        // Two players on another continent, and one nearby.
        assert_eq!(least_us(&[75_000_000, 100_000, 75_000_000]), 15_200_000);
        assert!(!is_late(2_000_000, least_s(&[0, 0])));
    }

    #[test]
    fn a_hundredth_of_the_trial_is_in_time_and_more_is_not() {
        assert!(!is_late(0, 0.1) && !is_late(1_000_000, 0.1));
        assert!(is_late(1_000_001, 0.1) && !is_late(1_000_001, 1.0));
    }
}
