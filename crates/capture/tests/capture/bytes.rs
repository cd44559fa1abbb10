//! Packets and captures byte by byte, without the crate's own writer, and a reader that copies what it is lent.

use std::io::{Cursor, Read};
use std::net::{IpAddr, SocketAddr};

use kqps_capture::{Counts, Event, Kind, Reader, Settings, Transport, Why};

/// The time of the first packet of a capture, and the time between packets, nanoseconds.
pub(crate) const AT_NS: u64 = 1_700_000_000_000_001_000;
pub(crate) const GAP_NS: u64 = 10_000_000;

/// A query for `a.`, type A, from 192.0.2.1:5000 to 192.0.2.53:53, as a packet of IPv4.
pub(crate) const PACKET: [u8; 47] = [
    0x45, 0x00, 0x00, 0x2f, 0x00, 0x01, 0x00, 0x00, 0x40, 0x11, 0x00, 0x00, 192, 0, 2, 1, 192, 0, 2,
    53, // IPv4
    0x13, 0x88, 0x00, 0x35, 0x00, 0x1b, 0x00, 0x00, // UDP
    0x00, 0x01, 0x01, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // the header of the message
    0x01, b'a', 0x00, 0x00, 0x01, 0x00, 0x01, // its question
];

pub(crate) const UDP: u8 = 17;
pub(crate) const TCP: u8 = 6;

pub(crate) fn client() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], 5000))
}

pub(crate) fn server() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 53], 53))
}

pub(crate) fn client6() -> SocketAddr {
    SocketAddr::from(([0x2001_u16, 0xdb8, 0, 0, 0, 0, 0, 1], 5000))
}

pub(crate) fn server6() -> SocketAddr {
    SocketAddr::from(([0x2001_u16, 0xdb8, 0, 0, 0, 0, 0, 0x53], 53))
}

pub(crate) fn query(id: u16) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend_from_slice(b"\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01");
    message
}

pub(crate) fn reply(id: u16) -> Vec<u8> {
    let mut message = query(id);
    message[2] |= 0x80;
    message
}

/// A datagram of UDP without a checksum.
pub(crate) fn udp(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    for word in [from.port(), to.port(), 8 + payload.len() as u16, 0] {
        datagram.extend_from_slice(&word.to_be_bytes());
    }
    datagram.extend_from_slice(payload);
    datagram
}

/// A segment of TCP without a checksum.
pub(crate) fn tcp(from: SocketAddr, to: SocketAddr, sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut segment = Vec::new();
    segment.extend_from_slice(&from.port().to_be_bytes());
    segment.extend_from_slice(&to.port().to_be_bytes());
    segment.extend_from_slice(&sequence.to_be_bytes());
    segment.extend_from_slice(&[0, 0, 0, 0, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    segment.extend_from_slice(payload);
    segment
}

/// A packet of the addresses' version of IP, not a fragment.
pub(crate) fn ip(from: SocketAddr, to: SocketAddr, protocol: u8, number: u16, content: &[u8]) -> Vec<u8> {
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut packet = vec![0x45, 0];
            packet.extend_from_slice(&(20 + content.len() as u16).to_be_bytes());
            packet.extend_from_slice(&number.to_be_bytes());
            packet.extend_from_slice(&[0, 0, 64, protocol, 0, 0]);
            packet.extend_from_slice(&from.octets());
            packet.extend_from_slice(&to.octets());
            packet.extend_from_slice(content);
            packet
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut packet = vec![0x60, 0];
            packet.extend_from_slice(&number.to_be_bytes());
            packet.extend_from_slice(&(content.len() as u16).to_be_bytes());
            packet.extend_from_slice(&[protocol, 64]);
            packet.extend_from_slice(&from.octets());
            packet.extend_from_slice(&to.octets());
            packet.extend_from_slice(content);
            packet
        }
        _ => panic!("two versions of IP"),
    }
}

/// A query by UDP and IPv4.
pub(crate) fn asked(id: u16) -> Vec<u8> {
    ip(client(), server(), UDP, id, &udp(client(), server(), &query(id)))
}

/// A query by UDP and IPv6.
pub(crate) fn asked6(id: u16) -> Vec<u8> {
    ip(client6(), server6(), UDP, id, &udp(client6(), server6(), &query(id)))
}

/// A capture of libpcap's format: its header with magic number and link, in either byte order.
pub(crate) fn pcap_header(magic: u32, link: u32, is_big_endian: bool) -> Vec<u8> {
    let order = |word: u32| if is_big_endian { word.to_be_bytes() } else { word.to_le_bytes() };
    let version = if is_big_endian { [0, 2, 0, 4] } else { [2, 0, 4, 0] };
    [order(magic), version, [0; 4], [0; 4], order(65535), order(link)].concat()
}

/// A packet in that format, little-endian. `original` is its length on the link.
pub(crate) fn pcap_packet(seconds: u32, fraction: u32, packet: &[u8], original: usize) -> Vec<u8> {
    let words = [seconds, fraction, packet.len() as u32, original as u32].map(u32::to_le_bytes);
    [words.concat(), packet.to_vec()].concat()
}

/// A capture with nanoseconds of whole packets, one every 10 ms.
pub(crate) fn pcap(link: u32, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut capture = pcap_header(0xa1b2_3c4d, link, false);
    for (number, packet) in packets.iter().enumerate() {
        let at_ns = AT_NS + number as u64 * GAP_NS;
        let (seconds, fraction) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
        capture.extend(pcap_packet(seconds as u32, fraction as u32, packet, packet.len()));
    }
    capture
}

/// A message of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Copied {
    pub(crate) at_ns: u64,
    pub(crate) kind: Kind,
    pub(crate) client: SocketAddr,
    pub(crate) server: SocketAddr,
    pub(crate) transport: Transport,
    pub(crate) connection: Option<u64>,
    pub(crate) bytes: Vec<u8>,
}

/// All that a reader returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) messages: Vec<Copied>,
    /// Connections that were closed.
    pub(crate) closed: Vec<u64>,
    pub(crate) counts: Counts,
    pub(crate) error: Option<String>,
}

impl Outcome {
    /// The IDs of the messages.
    pub(crate) fn ids(&self) -> Vec<u16> {
        self.messages.iter().map(|message| u16::from_be_bytes([message.bytes[0], message.bytes[1]])).collect()
    }

    /// Why packets were skipped, and how often.
    pub(crate) fn skipped(&self) -> Vec<(Why, u64)> {
        self.counts.skipped().collect()
    }
}

pub(crate) fn read(capture: Vec<u8>) -> Outcome {
    read_from(Cursor::new(capture), &Settings::default())
}

/// Reads to the end or to an error, and checks the account.
pub(crate) fn read_from(source: impl Read + Send + 'static, settings: &Settings) -> Outcome {
    let mut outcome =
        Outcome { messages: Vec::new(), closed: Vec::new(), counts: Counts::default(), error: None };
    let mut reader = match Reader::new(source, settings) {
        Ok(reader) => reader,
        Err(error) => {
            outcome.error = Some(error.to_string());
            return outcome;
        }
    };
    loop {
        match reader.next() {
            Ok(Some(Event::Message(message))) => outcome.messages.push(Copied {
                at_ns: message.at_ns,
                kind: message.kind,
                client: message.client,
                server: message.server,
                transport: message.transport,
                connection: message.connection,
                bytes: message.bytes.to_vec(),
            }),
            Ok(Some(Event::Closed { connection, .. })) => outcome.closed.push(connection),
            Ok(None) => break,
            Err(error) => {
                outcome.error = Some(error.to_string());
                break;
            }
        }
    }
    assert!(matches!(reader.next(), Ok(None)), "nothing follows on an end or an error");
    outcome.counts = reader.counts().clone();
    assert_eq!(outcome.counts.check(), Ok(()));
    let of = |kind| outcome.messages.iter().filter(|message| message.kind == kind).count() as u64;
    assert_eq!((of(Kind::Query), of(Kind::Response)), (outcome.counts.queries, outcome.counts.responses));
    outcome
}

#[test]
fn the_packet_is_what_its_bytes_say() {
    assert_eq!(asked(1), PACKET);
}
