//! Datagrams between the same two ends, one after another: their headers are made once, and a reply is known by them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::checksum::Sum;
use crate::ends::Ends;
use crate::headers::{
    ETHERNET_BYTES, IPV4_BYTES, IPV6_BYTES, Protocol, TYPE_IPV4, TYPE_IPV6, TYPE_VLAN, UDP_BYTES, VLAN_BYTES,
};

/// Bytes of the longest headers: Ethernet with a tag, IPv6 and UDP.
const HEADER_MOST: usize = ETHERNET_BYTES + VLAN_BYTES + IPV6_BYTES + UDP_BYTES;

/// The headers of datagrams from one end to the other, without lengths and checksums.
#[derive(Clone, Debug)]
pub struct Flow {
    header: [u8; HEADER_MOST],
    places: Places,
    /// The sum of the header of IPv4, without its length.
    ip_sum: Sum,
    /// The sum of addresses, protocol and ports.
    sum: Sum,
}

/// Where the parts of a frame stand whose IP header has neither options nor extensions.
#[derive(Clone, Copy, Debug)]
struct Places {
    is_ipv4: bool,
    ip: usize,
    /// Where the two addresses begin, the sender's first, and the bytes of each.
    addresses: usize,
    address_bytes: usize,
    udp: usize,
}

impl Places {
    #[inline]
    fn new(is_ipv4: bool, ip: usize) -> Self {
        if is_ipv4 {
            Self { is_ipv4, ip, addresses: ip + 12, address_bytes: 4, udp: ip + IPV4_BYTES }
        } else {
            Self { is_ipv4, ip, addresses: ip + 8, address_bytes: 16, udp: ip + IPV6_BYTES }
        }
    }

    /// The places of a frame with UDP that is no fragment; `None` for others, and if it is too short.
    #[inline]
    fn from_frame(frame: &[u8]) -> Option<Self> {
        let (ethertype, ip) = match word(frame, 12)? {
            TYPE_VLAN => (word(frame, 16)?, ETHERNET_BYTES + VLAN_BYTES),
            other => (other, ETHERNET_BYTES),
        };
        let places = match ethertype {
            TYPE_IPV4 => Self::new(true, ip),
            TYPE_IPV6 => Self::new(false, ip),
            _ => return None,
        };
        let header = frame.get(ip..places.udp + UDP_BYTES)?;
        let is_plain = if places.is_ipv4 {
            header[0] == 0x45
                && header[9] == Protocol::Udp.number()
                && (header[6] & 0x3f, header[7]) == (0, 0)
        } else {
            header[0] >> 4 == 6 && header[6] == Protocol::Udp.number()
        };
        is_plain.then_some(places)
    }

    #[inline]
    fn sender<'f>(&self, frame: &'f [u8]) -> &'f [u8] {
        &frame[self.addresses..self.addresses + self.address_bytes]
    }

    #[inline]
    fn receiver<'f>(&self, frame: &'f [u8]) -> &'f [u8] {
        &frame[self.addresses + self.address_bytes..self.addresses + 2 * self.address_bytes]
    }
}

/// Where a datagram goes. `None` if the frame has none, or one in a fragment, or if its IP header has options or
/// extensions.
#[inline]
pub fn destination(frame: &[u8]) -> Option<(IpAddr, u16)> {
    let places = Places::from_frame(frame)?;
    let receiver = places.receiver(frame);
    let address = if places.is_ipv4 {
        Ipv4Addr::from(*receiver.first_chunk::<4>()?).into()
    } else {
        Ipv6Addr::from(*receiver.first_chunk::<16>()?).into()
    };
    Some((address, word(frame, places.udp + 2)?))
}

impl Flow {
    /// The headers between these ends, this host's first.
    pub fn new(ends: &Ends) -> Self {
        let mut header = [0; HEADER_MOST];
        let udp = super::write(&mut header, ends, 0) - UDP_BYTES;
        let ip = if ends.path.vlan.is_some() { ETHERNET_BYTES + VLAN_BYTES } else { ETHERNET_BYTES };
        let places = Places::new(ends.is_ipv4(), ip);
        debug_assert_eq!(udp, places.udp, "the headers of a datagram");
        header[udp + 4..udp + 8].fill(0);
        if places.is_ipv4 {
            header[ip + 2..ip + 4].fill(0);
            header[ip + 10..ip + 12].fill(0);
        } else {
            header[ip + 4..ip + 6].fill(0);
        }
        let ip_sum = if places.is_ipv4 { Sum::from_bytes(&header[ip..udp]) } else { Sum::default() };
        let addresses = &header[places.addresses..places.addresses + 2 * places.address_bytes];
        let sum =
            Sum::from_bytes(addresses).and_word(Protocol::Udp.number().into()).and(&header[udp..udp + 4]);
        Self { header, places, ip_sum, sum }
    }

    /// Bytes before the payload.
    #[inline]
    pub fn header_bytes(&self) -> usize {
        self.places.udp + UDP_BYTES
    }

    /// Writes the headers before a payload that stands at [`Self::header_bytes`] already, with lengths and whole
    /// checksums. `payload` is the sum of its bytes: the caller has it from where they came, and reading them here would wait
    /// for the memory of the frame. Returns the length of the frame.
    ///
    /// # Panics
    ///
    /// If the frame has less room than that.
    #[inline]
    pub fn write(&self, frame: &mut [u8], payload_bytes: usize, payload: Sum) -> usize {
        let Places { is_ipv4, ip, udp, .. } = self.places;
        let end = udp + UDP_BYTES + payload_bytes;
        let header = &mut frame[..end][..udp + UDP_BYTES];
        header.copy_from_slice(&self.header[..udp + UDP_BYTES]);
        let udp_bytes = (UDP_BYTES + payload_bytes) as u16;
        if is_ipv4 {
            let total = IPV4_BYTES as u16 + udp_bytes;
            header[ip + 2..ip + 4].copy_from_slice(&total.to_be_bytes());
            let checksum = self.ip_sum.and_word(total).checksum();
            header[ip + 10..ip + 12].copy_from_slice(&checksum.to_be_bytes());
        } else {
            header[ip + 4..ip + 6].copy_from_slice(&udp_bytes.to_be_bytes());
        }
        header[udp + 4..udp + 6].copy_from_slice(&udp_bytes.to_be_bytes());
        // The length is in the header and in the pseudo-header.
        let checksum = self.sum.and_word(udp_bytes).and_word(udp_bytes).and_sum(payload).checksum();
        header[udp + 6..udp + 8].copy_from_slice(&super::never_none(checksum).to_be_bytes());
        end
    }

    /// The payload of a datagram that came the other way. `None` if the frame has none or one between other ends, or if
    /// a length is wrong. The VLAN and the Ethernet addresses do not count, nor do checksums.
    #[inline]
    pub fn payload_of_reply<'f>(&self, frame: &'f [u8]) -> Option<&'f [u8]> {
        let theirs = Places::from_frame(frame)?;
        let ours = &self.places;
        let is_of_flow = theirs.is_ipv4 == ours.is_ipv4
            && theirs.sender(frame) == ours.receiver(&self.header)
            && theirs.receiver(frame) == ours.sender(&self.header)
            && frame[theirs.udp..theirs.udp + 2] == self.header[ours.udp + 2..ours.udp + 4]
            && frame[theirs.udp + 2..theirs.udp + 4] == self.header[ours.udp..ours.udp + 2];
        if !is_of_flow {
            return None;
        }
        let end = if theirs.is_ipv4 {
            theirs.ip + usize::from(word(frame, theirs.ip + 2)?)
        } else {
            theirs.udp + usize::from(word(frame, theirs.ip + 4)?)
        };
        let payload = theirs.udp + UDP_BYTES..theirs.udp + usize::from(word(frame, theirs.udp + 4)?);
        if end > frame.len() || payload.end > end {
            return None;
        }
        frame.get(payload)
    }
}

#[inline]
fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ends::Path;
    use crate::parsed::parse;
    use crate::udp;

    fn ends(from: &str, to: &str, vlan: Option<u16>) -> Ends {
        let path = Path { source_mac: [2, 0, 0, 0, 0, 1], target_mac: [2, 0, 0, 0, 0, 2], vlan };
        Ends { path, from: from.parse().unwrap(), to: to.parse().unwrap() }
    }

    fn all() -> Vec<Ends> {
        let pairs = [("192.0.2.1:5300", "198.51.100.7:53"), ("[2001:db8::1]:5300", "[2001:db8::2]:53")];
        pairs.iter().flat_map(|(from, to)| [None, Some(7)].map(|vlan| ends(from, to, vlan))).collect()
    }

    #[test]
    fn datagrams_are_those_that_are_written_whole() {
        for ends in all() {
            let flow = Flow::new(&ends);
            assert_eq!(flow.header_bytes(), udp::header_bytes(&ends));
            for bytes in [0, 1, 2, 17, 40, 41, 512, 1200] {
                let mut frames = [vec![0xaa; 1500], vec![0x55; 1500]];
                for frame in &mut frames {
                    for (number, byte) in frame[flow.header_bytes()..][..bytes].iter_mut().enumerate() {
                        *byte = (number * 37) as u8;
                    }
                }
                let [one, other] = &mut frames;
                let sum = Sum::from_bytes(&one[flow.header_bytes()..][..bytes]);
                let length = flow.write(one, bytes, sum);
                assert_eq!(length, udp::write(other, &ends, bytes));
                assert_eq!(one[..length], other[..length], "{ends:?} {bytes}");
                assert!(parse(&one[..length]).unwrap().verify());
            }
        }
    }

    #[test]
    fn a_reply_is_known_by_its_ends() {
        for ends in all() {
            let flow = Flow::new(&ends);
            let reply = |back: &Ends| {
                let mut frame = vec![0; 200];
                let at = udp::header_bytes(back);
                frame[at..at + 5].copy_from_slice(b"reply");
                let length = udp::write(&mut frame, back, 5);
                // Short frames are padded.
                frame.truncate(length.max(60));
                frame
            };
            let back = ends.turned();
            let frame = reply(&back);
            assert_eq!(flow.payload_of_reply(&frame), Some(&b"reply"[..]));
            assert_eq!(destination(&frame), Some((ends.from.ip(), 5300)));
            // A device may have removed the tag.
            let mut untagged = back;
            untagged.path.vlan = None;
            assert_eq!(flow.payload_of_reply(&reply(&untagged)), Some(&b"reply"[..]));
            let others = [
                Ends { from: std::net::SocketAddr::new(back.from.ip(), 54), ..back },
                Ends { to: std::net::SocketAddr::new(back.to.ip(), 5301), ..back },
                ends,
            ];
            for other in others {
                assert_eq!(flow.payload_of_reply(&reply(&other)), None, "{other:?}");
            }
            for length in 0..frame.len() {
                let _ = flow.payload_of_reply(&frame[..length]);
                let _ = destination(&frame[..length]);
            }
            let mut long = frame.clone();
            long[flow.header_bytes() - 4] = 0xff;
            assert_eq!(flow.payload_of_reply(&long), None, "its length is wrong");
        }
    }

    #[test]
    fn frames_without_a_plain_datagram_go_nowhere() {
        let mut frame = vec![0; 200];
        udp::write(&mut frame, &all()[0], 5);
        for (at, byte) in [(12, 0x86), (14, 0x46), (20, 0x20), (21, 0x01), (23, 6)] {
            let mut other = frame.clone();
            other[at] = byte;
            assert_eq!(destination(&other), None, "{byte:#x} at {at}");
        }
        assert!(destination(&frame).is_some());
    }
}
