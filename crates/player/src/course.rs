//! The fates of queries by due time, in bins of 10 ms. They show when in a trial something went wrong, so one bad
//! moment of the host need not spoil the whole trial.

use kqps_observation::trial::Mishap;

const BIN_NS: u64 = 10_000_000;

/// Queries due after the first minute have no bin, because a long trial would have too many.
const BINS_MOST: usize = 6_000;

/// A query that leaves at least this late shows that the player stood still, microseconds.
const LATE_US: u64 = 500;

/// The bins of one thread's queries.
#[derive(Debug, Default)]
pub struct Course {
    bins: Vec<Bin>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    intended: u32,
    correct: u32,
    lag_us: u32,
}

impl Course {
    /// Counts `count` queries that were due at `due_ns`.
    #[inline]
    pub fn intended(&mut self, due_ns: u64, count: u64) {
        if let Some(bin) = self.bin(due_ns) {
            bin.intended = bin.intended.saturating_add(count.try_into().unwrap_or(u32::MAX));
        }
    }

    /// Records the lag of a query that was due at `due_ns`. A bin keeps the largest lag, in microseconds.
    #[inline]
    pub fn sent(&mut self, due_ns: u64, lag_us: u64) {
        if let Some(bin) = self.bin(due_ns) {
            bin.lag_us = bin.lag_us.max(lag_us.try_into().unwrap_or(u32::MAX));
        }
    }

    /// Counts a correct reply in time to a query that was due at `due_ns`.
    #[inline]
    pub fn correct(&mut self, due_ns: u64) {
        if let Some(bin) = self.bin(due_ns) {
            bin.correct += 1;
        }
    }

    #[inline]
    fn bin(&mut self, due_ns: u64) -> Option<&mut Bin> {
        let index = (due_ns / BIN_NS) as usize;
        if index >= self.bins.len() && index < BINS_MOST {
            self.bins.resize(index + 1, Bin::default());
        }
        self.bins.get_mut(index)
    }

    /// Adds the bins of another thread.
    pub fn add(&mut self, other: &Self) {
        self.bins.resize(self.bins.len().max(other.bins.len()), Bin::default());
        for (ours, theirs) in self.bins.iter_mut().zip(&other.bins) {
            ours.intended += theirs.intended;
            ours.correct += theirs.correct;
            ours.lag_us = ours.lag_us.max(theirs.lag_us);
        }
    }

    /// Returns the bins in which queries had no correct reply or left late.
    pub fn mishaps(&self) -> Vec<Mishap> {
        let mishap = |(at, bin): (usize, &Bin)| Mishap {
            at_10ms: at as u32,
            intended: bin.intended,
            bad: bin.intended.saturating_sub(bin.correct),
            lag_us: bin.lag_us,
        };
        let all = self.bins.iter().enumerate().map(mishap);
        all.filter(|mishap| mishap.bad > 0 || u64::from(mishap.lag_us) >= LATE_US).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bins_in_which_something_went_wrong_are_reported() {
        let mut course = Course::default();
        for due_ms in 0..50 {
            course.intended(due_ms * 1_000_000, 1);
            course.sent(due_ms * 1_000_000, if due_ms == 25 { 700 } else { 40 });
            if due_ms != 41 {
                course.correct(due_ms * 1_000_000);
            }
        }
        let mut other = Course::default();
        other.intended(5_000_000, 3);
        course.add(&other);
        assert_eq!(
            course.mishaps(),
            [
                Mishap { at_10ms: 0, intended: 13, bad: 3, lag_us: 40 },
                Mishap { at_10ms: 2, intended: 10, bad: 0, lag_us: 700 },
                Mishap { at_10ms: 4, intended: 10, bad: 1, lag_us: 40 },
            ]
        );
    }

    #[test]
    fn what_is_due_after_a_minute_is_in_no_bin() {
        let mut course = Course::default();
        course.intended(59_999_999_999, 1);
        course.intended(60_000_000_000, 1);
        assert_eq!(course.mishaps().len(), 1);
    }
}
