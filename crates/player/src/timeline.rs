//! The fates of queries by due time. Bins of 10 ms show when in a trial something went wrong, so one bad moment of the
//! host need not spoil the whole trial. Moments of 100 ms and more, if the plan asks for them, show the load over time, and
//! with them the longest times without a correct reply.

use std::time::Duration;

use kqps_observation::Silence;
use kqps_observation::moments::{Moment, Moments};
use kqps_observation::trial::Mishap;

use crate::plan::MomentsPlan;
use crate::silences::{CallTimes, SilenceRule};

const BIN_NS: u64 = 10_000_000;

/// Queries due after the first minute have no bin, because a long trial would have too many.
const BINS_MOST: usize = 6_000;

/// A query that leaves at least this late shows that the player stood still, microseconds.
const LATE_US: u64 = 500;

/// The bins of one thread's queries.
#[derive(Debug, Default)]
pub struct Timeline {
    bins: Vec<Bin>,
    /// `None` unless the plan asks for them, as are the times of sends and replies.
    moments: Option<Moments>,
    calls: Option<CallTimes>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    intended: u32,
    correct: u32,
    lag_us: u32,
}

impl Timeline {
    /// Keeps the moments of the load, too, which lasts for so long if that is known.
    pub fn keep_moments(&mut self, plan: MomentsPlan, lasts: Option<Duration>) {
        self.moments = Some(Moments::new(plan.width.as_nanos() as u64, plan.most));
        self.calls = Some(CallTimes::new(lasts));
    }

    /// The longest times without a correct reply; empty if no moments are kept.
    pub fn silences(&self, rule: &SilenceRule) -> Vec<Silence> {
        self.calls.as_ref().map_or_else(Vec::new, |calls| calls.silences(rule))
    }

    /// Notes that queries left at this time.
    #[inline]
    pub fn left(&mut self, at_ns: u64) {
        if let Some(calls) = &mut self.calls {
            calls.left(at_ns);
        }
    }

    /// Counts that a correct reply had another rcode than NOERROR and NXDOMAIN.
    #[cold]
    pub fn failed(&mut self, due_ns: u64) {
        if let Some(moments) = &mut self.moments {
            moments.failed(due_ns);
        }
    }

    /// The end of the moment that has this time; `None` if no moments are kept.
    pub fn moment_end_ns(&self, ns: u64) -> Option<u64> {
        Some(self.moments.as_ref()?.bin_end_ns(ns))
    }

    /// The moments as they are recorded; empty if none are kept.
    pub fn moments(&self) -> Vec<Moment> {
        self.moments.as_ref().map_or_else(Vec::new, Moments::record)
    }

    /// Counts `count` queries that were due at `due_ns`.
    #[inline]
    pub fn intended(&mut self, due_ns: u64, count: u64) {
        if let Some(moments) = &mut self.moments {
            moments.intended(due_ns, count);
        }
        if let Some(bin) = self.bin(due_ns) {
            bin.intended = bin.intended.saturating_add(count.try_into().unwrap_or(u32::MAX));
        }
    }

    /// Records the lag of a query that was due at `due_ns`. A bin keeps the largest lag, in microseconds.
    #[inline]
    pub fn sent(&mut self, due_ns: u64, lag_us: u64) {
        if let Some(moments) = &mut self.moments {
            moments.sent(due_ns);
        }
        if let Some(bin) = self.bin(due_ns) {
            bin.lag_us = bin.lag_us.max(lag_us.try_into().unwrap_or(u32::MAX));
        }
    }

    /// Counts a correct reply in time to a query that was due at `due_ns`.
    #[inline]
    pub fn correct(&mut self, due_ns: u64, latency_ns: u64) {
        if let Some(moments) = &mut self.moments {
            moments.answered(due_ns, latency_ns);
        }
        if let Some(calls) = &mut self.calls {
            calls.answered(due_ns + latency_ns);
        }
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
        match (&mut self.moments, &other.moments) {
            (Some(ours), Some(theirs)) => ours.add(theirs),
            (None, Some(theirs)) => self.moments = Some(theirs.clone()),
            (_, None) => {}
        }
        match (&mut self.calls, &other.calls) {
            (Some(ours), Some(theirs)) => ours.add(theirs),
            (None, Some(theirs)) => self.calls = Some(theirs.clone()),
            (_, None) => {}
        }
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
        let mut timeline = Timeline::default();
        for due_ms in 0..50 {
            timeline.intended(due_ms * 1_000_000, 1);
            timeline.sent(due_ms * 1_000_000, if due_ms == 25 { 700 } else { 40 });
            if due_ms != 41 {
                timeline.correct(due_ms * 1_000_000, 0);
            }
        }
        let mut other = Timeline::default();
        other.intended(5_000_000, 3);
        timeline.add(&other);
        assert_eq!(
            timeline.mishaps(),
            [
                Mishap { at_10ms: 0, intended: 13, bad: 3, lag_us: 40 },
                Mishap { at_10ms: 2, intended: 10, bad: 0, lag_us: 700 },
                Mishap { at_10ms: 4, intended: 10, bad: 1, lag_us: 40 },
            ]
        );
    }

    #[test]
    fn what_is_due_after_a_minute_is_in_no_bin() {
        let mut timeline = Timeline::default();
        timeline.intended(59_999_999_999, 1);
        timeline.intended(60_000_000_000, 1);
        assert_eq!(timeline.mishaps().len(), 1);
    }
}
