//! Queries that a resolver asked upstream during a trial.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Queries that came to the servers of an Internet in a box during a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UpstreamFacts {
    /// Queries by UDP, by the level of the zone: `root`, `tld`, `hosting` for zones below, `nothing` for none.
    pub udp: BTreeMap<String, u64>,
    /// Queries by TCP, likewise.
    pub tcp: BTreeMap<String, u64>,
    /// Faults that the servers made, by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub faults: BTreeMap<String, u64>,
    /// CPU seconds of the process of all servers.
    #[serde(default)]
    pub cpu_s: f64,
    /// Whether this process ran on the resolver's cores, since no other core was free.
    #[serde(default)]
    pub is_beside_subject: bool,
}

impl UpstreamFacts {
    /// All queries.
    pub fn queries(&self) -> u64 {
        self.udp.values().chain(self.tcp.values()).sum()
    }

    /// The counts since an earlier time.
    #[must_use]
    pub fn since(self, earlier: &Self) -> Self {
        let since = |now: BTreeMap<String, u64>, then: &BTreeMap<String, u64>| {
            let before = |name: &str| then.get(name).copied().unwrap_or(0);
            let counts = now.into_iter().map(|(name, count)| {
                let count = count.saturating_sub(before(&name));
                (name, count)
            });
            counts.filter(|(_, count)| *count > 0).collect()
        };
        Self {
            udp: since(self.udp, &earlier.udp),
            tcp: since(self.tcp, &earlier.tcp),
            faults: since(self.faults, &earlier.faults),
            cpu_s: (self.cpu_s - earlier.cpu_s).max(0.0),
            is_beside_subject: self.is_beside_subject,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_trial_are_those_after_it_without_those_before() {
        let counts = |root, tld| UpstreamFacts {
            udp: [("root".to_owned(), root), ("tld".to_owned(), tld)].into(),
            ..UpstreamFacts::default()
        };
        let of_trial = counts(5, 9).since(&counts(5, 2));
        assert_eq!((of_trial.queries(), of_trial.udp.len()), (7, 1));
        assert_eq!(counts(1, 1).since(&UpstreamFacts::default()), counts(1, 1));
    }
}
