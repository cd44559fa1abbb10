//! The account of a capture: what became of every packet.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use strum::{IntoStaticStr, VariantArray};

use crate::message::Kind;

/// The cause for which a packet, or a message in it, was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Why {
    /// The frame holds something other than IPv4 or IPv6, such as ARP.
    NotIp,
    /// The packet holds neither UDP nor TCP.
    OtherProtocol,
    /// Neither end is at a server's port.
    OtherPort,
    /// The address at the server's port is not one of the servers.
    OtherServer,
    /// The type of link is unknown.
    Link,
    /// The capture holds only the packet's beginning (snap length).
    Cut,
    /// A header contradicts itself or the packet's length, a fragment contradicts others, or the packet is longer than any of
    /// IP.
    BadHeader,
    /// A fragment. It is kept for a datagram that another fragment completes, or that never becomes whole.
    Fragment,
    /// A copy of a packet, as a mirrored port or a capture of two interfaces holds it.
    Duplicate,
    /// A segment of TCP without payload.
    TcpControl,
    /// A segment of TCP with a part of a message that another segment completes, or that is never whole.
    TcpPart,
    /// A segment of TCP whose bytes an earlier one brought.
    TcpRepeated,
    /// A segment of TCP that does not follow on what was captured of its connection.
    TcpGap,
    /// A packet from or to the port of DNS over TLS and QUIC (853), or of HTTPS (443) at an address of the servers.
    Encrypted,
    /// A message that is shorter than a header, or whose QR bit contradicts its direction, or a query with a question that
    /// cannot be read.
    BadMessage,
    /// A message with an opcode other than QUERY.
    NotAQuery,
    /// A frame of dnstap about what the server asked of others, or about an update or a tool.
    OtherTap,
    /// A frame of dnstap that cannot be read, or without a message.
    BadTap,
}

impl Why {
    /// The word for the cause in output and records.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Why bytes end too soon: `is_cut` says whether the capture left out the packet's end.
    pub(crate) const fn too_short(is_cut: bool) -> Self {
        if is_cut { Self::Cut } else { Self::BadHeader }
    }
}

/// Ports whose packets are counted, at most.
const PORTS_MOST: usize = 64;

/// Ports that are named, at most.
const PORTS_NAMED: usize = 3;

/// The ports with the most packets, in words: `port 5300`, or `ports 5300, 123 and others`. Empty without a port.
pub fn ports_in_words(packets_by_port: &BTreeMap<u16, u64>) -> String {
    let mut ports: Vec<(&u16, &u64)> = packets_by_port.iter().collect();
    ports.sort_by_key(|(_, packets)| Reverse(**packets));
    let named: Vec<String> = ports.iter().take(PORTS_NAMED).map(|(port, _)| port.to_string()).collect();
    let others = if ports.len() > PORTS_NAMED { " and others" } else { "" };
    match named.as_slice() {
        [] => String::new(),
        [one] => format!("port {one}"),
        some => format!("ports {}{others}", some.join(", ")),
    }
}

/// The packets of a capture, counted by their fates. A frame of dnstap counts as a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets read.
    pub packets: u64,
    /// Queries returned.
    pub queries: u64,
    /// Responses returned.
    pub responses: u64,
    /// Messages beyond the first that one packet completed, and those that came out when the capture ended.
    pub further: u64,
    /// How often the clock that stamped the packets was set back by more than 5 s, or an earlier capture follows on a
    /// later one. Times go on from the latest one then, with the gaps of the stamps.
    pub steps: u64,
    /// Packets with a stamp more than 5 s away from those around it. They have the time of the packet before them.
    pub strays: u64,
    /// The packets that were skipped as [`Why::OtherPort`] by the lower one of their two ports, which is the server's as
    /// a rule. Of the first 64 such ports.
    pub other_ports: BTreeMap<u16, u64>,
    skipped: [u64; Why::VARIANTS.len()],
}

impl Counts {
    /// The causes for which packets were skipped, and how many for each.
    pub fn skipped(&self) -> impl Iterator<Item = (Why, u64)> {
        Why::VARIANTS.iter().map(|why| (*why, self.skipped_by(*why))).filter(|(_, packets)| *packets > 0)
    }

    /// The number of packets that were skipped for this cause.
    pub fn skipped_by(&self, why: Why) -> u64 {
        self.skipped[why as usize]
    }

    /// Checks that `packets + further = queries + responses + Σ skipped`. This holds when the reader has returned its
    /// last event. The error is a sentence with the numbers.
    pub fn check(&self) -> Result<(), String> {
        let skipped: u64 = self.skipped.iter().sum();
        let (read, settled) = (self.packets + self.further, self.queries + self.responses + skipped);
        if read == settled {
            return Ok(());
        }
        Err(format!(
            "the account of the capture does not add up: {} packets and {} further messages are not {} queries, \
             {} responses and {skipped} skipped",
            self.packets, self.further, self.queries, self.responses
        ))
    }

    pub(crate) fn skip(&mut self, why: Why) {
        self.skipped[why as usize] += 1;
    }

    /// Counts a packet that is skipped since neither end is at a server's port.
    pub(crate) fn at_other_port(&mut self, port: u16) {
        if self.other_ports.len() < PORTS_MOST || self.other_ports.contains_key(&port) {
            *self.other_ports.entry(port).or_default() += 1;
        }
    }

    pub(crate) fn found(&mut self, kind: Kind) {
        match kind {
            Kind::Query => self.queries += 1,
            Kind::Response => self.responses += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_as_they_are() {
        let expected = "not-ip other-protocol other-port other-server link cut bad-header fragment duplicate \
             tcp-control tcp-part tcp-repeated tcp-gap encrypted bad-message not-a-query \
             other-tap bad-tap";
        let names: Vec<&str> = Why::VARIANTS.iter().map(|why| why.name()).collect();
        assert_eq!(names.join(" "), expected);
    }

    #[test]
    fn the_ports_with_the_most_packets_are_named() {
        let mut counts = Counts::default();
        assert_eq!(ports_in_words(&counts.other_ports), "");
        (0..3).for_each(|_| counts.at_other_port(5300));
        assert_eq!(ports_in_words(&counts.other_ports), "port 5300");
        for port in [123, 7, 123, 9] {
            counts.at_other_port(port);
        }
        assert_eq!(ports_in_words(&counts.other_ports), "ports 5300, 123, 7 and others");
        (1000..2000).for_each(|port| counts.at_other_port(port));
        counts.at_other_port(5300);
        assert_eq!((counts.other_ports.len(), counts.other_ports[&5300]), (64, 4));
    }

    #[test]
    fn an_account_that_does_not_add_up_is_a_sentence() {
        let mut counts = Counts { packets: 2, queries: 1, ..Counts::default() };
        let said = counts.check().expect_err("one packet is missing");
        assert!(said.contains("2 packets") && said.contains("1 queries"), "{said}");
        counts.skip(Why::NotIp);
        assert_eq!(counts.check(), Ok(()));
        assert_eq!(counts.skipped().collect::<Vec<_>>(), [(Why::NotIp, 1)]);
    }
}
