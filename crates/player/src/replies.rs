//! The replies that came in time, right or wrong, as programs count them that do not check answers.

use kqps_observation::trial::ReplyFacts;

/// The replies in time of one thread.
#[derive(Clone, Debug, Default)]
pub struct Replies {
    count: u64,
    sum_us: u64,
    /// Square microseconds.
    squares: u128,
    min_us: u64,
    max_us: u64,
    bytes: u64,
    last_ns: u64,
}

impl Replies {
    /// Counts a reply of `bytes` bytes that came at `at_ns`, nanoseconds since the start.
    #[inline]
    pub fn add(&mut self, at_ns: u64, latency_ns: u64, bytes: usize) {
        let time_us = latency_ns / 1000;
        self.min_us = if self.count == 0 { time_us } else { self.min_us.min(time_us) };
        self.max_us = self.max_us.max(time_us);
        self.count += 1;
        self.sum_us += time_us;
        self.squares += u128::from(time_us) * u128::from(time_us);
        self.bytes += bytes as u64;
        self.last_ns = self.last_ns.max(at_ns);
    }

    /// Adds the replies of another thread.
    pub fn add_all(&mut self, other: &Self) {
        self.min_us = match (self.count, other.count) {
            (0, _) => other.min_us,
            (_, 0) => self.min_us,
            _ => self.min_us.min(other.min_us),
        };
        self.max_us = self.max_us.max(other.max_us);
        self.count += other.count;
        self.sum_us += other.sum_us;
        self.squares += other.squares;
        self.bytes += other.bytes;
        self.last_ns = self.last_ns.max(other.last_ns);
    }

    /// The facts for a record.
    pub fn facts(&self) -> ReplyFacts {
        let count = self.count as f64;
        let sum_us = self.sum_us as f64;
        let variance = (self.squares as f64 - sum_us * sum_us / count) / (count - 1.0);
        ReplyFacts {
            count: self.count,
            bytes_mean: (self.count > 0).then(|| self.bytes as f64 / count),
            mean_us: (self.count > 0).then(|| sum_us / count),
            min_us: (self.count > 0).then_some(self.min_us),
            max_us: (self.count > 0).then_some(self.max_us),
            stddev_us: (self.count > 1).then(|| variance.max(0.0).sqrt()),
            last_s: (self.count > 0).then(|| self.last_ns as f64 / 1e9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_dnsperf() {
        let mut replies = Replies::default();
        assert_eq!(replies.facts(), ReplyFacts::default());
        // The figures that dnsperf 2.14 printed for these five.
        for time_us in [80, 81, 80, 130, 2_482_000] {
            let mut other = Replies::default();
            other.add(time_us * 1_000, time_us * 1_000, 34);
            replies.add_all(&other);
        }
        let facts = replies.facts();
        assert_eq!((facts.count, facts.min_us, facts.max_us), (5, Some(80), Some(2_482_000)));
        assert_eq!(facts.mean_us.map(f64::floor), Some(496_474.0));
        assert_eq!(facts.stddev_us.map(f64::round), Some(1_109_943.0));
        assert_eq!((facts.bytes_mean, facts.last_s), (Some(34.0), Some(2.482)));
    }
}
