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

    /// Adds the counters of another namespace. Its interfaces follow those of this one.
    pub fn add(&mut self, other: &Self) {
        self.shared |= other.shared;
        self.ip4.add(&other.ip4);
        self.ip6.add(&other.ip6);
        self.udp4.add(&other.udp4);
        self.udp6.add(&other.udp6);
        self.tcp = match (self.tcp, other.tcp) {
            (Some(mut tcp), Some(other)) => {
                tcp.add(&other);
                Some(tcp)
            }
            (one, other) => one.or(other),
        };
        self.devices.extend(other.devices.iter().cloned());
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
    /// Packets that reached IP, counted as they were on the wire. The kernel counts congestion marks (`InNoECTPkts` and
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

impl IpFacts {
    /// Adds the counters of another namespace. The sum lacks `out_transmits` if one of them does.
    pub fn add(&mut self, other: &Self) {
        add(&mut self.in_receives, other.in_receives);
        add(&mut self.in_segments, other.in_segments);
        add(&mut self.in_delivers, other.in_delivers);
        add(&mut self.in_discards, other.in_discards);
        add(&mut self.icmp_in, other.icmp_in);
        add(&mut self.icmp_out, other.icmp_out);
        add(&mut self.out_requests, other.out_requests);
        let both = self.out_transmits.zip(other.out_transmits);
        self.out_transmits = both.map(|(one, other)| one.saturating_add(other));
        add(&mut self.out_discards, other.out_discards);
    }
}

fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
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

impl UdpFacts {
    /// Adds the counters of another namespace.
    pub fn add(&mut self, other: &Self) {
        add(&mut self.in_datagrams, other.in_datagrams);
        add(&mut self.out_datagrams, other.out_datagrams);
        add(&mut self.no_ports, other.no_ports);
        add(&mut self.in_errors, other.in_errors);
        add(&mut self.rcvbuf_errors, other.rcvbuf_errors);
        add(&mut self.sndbuf_errors, other.sndbuf_errors);
        add(&mut self.in_csum_errors, other.in_csum_errors);
        add(&mut self.mem_errors, other.mem_errors);
    }
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
    /// Segments that were received (`InSegs`). 0 in records older than the field, as is the next one.
    #[serde(default)]
    pub segments_received: u64,
    /// Segments that were sent, without those sent again (`OutSegs`).
    #[serde(default)]
    pub segments_sent: u64,
    /// Acknowledgements that were sent late, because nothing was sent meanwhile that could carry them (`DelayedACKs`). 0
    /// in records older than the field.
    #[serde(default)]
    pub delayed_acks: u64,
    /// Sockets in TIME_WAIT before the trial. `None` if the kernel did not return the number, as is the field below.
    pub time_wait_before: Option<u64>,
    /// Sockets in TIME_WAIT after it.
    pub time_wait_after: Option<u64>,
}

impl TcpFacts {
    /// Adds the counters of another namespace.
    pub fn add(&mut self, other: &Self) {
        add(&mut self.active_opens, other.active_opens);
        add(&mut self.passive_opens, other.passive_opens);
        add(&mut self.listen_overflows, other.listen_overflows);
        add(&mut self.listen_drops, other.listen_drops);
        add(&mut self.request_drops, other.request_drops);
        add(&mut self.syn_cookies_sent, other.syn_cookies_sent);
        add(&mut self.resets_sent, other.resets_sent);
        add(&mut self.retransmitted, other.retransmitted);
        add(&mut self.syn_retransmitted, other.syn_retransmitted);
        add(&mut self.segments_received, other.segments_received);
        add(&mut self.segments_sent, other.segments_sent);
        add(&mut self.delayed_acks, other.delayed_acks);
        let sum = |(one, other): (u64, u64)| one.saturating_add(other);
        self.time_wait_before = self.time_wait_before.zip(other.time_wait_before).map(sum);
        self.time_wait_after = self.time_wait_after.zip(other.time_wait_after).map(sum);
    }
}

/// An interface over a trial.
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
