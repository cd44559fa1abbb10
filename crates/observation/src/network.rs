//! Counters of one network namespace over a trial: the packets that passed its interfaces, its IP and its UDP,
//! the packets that each of them dropped, and what its TCP did. The names are the kernel's.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A network namespace over one trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkFacts {
    /// Whether processes other than player and subject were in the namespace. They may move the counters too.
    pub shared: bool,
    /// Counters of IPv4.
    pub ip4: IpFacts,
    /// Counters of IPv6.
    pub ip6: IpFacts,
    /// Counters of UDP over IPv4.
    pub udp4: UdpFacts,
    /// Counters of UDP over IPv6.
    pub udp6: UdpFacts,
    /// Counters of TCP over both address families. `None` in records older than the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpFacts>,
    /// Interfaces that existed at the end.
    pub devices: Vec<DeviceFacts>,
}

impl NetworkFacts {
    /// The counters of IP and UDP over one address family.
    pub fn family(&self, ipv6: bool) -> (&IpFacts, &UdpFacts) {
        if ipv6 { (&self.ip6, &self.udp6) } else { (&self.ip4, &self.udp4) }
    }

    /// A counter of UDP over both address families.
    pub fn udp(&self, counter: fn(&UdpFacts) -> u64) -> u64 {
        counter(&self.udp4) + counter(&self.udp6)
    }
}

/// Differences of `/proc/net/snmp`, `netstat` and `snmp6` for one address family. The fragments of one packet
/// count once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IpFacts {
    /// Packets that reached IP. Coalesced packets count once.
    pub in_receives: u64,
    /// The same packets, counted as they were on the wire. The kernel counts congestion marks (`InNoECTPkts` and
    /// the like) segment by segment.
    pub in_segments: u64,
    /// Packets that IP passed to UDP, TCP or ICMP.
    pub in_delivers: u64,
    /// Packets that IP refused on the way in: no memory, broken header, no such address.
    pub in_discards: u64,
    /// ICMP messages received.
    pub icmp_in: u64,
    /// ICMP messages sent.
    pub icmp_out: u64,
    /// Packets that came from UDP, TCP or ICMP, before any filter.
    pub out_requests: u64,
    /// How many of these passed all filters on the way to an interface. `None` before Linux 6.6.
    pub out_transmits: Option<u64>,
    /// Packets that IP refused on the way out: no memory, no route.
    pub out_discards: u64,
}

/// Differences of `/proc/net/snmp` and `snmp6`, UDP over one address family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs)] // the names are the kernel's
pub struct UdpFacts {
    pub in_datagrams: u64,
    pub out_datagrams: u64,
    pub no_ports: u64,
    pub in_errors: u64,
    pub rcvbuf_errors: u64,
    pub sndbuf_errors: u64,
    pub in_csum_errors: u64,
    pub mem_errors: u64,
}

/// Differences of `/proc/net/snmp` and `netstat`, TCP over both address families, and the sockets in TIME_WAIT of
/// `/proc/net/sockstat`. A counter that the kernel lacks is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(clippy::doc_markdown)] // the names are the kernel's
pub struct TcpFacts {
    /// Connections that sockets of the namespace began to make (`ActiveOpens`).
    pub active_opens: u64,
    /// Connections that listening sockets accepted into their queue (`PassiveOpens`).
    pub passive_opens: u64,
    /// How often a listening socket's queue was full: a request or a handshake was dropped (`ListenOverflows`).
    pub listen_overflows: u64,
    /// Requests and handshakes that listening sockets dropped for any reason, overflows included (`ListenDrops`).
    pub listen_drops: u64,
    /// Requests that were dropped because too many handshakes were unfinished (`TCPReqQFullDrop`).
    pub request_drops: u64,
    /// SYN cookies that were sent because too many handshakes were unfinished (`SyncookiesSent`).
    pub syn_cookies_sent: u64,
    /// Resets that were sent (`OutRsts`).
    pub resets_sent: u64,
    /// Segments that were sent again, those of handshakes included (`RetransSegs`).
    pub retransmitted: u64,
    /// SYN and SYN-ACK segments that were sent again (`TCPSynRetrans`). The first time is after a second.
    pub syn_retransmitted: u64,
    /// Sockets in TIME_WAIT before the trial. `None` if the kernel did not return the number, as is the field below.
    pub time_wait_before: Option<u64>,
    /// Sockets in TIME_WAIT after it.
    pub time_wait_after: Option<u64>,
}

/// One interface over a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceFacts {
    /// The interface's name.
    pub name: String,
    /// Packets received.
    pub rx_packets: u64,
    /// Packets received with errors.
    pub rx_errors: u64,
    /// Packets received that found no room.
    pub rx_dropped: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
    /// Packets to be sent that found no room.
    pub tx_dropped: u64,
    /// Packets to be sent that the queueing discipline dropped; `None` if the kernel did not return the count.
    pub qdisc_dropped: Option<u64>,
    /// The driver's counters of drops and errors (`ethtool -S`) that changed.
    pub driver: BTreeMap<String, u64>,
}
