//! For how long queries were outstanding within a load, and when the last of them ended.
//!
//! All times are nanoseconds since the trial's common start.

/// The times of one thread's queries. Each counts from when it was due until its reply came, or until its timeout.
#[derive(Clone, Debug)]
pub struct OutstandingTimes {
    /// Their sum, nanoseconds, without what lies after `until_ns`.
    sum_ns: u64,
    /// When the last query ended.
    last_end_ns: u64,
    /// The end of the load; `u64::MAX` if its queries end it.
    until_ns: u64,
}

impl Default for OutstandingTimes {
    fn default() -> Self {
        Self { sum_ns: 0, last_end_ns: 0, until_ns: u64::MAX }
    }
}

impl OutstandingTimes {
    /// Counts a query that was due at `due_ns`, and ended at `end_ns`.
    #[inline]
    pub fn add(&mut self, due_ns: u64, end_ns: u64) {
        let end_ns = end_ns.min(self.until_ns);
        self.sum_ns += end_ns.saturating_sub(due_ns);
        self.last_end_ns = self.last_end_ns.max(end_ns);
    }

    /// Ends the load at `until_ns`: what comes later does not count. `held_until_ns` are ends that were counted already
    /// and may lie beyond.
    pub fn end(&mut self, until_ns: u64, held_until_ns: impl Iterator<Item = u64>) {
        let until_ns = until_ns.min(self.until_ns);
        let counted_ns = held_until_ns.map(|end_ns| end_ns.min(self.until_ns).saturating_sub(until_ns));
        self.sum_ns = self.sum_ns.saturating_sub(counted_ns.sum());
        self.last_end_ns = self.last_end_ns.min(until_ns);
        self.until_ns = until_ns;
    }

    /// Adds the times of another thread.
    pub fn add_all(&mut self, other: &Self) {
        self.sum_ns += other.sum_ns;
        self.last_end_ns = self.last_end_ns.max(other.last_end_ns);
    }

    /// The sum of the times, seconds.
    pub fn sum_s(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// When the last query ended; 0 without queries.
    pub fn last_end_ns(&self) -> u64 {
        self.last_end_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_counts_after_the_end_of_the_load() {
        let mut times = OutstandingTimes::default();
        times.add(0, 500);
        times.add(100, 2_000);
        assert_eq!((times.sum_ns, times.last_end_ns()), (2_400, 2_000));
        times.end(1_000, [2_000].into_iter());
        assert_eq!((times.sum_ns, times.last_end_ns()), (1_400, 1_000));
        times.add(900, 1_500);
        times.add(1_000, 1_500);
        assert_eq!((times.sum_ns, times.last_end_ns()), (1_500, 1_000));
        times.end(u64::MAX, [2_000].into_iter());
        assert_eq!(times.sum_ns, 1_500, "it ended before");
    }
}
