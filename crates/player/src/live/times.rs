//! Times of many events: their number, sum and limits, and a histogram of about 3 % resolution.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::counters::{Counters, add};

/// Each power of two of microseconds has this many buckets, as a power of two: those of dnsperf 2.14.
const PER_POWER_LOG2: u32 = 5;
const PER_POWER: u64 = 1 << PER_POWER_LOG2;
/// Enough for 2^40 µs, which are 12 days. Longer times count in the last bucket.
const BUCKETS: usize = 36 * PER_POWER as usize;

/// The times that one thread counts.
#[derive(Debug)]
pub(super) struct Times {
    count: AtomicU64,
    sum_us: AtomicU64,
    squares: AtomicU64,
    min_us: AtomicU64,
    max_us: AtomicU64,
    buckets: Counters,
}

/// The times that all threads have counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimesSnapshot {
    /// How many they are.
    pub count: u64,
    /// Their sum, microseconds.
    pub sum_us: u64,
    /// The sum of their squares, square microseconds.
    pub squares: u64,
    /// The shortest since the trial's start, microseconds; 0 without any.
    pub min_us: u64,
    /// The longest since the trial's start, microseconds.
    pub max_us: u64,
    buckets: Vec<u64>,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            count: AtomicU64::new(0),
            sum_us: AtomicU64::new(0),
            squares: AtomicU64::new(0),
            min_us: AtomicU64::new(u64::MAX),
            max_us: AtomicU64::new(0),
            buckets: Counters::new(BUCKETS),
        }
    }
}

impl Times {
    /// Counts a time.
    #[inline]
    pub(super) fn add(&self, time_us: u64) {
        add(&self.count, 1);
        add(&self.sum_us, time_us);
        add(&self.squares, time_us.saturating_mul(time_us));
        self.min_us.store(self.min_us.load(Relaxed).min(time_us), Relaxed);
        self.max_us.store(self.max_us.load(Relaxed).max(time_us), Relaxed);
        self.buckets.count(bucket_of(time_us));
    }

    pub(super) fn snapshot(&self) -> TimesSnapshot {
        let count = self.count.load(Relaxed);
        TimesSnapshot {
            count,
            sum_us: self.sum_us.load(Relaxed),
            squares: self.squares.load(Relaxed),
            min_us: if count == 0 { 0 } else { self.min_us.load(Relaxed) },
            max_us: self.max_us.load(Relaxed),
            buckets: self.buckets.values().collect(),
        }
    }
}

impl FromIterator<u64> for TimesSnapshot {
    /// Counts times in microseconds.
    fn from_iter<I: IntoIterator<Item = u64>>(times_us: I) -> Self {
        let times = Times::default();
        times_us.into_iter().for_each(|time_us| times.add(time_us));
        times.snapshot()
    }
}

impl TimesSnapshot {
    /// The times of both.
    #[must_use]
    pub(super) fn and(&self, other: &Self) -> Self {
        let min_us = match (self.count, other.count) {
            (0, _) => other.min_us,
            (_, 0) => self.min_us,
            _ => self.min_us.min(other.min_us),
        };
        Self { min_us, max_us: self.max_us.max(other.max_us), ..self.each(other, |one, more| one + more) }
    }

    /// The times that were counted since an earlier snapshot. The limits are those since the start.
    #[must_use]
    pub(super) fn since(&self, earlier: &Self) -> Self {
        self.each(earlier, u64::saturating_sub)
    }

    /// The numbers that add up, each made from those of both. The limits are ours.
    fn each(&self, other: &Self, of: impl Fn(u64, u64) -> u64) -> Self {
        let theirs = other.buckets.iter().chain(std::iter::repeat(&0));
        Self {
            count: of(self.count, other.count),
            sum_us: of(self.sum_us, other.sum_us),
            squares: of(self.squares, other.squares),
            buckets: self.buckets.iter().zip(theirs).map(|(ours, theirs)| of(*ours, *theirs)).collect(),
            ..*self
        }
    }

    /// Their mean, whole microseconds; 0 without any.
    pub fn mean_us(&self) -> u64 {
        self.sum_us.checked_div(self.count).unwrap_or(0)
    }

    /// Their standard deviation, microseconds; `None` with fewer than two.
    pub fn deviation_us(&self) -> Option<f64> {
        let [count, sum, squares] = [self.count, self.sum_us, self.squares].map(|number| number as f64);
        (self.count > 1).then(|| ((squares - sum * sum / count) / (count - 1.0)).max(0.0).sqrt())
    }

    /// For each range of microseconds that has any, its lowest, its highest, and how many.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let counts = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(bucket, count)| (lowest_of(bucket), lowest_of(bucket + 1) - 1, *count))
    }
}

/// The bucket of a time: one to each microsecond below 32 µs, then 32 to each power of two.
#[inline]
fn bucket_of(time_us: u64) -> usize {
    let power = (time_us | PER_POWER).ilog2() - PER_POWER_LOG2;
    let bucket = u64::from(power) * PER_POWER + (time_us >> power);
    (bucket as usize).min(BUCKETS - 1)
}

/// The shortest time of a bucket, microseconds.
fn lowest_of(bucket: usize) -> u64 {
    let (power, part) = (bucket as u64 / PER_POWER, bucket as u64 % PER_POWER);
    if power == 0 { part } else { (PER_POWER + part) << (power - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(times_us: &[u64]) -> TimesSnapshot {
        times_us.iter().copied().collect()
    }

    #[test]
    fn a_bucket_has_the_times_from_its_lowest_to_its_highest() {
        for time_us in (0..5_000).chain([65_535, 65_536, 1 << 30, (1 << 39) + 7]) {
            let bucket = bucket_of(time_us);
            let (low, high) = (lowest_of(bucket), lowest_of(bucket + 1) - 1);
            assert!((low..=high).contains(&time_us), "{time_us}: {low} to {high}");
            assert!(high - low <= time_us / PER_POWER, "{time_us}: {low} to {high}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    /// The ranges that dnsperf 2.14 prints.
    #[test]
    fn ranges_are_those_of_dnsperf() {
        let buckets: Vec<_> = snapshot(&[31, 32, 63, 64, 65, 66, 1_000]).buckets().collect();
        assert_eq!(
            buckets,
            [(31, 31, 1), (32, 32, 1), (63, 63, 1), (64, 65, 2), (66, 67, 1), (992, 1_007, 1)]
        );
    }

    #[test]
    fn times_have_a_mean_limits_and_a_deviation() {
        let one = snapshot(&[40, 60, 80]);
        assert_eq!((one.count, one.mean_us(), one.min_us, one.max_us), (3, 60, 40, 80));
        assert!((one.deviation_us().unwrap() - 20.0).abs() < 1e-9);
        let both = one.and(&snapshot(&[20])).and(&snapshot(&[]));
        assert_eq!((both.count, both.min_us, both.max_us, both.mean_us()), (4, 20, 80, 50));
        let since = both.since(&one);
        assert_eq!(
            (since.count, since.sum_us, since.buckets().collect::<Vec<_>>()),
            (1, 20, vec![(20, 20, 1)])
        );
        assert_eq!(both.since(&TimesSnapshot::default()), both);
        assert_eq!(
            (snapshot(&[]), snapshot(&[]).mean_us(), snapshot(&[7]).deviation_us()),
            (snapshot(&[]), 0, None)
        );
    }
}
