//! The counts of a trial whose player, on another host, showed none while it played.

use kqps_observation::{LiveConnections, LiveCounts, LivePhase, Trial};

/// The cause that stands for all statuses of HTTP.
const STATUS: &str = "status";

/// The counts of a finished trial. Its latencies are left out: the record has those of late and lost queries, too.
pub fn counts(trial: &Trial) -> LiveCounts {
    let mut counts = LiveCounts {
        at_s: trial.load.duration_s + trial.load.drain_s,
        phase: LivePhase::Over,
        accounts: trial.accounts,
        lost_causes: trial.lost_causes.clone(),
        rcodes: trial.response_rcodes.clone(),
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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
}
