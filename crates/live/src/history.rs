//! Counts by time: intervals of equal age, of which there are never more than a few hundred. When there would be
//! more, every two become one, so that the history always covers the whole command.

use kqps_observation::{LiveCounts, LiveTimes, Percentile};

/// The most intervals.
const MOST: usize = 240;

/// A quantile of an interval is a figure if at least this many replies lie beyond it, and a bound otherwise.
const BEYOND: f64 = 10.0;

/// Intervals whose replies are taken together for a bound, at most.
const TOGETHER_MOST: usize = 12;

/// An interval with its counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interval {
    /// Its end, seconds since the command began.
    pub end_s: f64,
    /// For how long a player played in it, seconds.
    pub seconds: f64,
    /// The counts of the interval.
    pub counts: LiveCounts,
}

impl Interval {
    fn rate(&self, count: u64) -> Option<f64> {
        (self.seconds > 0.0).then(|| count as f64 / self.seconds)
    }

    /// Queries sent a second; `None` if no player played.
    pub fn sent_qps(&self) -> Option<f64> {
        self.rate(self.counts.accounts.sent)
    }

    /// Correct replies a second; `None` if no player played.
    pub fn answered_qps(&self) -> Option<f64> {
        self.rate(self.counts.accounts.correct)
    }

    /// Correct replies a second to a class of clients; `None` if it did not play.
    pub fn class_answered_qps(&self, name: &str) -> Option<f64> {
        let class = self.counts.classes.iter().find(|class| class.name == name)?;
        self.rate(class.accounts.correct)
    }

    /// Estimate of a quantile of latency from this interval's replies; `None` without replies.
    pub fn percentile(&self, quantile: f64) -> Option<Percentile> {
        percentile(&self.counts, quantile)
    }

    /// Cores that the player kept busy; `None` if that is not known.
    pub fn player_cores(&self) -> Option<f64> {
        self.counts.player_cpu_s.filter(|_| self.seconds > 0.0).map(|cpu_s| cpu_s / self.seconds)
    }

    /// Cores that the subject kept busy; `None` if that is not known.
    pub fn subject_cores(&self) -> Option<f64> {
        self.counts.subject_cpu_s.filter(|_| self.seconds > 0.0).map(|cpu_s| cpu_s / self.seconds)
    }

    /// This interval and the one after it, as one.
    pub(crate) fn and(&self, next: &Self) -> Self {
        Self {
            end_s: next.end_s,
            seconds: self.seconds + next.seconds,
            counts: next.counts.and(&self.counts),
        }
    }
}

/// Estimate of a quantile of latency from all replies; `None` without replies.
pub fn percentile(counts: &LiveCounts, quantile: f64) -> Option<Percentile> {
    counts.latency.percentile(quantile, BEYOND)
}

/// The intervals so far, the oldest first.
#[derive(Clone, Debug)]
pub struct History {
    intervals: Vec<Interval>,
    /// How many of the intervals that come in one stored interval holds.
    each: usize,
    /// How many of them the last one holds.
    in_last: usize,
}

impl Default for History {
    fn default() -> Self {
        Self { intervals: Vec::new(), each: 1, in_last: 1 }
    }
}

impl History {
    /// The intervals, the oldest first.
    pub fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// Estimates of a quantile of latency at the end of each interval, with those of the intervals before it if
    /// its own are too few for a bound; `None` without replies.
    pub fn percentiles(&self, quantile: f64) -> impl Iterator<Item = Option<Percentile>> + '_ {
        (0..self.intervals.len()).map(move |at| {
            let mut times = LiveTimes::default();
            let mut seen = None;
            for interval in self.intervals[..=at].iter().rev().take(TOGETHER_MOST) {
                times = times.and(&interval.counts.latency);
                seen = times.percentile(quantile, BEYOND);
                if !matches!(seen, None | Some(Percentile::Greatest(_))) {
                    break;
                }
            }
            seen
        })
    }

    /// Adds what happened right after the newest interval to that interval.
    pub fn lengthen(&mut self, more: &Interval) {
        if let Some(last) = self.intervals.last_mut() {
            *last = last.and(more);
        }
    }

    /// Adds an interval.
    pub fn add(&mut self, interval: Interval) {
        if self.in_last < self.each
            && let Some(last) = self.intervals.last_mut()
        {
            *last = last.and(&interval);
            self.in_last += 1;
            return;
        }
        if self.intervals.len() == MOST {
            let pairs = self.intervals.chunks(2);
            self.intervals = pairs
                .map(|pair| pair.iter().skip(1).fold(pair[0].clone(), |sum, next| sum.and(next)))
                .collect();
            self.each *= 2;
        }
        self.intervals.push(interval);
        self.in_last = 1;
    }
}

#[cfg(test)]
mod tests {
    use kqps_observation::Accounts;
    use kqps_observation::live::{LIVE_RANGES, live_range_of};

    use super::*;

    fn interval(end_s: f64, sent: u64) -> Interval {
        let counts =
            LiveCounts { accounts: Accounts { sent, ..Accounts::default() }, ..LiveCounts::default() };
        Interval { end_s, seconds: 1.0, counts }
    }

    #[test]
    fn a_long_history_stays_short_and_loses_nothing() {
        let mut history = History::default();
        let count = 10 * MOST as u64 + 7;
        (1..=count).for_each(|second| history.add(interval(second as f64, second)));
        let intervals = history.intervals();
        assert!(intervals.len() <= MOST, "{}", intervals.len());
        assert!(intervals.windows(2).all(|pair| pair[0].end_s < pair[1].end_s));
        let sent: u64 = intervals.iter().map(|interval| interval.counts.accounts.sent).sum();
        let seconds: f64 = intervals.iter().map(|interval| interval.seconds).sum();
        assert_eq!((sent, seconds as u64), (count * (count + 1) / 2, count));
        assert!((intervals.last().unwrap().end_s - count as f64).abs() < 1e-9);
    }

    #[test]
    fn nothing_is_claimed_of_an_interval_without_a_player() {
        let idle = Interval { end_s: 1.0, ..Interval::default() };
        assert_eq!((idle.sent_qps(), idle.player_cores(), idle.percentile(0.5)), (None, None, None));
        assert_eq!(interval(1.0, 7).sent_qps(), Some(7.0));
    }

    #[test]
    fn intervals_with_few_replies_have_a_bound_together() {
        let mut history = History::default();
        for second in 1..=4 {
            let mut counts = [0; LIVE_RANGES];
            counts[live_range_of(second * 100)] = 100;
            let latency = LiveTimes::of_ranges(counts.into_iter());
            let counts = LiveCounts { latency, ..LiveCounts::default() };
            history.add(Interval { end_s: second as f64, seconds: 1.0, counts });
        }
        let p99: Vec<Option<Percentile>> = history.percentiles(0.99).collect();
        assert_eq!(
            p99,
            [
                Some(Percentile::Greatest(104)),
                Some(Percentile::Greatest(208)),
                Some(Percentile::AtMost(320)),
                Some(Percentile::AtMost(416)),
            ]
        );
        assert_eq!(History::default().percentiles(0.99).count(), 0);
    }
}
