//! The counts of a trial whose player, on another host, showed none while it played.

use kqps_observation::live::{LIVE_RANGES, live_range_of};
use kqps_observation::{Histogram, LiveConnections, LiveCounts, LivePhase, LiveTimes, Trial};

/// The cause that stands for all statuses of HTTP.
const STATUS: &str = "status";

/// The counts of a finished trial.
pub fn counts(trial: &Trial) -> LiveCounts {
    let latency = latency(trial);
    let mut counts = LiveCounts {
        at_s: trial.load.wall_s(),
        phase: LivePhase::Over,
        accounts: trial.accounts,
        lost_causes: trial.lost_causes.clone(),
        rcodes: trial.response_rcodes.clone(),
        misses_latencies: latency.is_none(),
        latency: latency.unwrap_or_default(),
        connections: trial.connections.as_ref().map(|all| LiveConnections {
            attempts: all.attempts,
            established: all.established,
            failed: all.failed.values().sum(),
            closed: all.closed.values().sum(),
        }),
        ..LiveCounts::default()
    };
    for (cause, count) in &trial.unsent_causes {
        // Players name what had no room.
        let cause = if matches!(cause.as_str(), "late" | "window") { cause.as_str() } else { "room" };
        *counts.unsent_causes.entry(cause.to_owned()).or_default() += count;
    }
    for (cause, count) in &trial.wrong_causes {
        let cause = if cause.starts_with(STATUS) { STATUS } else { cause.as_str() };
        *counts.wrong_causes.entry(cause.to_owned()).or_default() += count;
    }
    counts
}

/// The latencies of correct replies in time; `None` if the record lacks them. Its histogram also has those of late
/// replies, and lost queries as the timeout. In the bucket of the timeout, only as many are taken as are missing from
/// `correct`.
fn latency(trial: &Trial) -> Option<LiveTimes> {
    let histogram = Histogram::decode(trial.histograms.get("latency")?)?;
    let timeout_us = (trial.load.timeout_s * 1e6).round() as u64;
    let (mut counts, mut left) = ([0; LIVE_RANGES], trial.accounts.correct);
    for (time_us, count) in histogram.times() {
        let is_at_timeout = histogram.are_same(time_us, timeout_us);
        if time_us > timeout_us && !is_at_timeout {
            break;
        }
        let of_correct = if is_at_timeout { count.min(left) } else { count };
        left = left.checked_sub(of_correct)?;
        counts[live_range_of(time_us.min(timeout_us))] += of_correct;
    }
    (left == 0).then(|| LiveTimes::of_ranges(counts.into_iter()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kqps_observation::Accounts;
    use kqps_observation::trial::LoadFacts;

    use super::*;

    #[test]
    fn causes_are_those_of_a_running_trial() {
        let named = |counts: &[(&str, u64)]| -> BTreeMap<String, u64> {
            counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        let trial = Trial {
            unsent_causes: named(&[("late", 1), ("ids", 2), ("connections", 3)]),
            wrong_causes: named(&[("rcode", 1), ("status-503", 2), ("status-404", 3)]),
            ..Trial::default()
        };
        let counts = counts(&trial);
        assert_eq!(counts.unsent_causes, named(&[("late", 1), ("room", 5)]));
        assert_eq!(counts.wrong_causes, named(&[("rcode", 1), ("status", 5)]));
        assert_eq!((counts.phase, counts.connections), (LivePhase::Over, None));
    }

    #[test]
    fn latencies_are_those_of_correct_replies_in_time() {
        let mut histogram = Histogram::default();
        for (time_us, count) in [(90, 5), (3_000, 2), (250_000, 4), (400_000, 3)] {
            histogram.record_many_us(time_us, count);
        }
        // A reply came right at the timeout; three queries were lost, and three replies were late.
        let accounts = Accounts { sent: 14, correct: 8, late: 3, lost: 3, ..Accounts::default() };
        let trial = Trial {
            accounts,
            load: LoadFacts { timeout_s: 0.25, ..LoadFacts::default() },
            histograms: BTreeMap::from([("latency".to_owned(), histogram.encode())]),
            ..Trial::default()
        };
        let counts = counts(&trial);
        assert!(!counts.misses_latencies);
        assert_eq!(counts.latency.ranges().collect::<Vec<_>>(), [(96, 5), (3_072, 2), (262_144, 1)]);
        for (correct, histograms) in
            [(6, trial.histograms.clone()), (8, BTreeMap::new()), (12, trial.histograms.clone())]
        {
            let odd = Trial { accounts: Accounts { correct, ..accounts }, histograms, ..trial.clone() };
            let counts = super::counts(&odd);
            assert!(counts.misses_latencies && counts.latency.count() == 0, "{correct} correct");
        }
    }
}
