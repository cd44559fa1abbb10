//! The datagrams of a tapped packet, and what of their DNS messages a pair needs. A function of the bytes.

use std::hash::{DefaultHasher, Hasher as _};
use std::net::{IpAddr, SocketAddr};

use kqps_kernel::tap::Tapped;

/// A datagram of a client and a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Datagram<'a> {
    pub(super) client: SocketAddr,
    pub(super) server: SocketAddr,
    /// Its payload, or the beginning of that.
    pub(super) payload: &'a [u8],
}

/// The identity of a DNS message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) id: u16,
    /// The hash of its first question, in whatever case its letters are; `None` if it has none.
    pub(super) question: Option<u64>,
}

// Lengths and protocols of RFC 791 (section 3.1), RFC 8200 (sections 3 and 4.5), RFC 768 and RFC 1035 (section 4.1.1).
const IPV6_BYTES: usize = 40;
const FRAGMENT_BYTES: usize = 8;
const FRAGMENT: u8 = 44;
const UDP_BYTES: usize = 8;
const DNS_BYTES: usize = 12;
const TYPE_AND_CLASS_BYTES: usize = 4;

/// The datagrams of a packet: several if they travel together, none if it is no packet of UDP.
pub(super) fn datagrams<'a>(packet: &Tapped<'a>) -> impl Iterator<Item = Datagram<'a>> {
    let is_outgoing = packet.is_outgoing;
    let found = whole(packet.bytes);
    // Without segments, a payload of no bytes is a datagram as well.
    let each = packet.segment_bytes.map_or(usize::MAX, |bytes| usize::from(bytes).max(1));
    found.into_iter().flat_map(move |(from, to, payload)| {
        let (client, server) = if is_outgoing { (to, from) } else { (from, to) };
        let count = payload.len().div_ceil(each).max(1);
        (0..count).map(move |number| {
            let rest = &payload[number.saturating_mul(each)..];
            Datagram { client, server, payload: &rest[..rest.len().min(each)] }
        })
    })
}

/// Source, destination and payload of a packet.
fn whole(packet: &[u8]) -> Option<(SocketAddr, SocketAddr, &[u8])> {
    let (from, to, udp): (IpAddr, IpAddr, &[u8]) = match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet[0] & 0x0f) * 4;
            let address = |at: usize| packet.get(at..at + 4)?.try_into().ok().map(<[u8; 4]>::into);
            (address(12)?, address(16)?, packet.get(header..)?)
        }
        6 => {
            let address = |at: usize| packet.get(at..at + 16)?.try_into().ok().map(<[u8; 16]>::into);
            let more = if *packet.get(6)? == FRAGMENT { FRAGMENT_BYTES } else { 0 };
            (address(8)?, address(24)?, packet.get(IPV6_BYTES + more..)?)
        }
        _ => return None,
    };
    let (header, rest) = udp.split_at_checked(UDP_BYTES)?;
    let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    // Behind a short packet a frame may be filled up.
    let length = usize::from(word(4)).checked_sub(UDP_BYTES)?;
    Some(((from, word(0)).into(), (to, word(2)).into(), &rest[..rest.len().min(length)]))
}

impl Datagram<'_> {
    /// The ID of its DNS message, which is the first word of its payload.
    pub(super) fn id(&self) -> Option<u16> {
        self.payload.first_chunk().copied().map(u16::from_be_bytes)
    }

    /// Its DNS message; `None` if it is none, or if its question is not whole.
    pub(super) fn message(&self) -> Option<Message> {
        let (header, rest) = self.payload.split_at_checked(DNS_BYTES)?;
        let has_question = header[4..6] != [0, 0];
        let question = if has_question { Some(hash(question(rest)?)) } else { None };
        Some(Message { id: self.id()?, question })
    }
}

/// The bytes of the first question: a name without pointers, its type and its class.
fn question(bytes: &[u8]) -> Option<&[u8]> {
    let mut at = 0;
    loop {
        let label = usize::from(*bytes.get(at)?);
        at += 1 + label;
        match label {
            0 => return bytes.get(..at + TYPE_AND_CLASS_BYTES),
            // Longer ones are pointers (RFC 1035, section 4.1.4).
            64.. => return None,
            _ => {}
        }
    }
}

fn hash(question: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    // The lengths of labels are less than the letters.
    hasher.write(&question.to_ascii_lowercase());
    hasher.finish()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A message with this ID and one question about `name`, a label.
    pub(in super::super) fn query(id: u16, name: &str) -> Vec<u8> {
        let mut message = id.to_be_bytes().to_vec();
        message.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        message.push(name.len() as u8);
        message.extend(name.as_bytes());
        message.extend([0, 0, 1, 0, 1]);
        message
    }

    fn udp(payload: &[u8]) -> Vec<u8> {
        let length = (UDP_BYTES + payload.len()) as u16;
        [&5_000_u16.to_be_bytes()[..], &53_u16.to_be_bytes(), &length.to_be_bytes(), &[0; 2], payload]
            .concat()
    }

    fn ipv4(options: usize, payload: &[u8]) -> Vec<u8> {
        let mut header = vec![0; 20 + options];
        header[0] = 0x45 + (options / 4) as u8;
        header[9] = 17;
        header[12..16].copy_from_slice(&[192, 0, 2, 7]);
        header[16..20].copy_from_slice(&[192, 0, 2, 1]);
        [header, udp(payload)].concat()
    }

    fn ipv6(is_fragment: bool, payload: &[u8]) -> Vec<u8> {
        let mut header = vec![0; IPV6_BYTES];
        header[0] = 0x60;
        header[6] = if is_fragment { FRAGMENT } else { 17 };
        (header[23], header[39]) = (7, 1);
        if is_fragment {
            header.extend([17, 0, 0, 1, 0, 0, 0, 9]);
        }
        [header, udp(payload)].concat()
    }

    fn tapped(bytes: &[u8]) -> Tapped<'_> {
        Tapped { is_outgoing: false, stamped_ns: 0, bytes, segment_bytes: None }
    }

    #[test]
    fn a_packet_has_its_ends_and_its_payload_in_both_families() {
        let payload = query(0xabcd, "www");
        let ends = |client: &str, server: &str| (client.parse().unwrap(), server.parse().unwrap());
        for (bytes, (client, server)) in [
            (ipv4(0, &payload), ends("192.0.2.7:5000", "192.0.2.1:53")),
            (ipv4(8, &payload), ends("192.0.2.7:5000", "192.0.2.1:53")),
            (ipv6(false, &payload), ends("[::7]:5000", "[::1]:53")),
            (ipv6(true, &payload), ends("[::7]:5000", "[::1]:53")),
        ] {
            let found: Vec<_> = datagrams(&tapped(&bytes)).collect();
            assert_eq!(found, [Datagram { client, server, payload: &payload }]);
            assert_eq!(found[0].message().unwrap().id, 0xabcd);
            let back = Tapped { is_outgoing: true, ..tapped(&bytes) };
            let back: Vec<_> = datagrams(&back).collect();
            assert_eq!((back[0].client, back[0].server), (server, client), "the server sends replies");
            // A frame that is filled up, and one that is cut.
            let filled = [&bytes[..], &[0; 9]].concat();
            assert_eq!(datagrams(&tapped(&filled)).next().unwrap().payload, payload);
            for cut in 0..bytes.len() {
                let message = datagrams(&tapped(&bytes[..cut])).next().and_then(|one| one.message());
                assert_eq!(message, None, "{cut}");
            }
        }
        assert_eq!(datagrams(&tapped(&[0x50; 60])).count(), 0);
    }

    #[test]
    fn datagrams_that_travel_together_are_told_apart() {
        let all: Vec<Vec<u8>> = (0..3).map(|id| query(id, "www")).chain([query(3, "w")]).collect();
        let bytes = ipv4(0, &all.concat());
        let packet = Tapped { segment_bytes: Some(all[0].len() as u16), ..tapped(&bytes) };
        let found: Vec<&[u8]> = datagrams(&packet).map(|one| one.payload).collect();
        assert_eq!(found, all);
        let empty = ipv4(0, &[]);
        assert_eq!(datagrams(&tapped(&empty)).next().unwrap().message(), None);
    }

    #[test]
    fn a_question_is_the_same_in_any_case_of_its_letters() {
        let of = |message: &[u8]| {
            let bytes = ipv4(0, message);
            datagrams(&tapped(&bytes)).next().unwrap().message()
        };
        let one = of(&query(1, "www")).unwrap();
        assert_eq!(of(&query(1, "WwW")), Some(one));
        assert_ne!(of(&query(1, "wwx")), Some(one));
        let mut answered = query(1, "www");
        answered[2] = 0x84;
        answered.extend([0xc0, 12, 0, 1, 0, 1]);
        assert_eq!(of(&answered), Some(one), "records follow");
        let mut without = query(1, "www")[..DNS_BYTES].to_vec();
        without[5] = 0;
        assert_eq!(of(&without), Some(Message { id: 1, question: None }));
        let mut pointer = query(1, "www");
        pointer[DNS_BYTES] = 0xc0;
        assert_eq!(of(&pointer), None);
    }
}
