//! A distribution of whole numbers in bounded memory: values have three significant digits.

use std::collections::BTreeMap;

use super::facts::SpreadShown;

/// Values from here on lose their last digits.
const EXACT_BELOW: u64 = 1000;

/// Counts of values. There are at most 900 distinct values for each power of ten.
#[derive(Debug, Default)]
pub(super) struct Spread {
    counts: BTreeMap<u64, u64>,
    number: u64,
    sum: u128,
    max: u64,
}

impl Spread {
    pub(super) fn add(&mut self, value: u64) {
        self.add_many(value, 1);
    }

    pub(super) fn add_many(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        *self.counts.entry(three_digits(value)).or_default() += times;
        self.number += times;
        self.sum += u128::from(value) * u128::from(times);
        self.max = self.max.max(value);
    }

    #[cfg(test)]
    pub(super) fn sum(&self) -> u128 {
        self.sum
    }

    /// The least value that this share of all values does not exceed.
    fn quantile(&self, share: f64) -> u64 {
        let rank = ((self.number as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (value, count) in &self.counts {
            seen += count;
            if seen >= rank {
                return *value;
            }
        }
        self.max
    }

    /// `None` without a value.
    pub(super) fn shown(&self) -> Option<SpreadShown> {
        (self.number > 0).then(|| SpreadShown {
            mean: self.sum as f64 / self.number as f64,
            p50: self.quantile(0.5),
            p99: self.quantile(0.99),
            max: self.max,
        })
    }
}

/// The value with its first three digits, and zeros after them.
fn three_digits(value: u64) -> u64 {
    let mut unit = 1;
    while value / unit >= EXACT_BELOW {
        unit *= 10;
    }
    value / unit * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_have_three_digits_and_the_greatest_value_has_all() {
        let mut spread = Spread::default();
        assert_eq!(spread.shown(), None);
        (1..=100_000).for_each(|value| spread.add(value));
        let shown = spread.shown().unwrap();
        assert_eq!((shown.p50, shown.p99, shown.max), (50_000, 99_000, 100_000));
        assert!((shown.mean - 50_000.5).abs() < 1e-9);
        assert!(spread.counts.len() <= 3_000, "{}", spread.counts.len());
        spread.add_many(7, 0);
        spread.add_many(u64::MAX, 1);
        assert_eq!(spread.shown().unwrap().max, u64::MAX);
    }
}
