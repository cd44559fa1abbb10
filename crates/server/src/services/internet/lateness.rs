//! How much later than they should have answers left, exact to 1 µs. An answer leaves when the system call that sends it begins.

/// The greatest lateness that is counted to 1 µs. A later answer counts as this late, and its own time is kept as the maximum.
const MOST_US: usize = 10_000;

/// Counts of delayed answers by how late they left.
pub(super) struct Lateness {
    by_us: Box<[u64]>,
    most_ns: u64,
}

impl Default for Lateness {
    fn default() -> Self {
        Self { by_us: vec![0; MOST_US + 1].into(), most_ns: 0 }
    }
}

impl Lateness {
    /// Counts an answer that left so late, nanoseconds.
    pub(super) fn add(&mut self, late_ns: u64) {
        let us = usize::try_from(late_ns / 1000).map_or(MOST_US, |us| us.min(MOST_US));
        self.by_us[us] += 1;
        self.most_ns = self.most_ns.max(late_ns);
    }

    pub(super) fn add_all(&mut self, other: &Self) {
        self.by_us.iter_mut().zip(&other.by_us).for_each(|(count, more)| *count += more);
        self.most_ns = self.most_ns.max(other.most_ns);
    }

    /// The number of answers.
    pub(super) fn count(&self) -> u64 {
        self.by_us.iter().sum()
    }

    /// The lateness in µs that this share of the answers did not exceed; `None` without answers.
    pub(super) fn quantile_us(&self, share: f64) -> Option<u64> {
        let count = self.count();
        let rank = (count as f64 * share).ceil().max(1.0);
        let mut passed = 0;
        let at = self.by_us.iter().position(|here| {
            passed += here;
            passed as f64 >= rank
        });
        at.filter(|_| count > 0).map(|us| us as u64)
    }

    /// The latest of all, µs.
    pub(super) fn most_us(&self) -> u64 {
        self.most_ns / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_list() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.quantile_us(0.5), None);
        (1..=100).for_each(|us| lateness.add(us * 1000 + 999));
        lateness.add(77_000_000);
        assert_eq!((lateness.quantile_us(0.5), lateness.quantile_us(0.99)), (Some(51), Some(100)));
        assert_eq!((lateness.quantile_us(1.0), lateness.most_us()), (Some(10_000), 77_000));
        let mut sum = Lateness::default();
        sum.add_all(&lateness);
        assert_eq!((sum.count(), sum.most_us()), (101, 77_000));
    }
}
