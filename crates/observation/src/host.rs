//! Facts of the host over a trial, as differences of counters read before and after it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::network::NetworkFacts;

/// The host over one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostFacts {
    /// Seconds between the two readings.
    pub wall_s: f64,
    /// How each core spent that time.
    pub cpus: Vec<CpuFacts>,
    /// The counters of the player's network namespace, or of that in which the host without a player was watched. Other
    /// traffic moves them too.
    #[serde(default)]
    pub network: NetworkFacts,
    /// Packets that the kernel's backlog refused (`softnet_stat`, column 2).
    pub softnet_dropped: u64,
    /// Times that the backlog ran out of budget (`softnet_stat`, column 3).
    pub softnet_squeezed: u64,
    /// The kernel's reason → IP packets that it dropped for that reason on the whole host (tracepoint
    /// `skb:kfree_skb`). `NOT_SPECIFIED` counts drops without a reason. `None` if reasons were not counted.
    #[serde(default)]
    pub drop_reasons: Option<BTreeMap<String, u64>>,
    /// CPU seconds on the used cores of processes other than player and subject. If one of them is not pinned, all
    /// cores are used. `None` if it is not known.
    pub foreign_cpu_s: Option<f64>,
    /// Facts that could not be read, and why.
    pub unreadable: BTreeMap<String, String>,
    /// The kernel's random number of this boot. Hosts with the same number are one machine. `None` if the kernel has
    /// none, and in records older than the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// The number of the network namespace of `network`, as in `/proc/PID/ns/net`. With the same `boot_id`, the same
    /// number is the same namespace, whose counters are then those of several hosts. `None` if it could not be read,
    /// and in records older than the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_namespace: Option<u64>,
    /// The interface that carries queries and replies, if several hosts took part and it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

impl HostFacts {
    /// Whether another host's counters of packets are those of the same network namespace.
    pub fn shares_namespace(&self, other: &Self) -> bool {
        let namespace = |host: &Self| host.boot_id.clone().zip(host.network_namespace);
        namespace(self).is_some() && namespace(self) == namespace(other)
    }
}

/// How one core spent a trial. The shares are 0 to 1 and add up to about 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs)] // the names are those of /proc/stat
pub struct CpuFacts {
    pub cpu: u32,
    pub user: f64,
    pub system: f64,
    pub irq: f64,
    pub softirq: f64,
    pub steal: f64,
    pub idle: f64,
    /// Its frequency in MHz when the last query was sent, from `scaling_cur_freq`. `None` if the kernel does not
    /// control it, as in most virtual machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency_mhz: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_the_same_if_boot_and_number_are_known_and_equal() {
        let host = |boot: Option<&str>, number| HostFacts {
            boot_id: boot.map(str::to_owned),
            network_namespace: number,
            ..HostFacts::default()
        };
        assert!(host(Some("a"), Some(7)).shares_namespace(&host(Some("a"), Some(7))));
        for other in [host(Some("a"), Some(8)), host(Some("b"), Some(7)), host(Some("a"), None)] {
            assert!(!host(Some("a"), Some(7)).shares_namespace(&other));
        }
        assert!(!host(Some("a"), None).shares_namespace(&host(Some("a"), None)));
        assert!(!host(None, Some(7)).shares_namespace(&host(None, Some(7))));
        assert!(!serde_json::to_string(&HostFacts::default()).unwrap().contains("network_namespace"));
    }
}
