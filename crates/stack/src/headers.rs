//! Headers before UDP and TCP in a frame: Ethernet, at most one VLAN tag, and IPv4 or IPv6.

use std::net::IpAddr;

use crate::checksum::Sum;
use crate::ends::{Ends, ipv6};

pub(crate) const ETHERNET_BYTES: usize = 14;
pub(crate) const VLAN_BYTES: usize = 4;
pub(crate) const IPV4_BYTES: usize = 20;
pub(crate) const IPV6_BYTES: usize = 40;
pub(crate) const UDP_BYTES: usize = 8;
pub(crate) const TCP_BYTES: usize = 20;

/// The hop limit of what is sent.
pub(crate) const HOPS: u8 = 64;

pub(crate) const TYPE_IPV4: u16 = 0x0800;
pub(crate) const TYPE_VLAN: u16 = 0x8100;
pub(crate) const TYPE_IPV6: u16 = 0x86dd;

/// Extension headers of IPv6 that may stand before UDP and TCP (RFC 8200, section 4.1): hop-by-hop and destination
/// options.
const OPTIONS: [u8; 2] = [0, 60];

/// The protocol that a packet of IP carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Datagrams (RFC 768).
    Udp,
    /// Segments (RFC 9293).
    Tcp,
}

impl Protocol {
    /// Its number in headers of IP.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Udp => 17,
            Self::Tcp => 6,
        }
    }

    fn from_number(number: u8) -> Option<Self> {
        [Self::Udp, Self::Tcp].into_iter().find(|protocol| protocol.number() == number)
    }
}

/// Where the parts of a frame stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) protocol: Protocol,
    pub(crate) is_ipv4: bool,
    /// Where IP begins.
    pub(crate) ip: usize,
    /// Where UDP or TCP begins.
    pub(crate) transport: usize,
    /// Where the payload begins.
    pub(crate) payload: usize,
    /// Where the payload ends. Padding may follow.
    pub(crate) end: usize,
}

impl Layout {
    /// The layout of a frame with a datagram or a segment. `None` for all others, for fragments, and if a length is
    /// wrong.
    #[inline]
    pub(crate) fn from_frame(frame: &[u8]) -> Option<Self> {
        match word(frame, 12)? {
            TYPE_VLAN => Self::of_packet(frame, word(frame, 16)?, ETHERNET_BYTES + VLAN_BYTES),
            other => Self::of_packet(frame, other, ETHERNET_BYTES),
        }
    }

    fn of_packet(frame: &[u8], ethertype: u16, ip: usize) -> Option<Self> {
        match ethertype {
            TYPE_IPV4 => Self::of_ipv4(frame, ip),
            TYPE_IPV6 => Self::of_ipv6(frame, ip),
            _ => None,
        }
    }

    fn of_ipv4(frame: &[u8], ip: usize) -> Option<Self> {
        let header: &[u8; IPV4_BYTES] = frame.get(ip..)?.first_chunk()?;
        let header_bytes = usize::from(header[0] & 0x0f) * 4;
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
        if header[0] >> 4 != 4 || header_bytes < IPV4_BYTES || total < header_bytes || is_fragment {
            return None;
        }
        let packet = frame.get(..ip + total)?;
        Self::of_transport(packet, header[9], true, (ip, ip + header_bytes))
    }

    fn of_ipv6(frame: &[u8], ip: usize) -> Option<Self> {
        let header: &[u8; IPV6_BYTES] = frame.get(ip..)?.first_chunk()?;
        if header[0] >> 4 != 6 {
            return None;
        }
        let payload_bytes = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let packet = frame.get(..ip + IPV6_BYTES + payload_bytes)?;
        let (mut next, mut at) = (header[6], ip + IPV6_BYTES);
        while OPTIONS.contains(&next) {
            let extension: &[u8; 2] = packet.get(at..)?.first_chunk()?;
            next = extension[0];
            at += (usize::from(extension[1]) + 1) * 8;
        }
        Self::of_transport(packet, next, false, (ip, at))
    }

    /// The layout of a packet that ends where the slice does.
    fn of_transport(
        packet: &[u8],
        number: u8,
        is_ipv4: bool,
        (ip, transport): (usize, usize),
    ) -> Option<Self> {
        let bytes = packet.get(transport..)?;
        let protocol = Protocol::from_number(number)?;
        let (header_bytes, length) = match protocol {
            Protocol::Udp => (UDP_BYTES, usize::from(word(bytes, 4)?)),
            Protocol::Tcp => (usize::from(*bytes.get(12)? >> 4) * 4, bytes.len()),
        };
        let least = if protocol == Protocol::Udp { UDP_BYTES } else { TCP_BYTES };
        if header_bytes < least || length < header_bytes || length > bytes.len() {
            return None;
        }
        let (payload, end) = (transport + header_bytes, transport + length);
        Some(Self { protocol, is_ipv4, ip, transport, payload, end })
    }

    /// Where the two addresses of IP stand, the sender's first.
    pub(crate) fn addresses(&self) -> (usize, usize) {
        let (at, bytes) = if self.is_ipv4 { (12, 4) } else { (8, 16) };
        (self.ip + at, bytes)
    }

    /// The sum of the pseudo-header (RFC 9293, section 3.1; RFC 8200, section 8.1).
    pub(crate) fn pseudo_header(&self, frame: &[u8]) -> Sum {
        let (at, bytes) = self.addresses();
        Sum::from_bytes(&frame[at..at + 2 * bytes])
            .and_word(self.protocol.number().into())
            .and_word((self.end - self.transport) as u16)
    }
}

#[inline]
fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

/// Where UDP or TCP begins in a frame between these ends.
#[inline]
pub(crate) fn transport_starts(ends: &Ends) -> usize {
    let link = if ends.path.vlan.is_some() { ETHERNET_BYTES + VLAN_BYTES } else { ETHERNET_BYTES };
    link + if ends.is_ipv4() { IPV4_BYTES } else { IPV6_BYTES }
}

/// Writes what stands before a transport header, for so many bytes from that header on. Returns where it begins, and
/// the sum of the pseudo-header.
#[inline]
pub(crate) fn write(
    frame: &mut [u8],
    ends: &Ends,
    protocol: Protocol,
    transport_bytes: usize,
) -> (usize, Sum) {
    let ethertype = if ends.is_ipv4() { TYPE_IPV4 } else { TYPE_IPV6 };
    let ip = write_link(frame, ends, ethertype);
    let addresses = match (ends.from.ip(), ends.to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut header = [0; IPV4_BYTES];
            header[0] = 0x45;
            header[2..4].copy_from_slice(&((IPV4_BYTES + transport_bytes) as u16).to_be_bytes());
            // Do not fragment: the packet then needs no number (RFC 6864, section 4.1).
            header[6] = 0x40;
            header[8] = HOPS;
            header[9] = protocol.number();
            header[12..16].copy_from_slice(&from.octets());
            header[16..].copy_from_slice(&to.octets());
            let checksum = Sum::from_bytes(&header).checksum();
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
            frame[ip..ip + IPV4_BYTES].copy_from_slice(&header);
            Sum::from_bytes(&header[12..])
        }
        (from, to) => {
            let mut header = [0; IPV6_BYTES];
            header[0] = 0x60;
            header[4..6].copy_from_slice(&(transport_bytes as u16).to_be_bytes());
            header[6] = protocol.number();
            header[7] = HOPS;
            header[8..24].copy_from_slice(&ipv6(from).octets());
            header[24..].copy_from_slice(&ipv6(to).octets());
            frame[ip..ip + IPV6_BYTES].copy_from_slice(&header);
            Sum::from_bytes(&header[8..])
        }
    };
    let sum = addresses.and_word(protocol.number().into()).and_word(transport_bytes as u16);
    (transport_starts(ends), sum)
}

/// Writes Ethernet's header. Returns where IP begins.
fn write_link(frame: &mut [u8], ends: &Ends, ethertype: u16) -> usize {
    frame[..6].copy_from_slice(&ends.path.target_mac);
    frame[6..12].copy_from_slice(&ends.path.source_mac);
    let mut at = 12;
    if let Some(vlan) = ends.path.vlan {
        frame[12..14].copy_from_slice(&TYPE_VLAN.to_be_bytes());
        frame[14..16].copy_from_slice(&(vlan & 0x0fff).to_be_bytes());
        at = 16;
    }
    frame[at..at + 2].copy_from_slice(&ethertype.to_be_bytes());
    at + 2
}
