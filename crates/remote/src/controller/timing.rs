//! When a trial begins, on the clock of each host.

use kqps_host::watch::SPARE_NS;

/// Nanoseconds from the request to the start of a trial: enough for a player to start and to open a dataset that it has
/// played before.
const LEAD_NS: u64 = 300_000_000;

/// The most additional time for a player that was late, nanoseconds. An agent refuses a start that is a minute ahead.
const MORE_MOST_NS: u64 = 40_000_000_000;

/// A player that begins later than this share of the trial spoils it, and so does a skew of the starts.
const LATE_MOST: f64 = 0.01;

/// The most of a trial that may pass between the first reading of counters on the subjects' host and the start, since
/// the time of that host is counted from there on.
const WAIT_MOST: f64 = 0.1;

/// Players that begin this much apart, beyond the uncertainties of their clocks, must not spoil a trial, nanoseconds.
const APART_NS: u64 = 2_000_000;

/// The uncertainty of the time between the clocks of the subjects' host and of these players, nanoseconds.
pub(super) fn uncertain_ns(server_ns: u64, players_ns: impl Iterator<Item = u64>) -> u64 {
    server_ns.saturating_add(players_ns.max().unwrap_or(0))
}

/// The start of a trial on this host's monotonic clock, nanoseconds. Requests take up to `worst_rtt_ns` to reach a
/// host, and the first reading on the subjects' host is over `uncertain_ns` earlier. `late_ns` is how late a player was
/// in the last trials; all get twice as much more time to get ready.
pub(super) fn start_ns(now_ns: u64, worst_rtt_ns: u64, uncertain_ns: u64, late_ns: u64) -> u64 {
    now_ns + LEAD_NS + worst_rtt_ns + uncertain_ns + late_ns.saturating_mul(2).min(MORE_MOST_NS)
}

/// A time of this host's monotonic clock on a clock that is ahead of it by `offset_ns`.
pub(super) fn on_clock(at_ns: u64, offset_ns: i64) -> u64 {
    at_ns.saturating_add_signed(offset_ns)
}

/// The moment by which the first reading of counters on the subjects' host must be over, before a trial that begins at
/// `start_ns` on the same clock. Whatever the clocks are, no player has begun by then.
pub(super) fn read_by_ns(start_ns: u64, uncertain_ns: u64) -> u64 {
    start_ns.saturating_sub(uncertain_ns)
}

/// The least seconds of a trial over players whose clocks are known with these uncertainties: in a shorter one, the
/// skew that is stated would spoil it every time, or the wait of the subjects' host would count for much of it. A
/// single player has no skew.
pub(super) fn least_s(server_ns: u64, players_ns: impl Iterator<Item = u64>) -> f64 {
    let mut widest_ns: Vec<u64> = players_ns.collect();
    widest_ns.sort_unstable_by(|a, b| b.cmp(a));
    let skew_ns = match widest_ns.as_slice() {
        [one, other, ..] => APART_NS.saturating_add(*one).saturating_add(*other),
        _ => 0,
    };
    let wait_ns = SPARE_NS.saturating_add(uncertain_ns(server_ns, widest_ns.into_iter()));
    (skew_ns as f64 / LATE_MOST / 1e9).max(wait_ns as f64 / WAIT_MOST / 1e9)
}

/// The least seconds of a trial that are worth a word. Over hosts nearby it is 0.2 s.
const LONG_S: f64 = 0.5;

/// Why trials last longer than the study asks for, as a sentence without its full stop; `None` if they hardly do. The
/// clock of `host` is known worst.
pub(super) fn why_longer(least_s: f64, host: &str, uncertainty_ns: u64) -> Option<String> {
    let ms = uncertainty_ns as f64 / 1e6;
    (least_s >= LONG_S).then(|| {
        format!("trials last at least {least_s:.1} s, since the clock of {host} is known to ± {ms:.1} ms")
    })
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
        let start_ns = start_ns(10_000_000_000, 2_000_000, 0, 0);
        assert_eq!(start_ns, 10_302_000_000);
        let ahead_ns = [0, 5_000_000_000, -4_000_000_000, i64::MIN];
        let theirs = ahead_ns.map(|offset_ns| on_clock(start_ns, offset_ns));
        assert_eq!(theirs, [10_302_000_000, 15_302_000_000, 6_302_000_000, 0]);
    }

    #[test]
    fn a_player_that_was_late_gets_more_time() {
        let usual_ns = start_ns(0, 1_000, 0, 0);
        assert_eq!(start_ns(0, 1_000, 0, 70_000_000), usual_ns + 140_000_000);
        assert!(start_ns(0, 1_000, 0, u64::MAX) < 60_000_000_000);
    }

    #[test]
    fn the_subjects_host_is_read_before_any_player_can_have_begun() {
        let uncertain_ns = uncertain_ns(40_000, [75_000, 300_000].into_iter());
        assert_eq!(uncertain_ns, 340_000);
        let start = start_ns(10_000_000_000, 2_000_000, uncertain_ns, 70_000_000);
        let certain = start_ns(10_000_000_000, 2_000_000, 0, 70_000_000);
        assert_eq!(start - certain, 340_000, "nobody has less time");
        assert_eq!(start - read_by_ns(start, uncertain_ns), 340_000, "however far ahead the start is");
        assert_eq!(read_by_ns(1, uncertain_ns), 0);
    }

    #[test]
    fn a_trial_lasts_long_enough_for_the_clocks() {
        let least_us = |server_ns: u64, players_ns: &[u64]| {
            (least_s(server_ns, players_ns.iter().copied()) * 1e6).round() as u64
        };
        assert_eq!(least_us(0, &[0, 0]), 200_000);
        assert_eq!(least_us(0, &[100_000, 0]), 210_000);
        // Two players on another continent, and one nearby.
        assert_eq!(least_us(0, &[75_000_000, 100_000, 75_000_000]), 15_200_000);
        assert!(!is_late(2_000_000, least_s(0, [0, 0].into_iter())));
        // A single player has no skew. The wait before its start is a tenth of its trial at most.
        assert_eq!(least_us(50_000, &[50_000]), 21_000);
        assert_eq!(least_us(75_000_000, &[75_000_000]), 1_520_000);
    }

    #[test]
    fn a_far_controller_makes_trials_longer_and_says_so() {
        let of = |each_ns| why_longer(least_s(0, [each_ns, each_ns].into_iter()), "p1", each_ns);
        assert_eq!(of(100_000), None);
        let expected = "trials last at least 2.2 s, since the clock of p1 is known to ± 10.0 ms";
        assert_eq!(of(10_000_000).as_deref(), Some(expected));
    }

    #[test]
    fn a_hundredth_of_the_trial_is_in_time_and_more_is_not() {
        assert!(!is_late(0, 0.1) && !is_late(1_000_000, 0.1));
        assert!(is_late(1_000_001, 0.1) && !is_late(1_000_001, 1.0));
    }
}
