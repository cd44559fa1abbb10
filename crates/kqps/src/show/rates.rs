//! Queries in each second, in bounded memory. Stamps may go back by some seconds, as those of several sources do.

use std::collections::BTreeMap;

use super::facts::SpreadShown;
use super::spread::Spread;

/// Seconds that are still counted. A query that comes later than this counts in the earliest of them.
const OPEN_MOST: usize = 64;

/// Queries by the second after the first query in which they came.
#[derive(Debug, Default)]
pub(super) struct Rates {
    first_ns: Option<u64>,
    last_ns: u64,
    queries: u64,
    open: BTreeMap<u64, u64>,
    /// The number of seconds that are no longer counted.
    closed: u64,
    spread: Spread,
}

impl Rates {
    pub(super) fn add(&mut self, at_ns: u64) {
        let first_ns = *self.first_ns.get_or_insert(at_ns);
        self.last_ns = self.last_ns.max(at_ns);
        self.queries += 1;
        let second = (at_ns.saturating_sub(first_ns) / 1_000_000_000).max(self.closed);
        *self.open.entry(second).or_default() += 1;
        while self.open.len() > OPEN_MOST {
            self.close_earliest();
        }
    }

    fn close_earliest(&mut self) {
        let Some((second, queries)) = self.open.pop_first() else { return };
        // Seconds in between had no query.
        self.spread.add_many(0, second - self.closed);
        self.spread.add(queries);
        self.closed = second + 1;
    }

    /// When the first query came, nanoseconds since 1970.
    pub(super) fn first_ns(&self) -> Option<u64> {
        self.first_ns
    }

    /// Seconds from the first query to the latest.
    pub(super) fn span_s(&self) -> f64 {
        self.first_ns.map_or(0.0, |first_ns| self.last_ns.saturating_sub(first_ns) as f64 / 1e9)
    }

    /// The mean over the whole time, and the distribution over seconds. `None` without a query.
    pub(super) fn shown(mut self) -> Option<SpreadShown> {
        while !self.open.is_empty() {
            self.close_earliest();
        }
        let span_s = self.span_s();
        let shown = self.spread.shown()?;
        Some(if span_s > 0.0 { SpreadShown { mean: self.queries as f64 / span_s, ..shown } } else { shown })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn seconds_without_a_query_count_and_stamps_may_go_back() {
        let mut rates = Rates::default();
        for at_s in [100, 100, 103, 102, 100, 1_000_000] {
            rates.add(at_s * SECOND_NS);
        }
        assert!((rates.span_s() - 999_900.0).abs() < 1e-9);
        let shown = rates.shown().unwrap();
        assert_eq!((shown.p50, shown.p99, shown.max), (0, 0, 3));
        assert!((shown.mean - 6.0 / 999_900.0).abs() < 1e-12);
    }

    #[test]
    fn memory_is_bounded_and_no_query_is_lost() {
        let mut rates = Rates::default();
        (0..1_000).rev().chain(0..1_000).for_each(|second| rates.add(second * SECOND_NS));
        assert!(rates.open.len() <= OPEN_MOST);
        while !rates.open.is_empty() {
            rates.close_earliest();
        }
        assert_eq!((rates.queries, rates.spread.sum()), (2_000, 2_000), "each is in one of the seconds");
        assert!(rates.shown().is_some());
        assert_eq!(Rates::default().shown(), None);
    }
}
