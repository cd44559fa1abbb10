//! Counts of a trial so far, while it is played. The record of the trial says the same when it is over, with more
//! detail. It passes from a player's process to the program that shows it, and is stored nowhere.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::accounts::Accounts;
use crate::percentile::{Percentile, left_out};

/// The counts of a running trial. All of them grow from the trial's start, but for what is outstanding and open.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveCounts {
    /// Seconds since the trial's start; 0 before it.
    pub at_s: f64,
    /// The player's phase.
    pub phase: LivePhase,
    /// The fates of the queries that have one. The buckets add up when the trial is over.
    pub accounts: Accounts,
    /// Queries that may still be answered in time.
    pub outstanding: u64,
    /// Queries that have no fate but were not answered in time.
    pub overdue: u64,
    /// Cause → unsent queries: `late`, `window` or `room`, if no flow had an ID or a connection left.
    pub unsent_causes: BTreeMap<String, u64>,
    /// Cause → wrong replies, as in [`crate::Trial::wrong_causes`], with one cause `status` for all statuses of HTTP.
    pub wrong_causes: BTreeMap<String, u64>,
    /// Cause → lost queries, as in [`crate::Trial::lost_causes`].
    pub lost_causes: BTreeMap<String, u64>,
    /// Rcode → replies, as in [`crate::Trial::response_rcodes`].
    pub rcodes: BTreeMap<String, u64>,
    /// The latencies of correct replies in time.
    pub latency: LiveTimes,
    /// Whether latencies of correct replies are missing in [`Self::latency`].
    #[serde(default)]
    pub misses_latencies: bool,
    /// The connections; `None` without any.
    pub connections: Option<LiveConnections>,
    /// CPU seconds that the player's threads have used; `None` if they are not known.
    pub player_cpu_s: Option<f64>,
    /// CPU seconds that the subject has used since it started; `None` if they are not known.
    pub subject_cpu_s: Option<f64>,
    /// Each class of clients in its order; empty for a load without classes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<LiveClass>,
}

/// The counts of one class of clients of a running trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveClass {
    /// Its name.
    pub name: String,
    /// The fates of its queries that have one.
    pub accounts: Accounts,
    /// Attempts that it began; 0 unless it is one of attackers.
    pub attempts: u64,
    /// The latencies of correct replies in time.
    pub latency: LiveTimes,
}

/// A phase of a player.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum LivePhase {
    /// It gets ready.
    #[default]
    Preparing,
    /// It sends.
    Sending,
    /// It has sent all, and waits for replies.
    Draining,
    /// The trial is over.
    Over,
}

impl LivePhase {
    /// All phases, in their order.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The phase in a word.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// Connections of a running trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveConnections {
    /// Connections that the player began to make.
    pub attempts: u64,
    /// Connections that were made.
    pub established: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Connections that ended.
    pub closed: u64,
}

impl LiveConnections {
    /// Connections that are open.
    pub fn open(&self) -> u64 {
        self.established.saturating_sub(self.closed)
    }
}

/// How many times fell into which range. A range begins where the one before it ends: one to each microsecond below
/// 8 µs, then eight to each power of two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveTimes(Vec<(u16, u64)>);

/// The number of ranges. Longer times than about 2^29 µs fall into the last one.
pub const LIVE_RANGES: usize = 8 * 27;

impl LiveTimes {
    /// Times by their range.
    pub fn of_ranges(counts: impl Iterator<Item = u64>) -> Self {
        Self((0..).zip(counts).filter(|(_, count)| *count > 0).collect())
    }

    /// How many times they are.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// Each range that has any: its end in microseconds, which belongs to the next range, and how many.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|(range, count)| (live_range_end_us(usize::from(*range)), *count))
    }

    /// The sum of all times, microseconds, each taken as the middle of its range: the sum is wrong by 6 % at most.
    pub fn sum_us(&self) -> f64 {
        let middle = |range: usize| {
            let begin = range.checked_sub(1).map_or(0, live_range_end_us);
            f64::midpoint(begin as f64, live_range_end_us(range) as f64)
        };
        self.0.iter().map(|(range, count)| middle(usize::from(*range)) * *count as f64).sum()
    }

    /// The end of the range that a quantile from 0 to 1 is in, microseconds; `None` without times.
    pub fn quantile_us(&self, quantile: f64) -> Option<u64> {
        let wanted = ((self.count() as f64 * quantile).ceil() as u64).max(1);
        let mut seen = 0;
        self.ranges().find_map(|(end_us, count)| {
            seen += count;
            (seen >= wanted).then_some(end_us)
        })
    }

    /// Estimate from these times of a quantile from 0 to 1, by the ends of their ranges: about where it is if `beyond_least` times
    /// lie beyond it, or else a bound. `None` without times.
    pub fn percentile(&self, quantile: f64, beyond_least: f64) -> Option<Percentile> {
        let count = self.count();
        // Slightly less, so that a thousand times have ten beyond p99 despite the binary fraction.
        if count as f64 * (1.0 - quantile).min(quantile) >= beyond_least - 1e-6 {
            return self.quantile_us(quantile).map(Percentile::Is);
        }
        let Some(left_out) = left_out(count, 1.0 - quantile) else {
            return self.quantile_us(1.0).map(Percentile::Greatest);
        };
        let mut seen = 0;
        self.ranges().find_map(|(end_us, of_range)| {
            seen += of_range;
            (seen >= count - left_out).then_some(Percentile::AtMost(end_us))
        })
    }

    /// The times that were counted since an earlier state.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        self.with(earlier, u64::saturating_sub)
    }

    /// The times of both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    fn with(&self, other: &Self, of: impl Fn(u64, u64) -> u64) -> Self {
        let mut both: BTreeMap<u16, (u64, u64)> =
            self.0.iter().map(|(range, count)| (*range, (*count, 0))).collect();
        for (range, count) in &other.0 {
            both.entry(*range).or_default().1 = *count;
        }
        let counts = both.into_iter().map(|(range, (ours, theirs))| (range, of(ours, theirs)));
        Self(counts.filter(|(_, count)| *count > 0).collect())
    }
}

/// The range of a time in microseconds, from 0.
#[inline]
pub fn live_range_of(time_us: u64) -> usize {
    if time_us < 8 {
        return time_us as usize;
    }
    let power = time_us.ilog2();
    let eighth = (time_us >> (power - 3)) & 7;
    (((power - 2) * 8) as usize + eighth as usize).min(LIVE_RANGES - 1)
}

/// The end of a range in microseconds, which belongs to the next one.
pub fn live_range_end_us(range: usize) -> u64 {
    if range < 8 {
        return range as u64 + 1;
    }
    let (power, eighth) = (range / 8 + 2, range as u64 % 8);
    (9 + eighth) << (power - 3)
}

impl LiveCounts {
    /// The counts since an earlier state of the same trial. What is outstanding and open is that of now.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        self.with(earlier, u64::saturating_sub, LiveTimes::since, |now, then| (now - then).max(0.0))
    }

    /// The counts of both. What is outstanding and open is that of these. A CPU time that only one knows is that one's.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let both = self.with(other, u64::saturating_add, LiveTimes::and, |one, more| one + more);
        Self {
            player_cpu_s: both.player_cpu_s.or(other.player_cpu_s),
            subject_cpu_s: both.subject_cpu_s.or(other.subject_cpu_s),
            ..both
        }
    }

    fn with(
        &self,
        other: &Self,
        of: impl Fn(u64, u64) -> u64,
        times: impl Fn(&LiveTimes, &LiveTimes) -> LiveTimes,
        seconds: impl Fn(f64, f64) -> f64,
    ) -> Self {
        let by_name = |ours: &BTreeMap<String, u64>, theirs: &BTreeMap<String, u64>| {
            let names = ours.keys().chain(theirs.keys());
            let count = |counts: &BTreeMap<String, u64>, name| counts.get(name).copied().unwrap_or(0);
            names.map(|name| (name.clone(), of(count(ours, name), count(theirs, name)))).collect()
        };
        let connections = self.connections.map(|ours| {
            let theirs = other.connections.unwrap_or_default();
            LiveConnections {
                attempts: of(ours.attempts, theirs.attempts),
                established: of(ours.established, theirs.established),
                failed: of(ours.failed, theirs.failed),
                closed: of(ours.closed, theirs.closed),
            }
        });
        let cpu = |ours: Option<f64>, theirs: Option<f64>| match (ours, theirs) {
            (Some(ours), Some(theirs)) => Some(seconds(ours, theirs)),
            (ours, _) => ours,
        };
        let class = |ours: &LiveClass| {
            let theirs = other.classes.iter().find(|theirs| theirs.name == ours.name);
            let theirs = theirs.cloned().unwrap_or_default();
            LiveClass {
                name: ours.name.clone(),
                accounts: ours.accounts.with(&theirs.accounts, &of),
                attempts: of(ours.attempts, theirs.attempts),
                latency: times(&ours.latency, &theirs.latency),
            }
        };
        Self {
            at_s: seconds(self.at_s, other.at_s),
            phase: self.phase,
            accounts: self.accounts.with(&other.accounts, &of),
            outstanding: self.outstanding,
            overdue: self.overdue,
            unsent_causes: by_name(&self.unsent_causes, &other.unsent_causes),
            wrong_causes: by_name(&self.wrong_causes, &other.wrong_causes),
            lost_causes: by_name(&self.lost_causes, &other.lost_causes),
            rcodes: by_name(&self.rcodes, &other.rcodes),
            latency: times(&self.latency, &other.latency),
            misses_latencies: self.misses_latencies || other.misses_latencies,
            connections: connections.or(other.connections),
            player_cpu_s: cpu(self.player_cpu_s, other.player_cpu_s),
            subject_cpu_s: cpu(self.subject_cpu_s, other.subject_cpu_s),
            classes: self.classes.iter().map(class).collect(),
        }
    }

    /// Queries that are known by now not to be answered correctly in time.
    pub fn bad(&self) -> u64 {
        let Accounts { unsent, send_failed, wrong, late, lost, .. } = self.accounts;
        unsent + send_failed + wrong + late + lost + self.overdue
    }

    /// The share of bad queries, from 0 to 1, among those whose fate is known; 0 if there are none.
    pub fn bad_share(&self) -> f64 {
        let bad = self.bad();
        bad as f64 / (bad + self.accounts.correct).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(times_us: &[u64]) -> LiveTimes {
        let mut counts = [0; LIVE_RANGES];
        for time_us in times_us {
            counts[live_range_of(*time_us)] += 1;
        }
        LiveTimes::of_ranges(counts.into_iter())
    }

    #[test]
    fn every_time_lies_in_its_range() {
        for time_us in (0..5000).chain([65_535, 65_536, 1_000_000, 59_999_999]) {
            let range = live_range_of(time_us);
            assert!(time_us < live_range_end_us(range), "{time_us}");
            assert!(range == 0 || time_us >= live_range_end_us(range - 1), "{time_us}");
        }
        assert_eq!(live_range_of(u64::MAX), LIVE_RANGES - 1);
    }

    #[test]
    fn times_have_a_sum_quantiles_and_differences() {
        let then = times(&[3, 100]);
        let now = times(&[3, 100, 100, 100, 5_000]);
        let since = now.since(&then);
        assert_eq!((since.count(), then.and(&since)), (3, now.clone()));
        assert_eq!(since.ranges().collect::<Vec<_>>(), [(104, 2), (5_120, 1)]);
        assert_eq!((now.quantile_us(0.5), now.quantile_us(0.99)), (Some(104), Some(5_120)));
        assert_eq!(times(&[]).quantile_us(0.5), None);
        assert!((now.sum_us() - 5_303.0).abs() < 0.06 * 5_303.0, "{}", now.sum_us());
    }

    #[test]
    fn few_times_have_a_bound() {
        let times_us: Vec<u64> = (1..=1_000).collect();
        assert_eq!(times(&times_us).percentile(0.99, 10.0), Some(Percentile::Is(1_024)));
        assert_eq!(times(&times_us).percentile(0.5, 10.0), Some(Percentile::Is(512)));
        // The second greatest of 500 is 499, whose range ends at 512.
        assert_eq!(times(&times_us[..500]).percentile(0.99, 10.0), Some(Percentile::AtMost(512)));
        assert_eq!(times(&times_us[..7]).percentile(0.99, 10.0), Some(Percentile::Greatest(8)));
        assert_eq!(times(&[]).percentile(0.99, 10.0), None);
    }

    #[test]
    fn counts_are_subtracted_and_added_by_name() {
        let counts = |name: &str, count| BTreeMap::from([(name.to_owned(), count)]);
        let then = LiveCounts {
            at_s: 1.0,
            accounts: Accounts { sent: 10, correct: 4, ..Accounts::default() },
            rcodes: counts("NOERROR", 4),
            player_cpu_s: Some(0.5),
            ..LiveCounts::default()
        };
        let now = LiveCounts {
            at_s: 3.0,
            accounts: Accounts { sent: 30, correct: 20, lost: 2, ..Accounts::default() },
            outstanding: 6,
            overdue: 2,
            rcodes: BTreeMap::from([("NOERROR".to_owned(), 20), ("NXDOMAIN".to_owned(), 1)]),
            lost_causes: counts("time", 2),
            player_cpu_s: Some(0.75),
            subject_cpu_s: Some(7.0),
            ..LiveCounts::default()
        };
        let since = now.since(&then);
        assert_eq!((since.accounts.sent, since.accounts.correct, since.outstanding), (20, 16, 6));
        assert_eq!(
            (since.rcodes["NOERROR"], since.rcodes["NXDOMAIN"], since.lost_causes["time"]),
            (16, 1, 2)
        );
        assert_eq!((since.at_s, since.player_cpu_s, since.subject_cpu_s), (2.0, Some(0.25), Some(7.0)));
        let both = since.and(&then);
        assert_eq!((both.accounts, &both.rcodes), (now.accounts, &now.rcodes));
        assert_eq!(then.and(&since).subject_cpu_s, Some(7.0), "what one of them knows is kept");
        assert!((now.bad_share() - 4.0 / 24.0).abs() < 1e-12);
    }
}
