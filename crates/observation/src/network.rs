//! Counters of one network namespace over a trial: what passed its interfaces, its IP and its UDP, and what
//! each of them dropped. The names are the kernel's.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::host::UdpFacts;

/// A network namespace over one trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkFacts {
    /// Whether other processes than player and subject were in it, who may move the counters too.
    pub shared: bool,
    /// IPv4.
    pub ip4: IpFacts,
    /// IPv6.
    pub ip6: IpFacts,
    /// UDP over IPv4.
    pub udp4: UdpFacts,
    /// UDP over IPv6.
    pub udp6: UdpFacts,
    /// Interfaces that were there at the end.
    pub devices: Vec<DeviceFacts>,
}

impl NetworkFacts {
    /// IP and UDP over one address family.
    pub fn family(&self, ipv6: bool) -> (&IpFacts, &UdpFacts) {
        if ipv6 { (&self.ip6, &self.udp6) } else { (&self.ip4, &self.udp4) }
    }
}

/// Differences of `/proc/net/snmp`, `netstat` and `snmp6` for one address family. The fragments of one packet
/// count once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IpFacts {
    /// Packets that reached IP. What came in coalesced counts once.
    pub in_receives: u64,
    /// The same, counted as they were on the wire: by their congestion marks (`InNoECTPkts` and its like), which
    /// the kernel counts segment by segment.
    pub in_segments: u64,
    /// Packets given to UDP, TCP or ICMP.
    pub in_delivers: u64,
    /// Refused on the way in: no memory, broken header, no such address.
    pub in_discards: u64,
    /// ICMP messages that came in.
    pub icmp_in: u64,
    /// ICMP messages that went out.
    pub icmp_out: u64,
    /// Packets that came from UDP, TCP or ICMP, before any filter.
    pub out_requests: u64,
    /// Of these, what passed all filters on the way to an interface. None before Linux 6.6.
    pub out_transmits: Option<u64>,
    /// Refused on the way out: no memory, no route.
    pub out_discards: u64,
}

/// One interface over a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceFacts {
    /// Its name.
    pub name: String,
    /// Packets that came in.
    pub rx_packets: u64,
    /// Packets that came in broken.
    pub rx_errors: u64,
    /// Packets that came in and found no room.
    pub rx_dropped: u64,
    /// Packets that went out.
    pub tx_packets: u64,
    /// Packets that could not go out.
    pub tx_errors: u64,
    /// Packets that found no room on their way out.
    pub tx_dropped: u64,
    /// Packets that the queueing discipline dropped on their way out; none when it could not be asked.
    pub qdisc_dropped: Option<u64>,
    /// What the driver counts of drops and errors (`ethtool -S`), as far as it moved.
    pub driver: BTreeMap<String, u64>,
}
