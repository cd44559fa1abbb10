//! Coalescing: waiting for more queries. If queries arrive quickly, a worker that wakes for each of them spends
//! most of its time on waking up. Such a worker looks for queries only at intervals and then finds several. If no
//! second query is expected within the interval, the worker looks at once.

use std::io;
use std::time::Duration;

use kqps_kernel::clock::{now_ns, set_timer_slack_ns, sleep_until_ns};

/// How long arrivals are counted before their rate is computed, in nanoseconds.
const WINDOW_NS: u64 = 2_000_000;

/// When to look for queries again.
pub(super) struct Coalescer {
    every_ns: u64,
    /// When counting began, and the number of queries at that time.
    since_ns: u64,
    queries: u64,
    is_expected: bool,
}

impl Coalescer {
    /// Looks at most once per `every`; with zero, always at once. Applies to the calling thread. No query waits
    /// longer than `flush`, the time that the first query of a batch may wait for others.
    pub(super) fn new(every: Duration, flush: Duration) -> io::Result<Self> {
        let every_ns = every.min(flush).as_nanos() as u64;
        if every_ns > 0 {
            set_timer_slack_ns(1)?;
        }
        Ok(Self { every_ns, since_ns: 0, queries: 0, is_expected: false })
    }

    /// Records the number of queries so far. Computes their rate once per window.
    pub(super) fn count(&mut self, queries: u64, now_ns: u64) {
        let elapsed_ns = now_ns - self.since_ns;
        if elapsed_ns >= WINDOW_NS {
            // At least two per interval: one that would be found at once, and another one.
            let in_window = queries - self.queries;
            self.is_expected = in_window * self.every_ns >= 2 * elapsed_ns;
            (self.since_ns, self.queries) = (now_ns, queries);
        }
    }

    /// Waits until the interval since `looked_ns`, the time of the last look, is over, if more queries are
    /// expected.
    pub(super) fn wait(&self, looked_ns: u64) {
        let next_ns = looked_ns + self.every_ns;
        if self.is_expected && now_ns() < next_ns {
            sleep_until_ns(next_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn company_is_expected_where_two_come_in_the_time() {
        let mut coalescer = Coalescer::new(Duration::from_micros(50), Duration::MAX).unwrap();
        let mut expects = |queries, now_ns| {
            coalescer.count(queries, now_ns);
            coalescer.is_expected
        };
        assert!(!expects(0, 2_000_000));
        // 40,000 queries a second.
        assert!(!expects(80, 3_900_000), "it is not time yet");
        assert!(expects(80, 4_000_000));
        assert!(expects(81, 4_100_000));
        // Just fewer than that.
        assert!(!expects(159, 6_000_000));
    }

    #[test]
    fn without_a_time_no_query_waits() {
        let mut coalescer = Coalescer::new(Duration::ZERO, Duration::MAX).unwrap();
        coalescer.count(1_000_000, 10_000_000);
        assert!(!coalescer.is_expected);
    }

    #[test]
    fn no_query_waits_longer_to_be_seen_than_for_a_batch() {
        let mut coalescer = Coalescer::new(Duration::from_millis(10), Duration::from_micros(50)).unwrap();
        // 40,000 queries a second: two in 50 µs.
        coalescer.count(400, 10_000_000);
        assert!(coalescer.is_expected);
        // 39,900 a second: fewer than two in 50 µs, though many in 10 ms.
        coalescer.count(400 + 399, 20_000_000);
        assert!(!coalescer.is_expected);
    }
}
