//! The times of a capture: from its first query, and never decreasing. The reader has put them in order but for 5 s.

/// The account of times.
#[derive(Default)]
pub(super) struct Clock {
    newest_ns: u64,
    first_ns: Option<u64>,
    last_due_ns: u64,
    /// The messages with a time before that of an earlier message.
    pub(super) sorted: u64,
    /// The queries that came after a later one had left.
    pub(super) late: u64,
}

impl Clock {
    /// Takes note of the time of a message, in the order of the capture.
    pub(super) fn see(&mut self, at_ns: u64) {
        self.sorted += u64::from(at_ns < self.newest_ns);
        self.newest_ns = self.newest_ns.max(at_ns);
    }

    /// The due time of the next query.
    pub(super) fn due(&mut self, at_ns: u64) -> u64 {
        let first_ns = *self.first_ns.get_or_insert(at_ns);
        match at_ns.checked_sub(first_ns).filter(|due_ns| *due_ns >= self.last_due_ns) {
            Some(due_ns) => self.last_due_ns = due_ns,
            None => self.late += 1,
        }
        self.last_due_ns
    }

    /// A time as one from the first query.
    pub(super) fn since_first(&self, at_ns: u64) -> u64 {
        at_ns.saturating_sub(self.first_ns.unwrap_or(at_ns))
    }

    /// The time of the first query, in Unix time; 0 if there was none.
    pub(super) fn first_unix_ns(&self) -> u64 {
        self.first_ns.unwrap_or_default()
    }

    /// The due time of the last query.
    pub(super) fn last_due_ns(&self) -> u64 {
        self.last_due_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_late_is_due_with_the_query_before_it() {
        let mut clock = Clock::default();
        let dues = [1000, 1010, 1005, 900, 1010, 1020].map(|at_ns| {
            clock.see(at_ns);
            clock.due(at_ns)
        });
        assert_eq!(dues, [0, 10, 10, 10, 10, 20]);
        assert_eq!((clock.sorted, clock.late, clock.first_unix_ns()), (2, 2, 1000));
        assert_eq!((clock.since_first(1500), clock.since_first(10), clock.last_due_ns()), (500, 0, 20));
    }

    #[test]
    fn what_is_before_the_first_query_is_late() {
        let mut clock = Clock::default();
        assert_eq!([clock.due(5), clock.due(4), clock.due(5)], [0, 0, 0]);
        assert_eq!(clock.late, 1);
    }
}
