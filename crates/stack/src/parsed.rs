//! A frame that was read.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;

use crate::checksum::Sum;
use crate::ends::{Ends, Path};
use crate::headers::{ETHERNET_BYTES, Layout, Protocol};

/// A frame with a whole datagram or segment. Its lengths are right. [`Self::verify`] says whether its checksums are.
#[derive(Clone, Copy, Debug)]
pub struct Parsed<'f> {
    /// Where it comes from, and where it goes.
    pub ends: Ends,
    frame: &'f [u8],
    layout: Layout,
}

/// Reads a frame. Returns `None` if it has neither a datagram of UDP nor a segment of TCP, if it has a fragment of one,
/// a routing header or two VLAN tags, or if a length is wrong.
#[inline]
pub fn parse(frame: &[u8]) -> Option<Parsed<'_>> {
    let layout = Layout::from_frame(frame)?;
    let (target_mac, rest) = frame.split_first_chunk::<6>()?;
    let source_mac = *rest.first_chunk::<6>()?;
    let has_tag = layout.ip != ETHERNET_BYTES;
    let vlan = has_tag.then(|| u16::from_be_bytes([frame[14], frame[15]]) & 0x0fff);
    let (from, to) = addresses(frame, &layout)?;
    let ports = frame[layout.transport..].first_chunk::<4>()?;
    let (source, target) =
        (u16::from_be_bytes([ports[0], ports[1]]), u16::from_be_bytes([ports[2], ports[3]]));
    let ends = Ends {
        path: Path { source_mac, target_mac: *target_mac, vlan },
        from: SocketAddr::new(from, source),
        to: SocketAddr::new(to, target),
    };
    Some(Parsed { ends, frame, layout })
}

fn addresses(frame: &[u8], layout: &Layout) -> Option<(IpAddr, IpAddr)> {
    let bytes = &frame[layout.addresses().0..];
    if layout.is_ipv4 {
        let (from, rest) = bytes.split_first_chunk::<4>()?;
        return Some((Ipv4Addr::from(*from).into(), Ipv4Addr::from(*rest.first_chunk::<4>()?).into()));
    }
    let (from, rest) = bytes.split_first_chunk::<16>()?;
    Some((Ipv6Addr::from(*from).into(), Ipv6Addr::from(*rest.first_chunk::<16>()?).into()))
}

impl<'f> Parsed<'f> {
    /// The protocol that the packet carries.
    #[inline]
    pub fn protocol(&self) -> Protocol {
        self.layout.protocol
    }

    /// The payload of UDP or TCP.
    #[inline]
    pub fn payload(&self) -> &'f [u8] {
        &self.frame[self.layout.payload..self.layout.end]
    }

    /// Where the payload stands in the frame.
    #[inline]
    pub fn payload_range(&self) -> Range<usize> {
        self.layout.payload..self.layout.end
    }

    /// The header of UDP or TCP, with options.
    #[inline]
    pub(crate) fn transport_header(&self) -> &'f [u8] {
        &self.frame[self.layout.transport..self.layout.payload]
    }

    /// Whether the checksums of IP and of the datagram or segment are right. A datagram over IPv4 may have none
    /// (RFC 768). Frames that came over `veth` from a socket of this host usually have none that are right: the kernel
    /// leaves them to a device that does not exist.
    pub fn verify(&self) -> bool {
        let Layout { protocol, is_ipv4, ip, transport, end, .. } = self.layout;
        if is_ipv4 {
            let header_bytes = usize::from(self.frame[ip] & 0x0f) * 4;
            if Sum::from_bytes(&self.frame[ip..ip + header_bytes]).checksum() != 0 {
                return false;
            }
        }
        let has_none = protocol == Protocol::Udp && self.frame[transport + 6..transport + 8] == [0; 2];
        if has_none {
            return is_ipv4;
        }
        self.layout.pseudo_header(self.frame).and(&self.frame[transport..end]).checksum() == 0
    }
}
