//! Connections as captures show them, and the messages that come out of them.

mod gaps;
mod limits;
mod lives;
mod splits;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::{Done, LIMITS, Limits, Segment, Streams};
use crate::counts::Why;

const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 40_000);
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7)), 53);

/// The time between two segments, ns.
const STEP_NS: u64 = 1_000_000;

const S_NS: u64 = 1_000_000_000;

/// An event that came out.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OwnedEvent {
    Message { connection: u64, to_server: bool, at_ns: u64, bytes: Vec<u8> },
    Closed { connection: u64, at_ns: u64 },
}

/// A capture of the connections between one client and one server. Each segment comes a millisecond after the one
/// before it.
struct Wire {
    streams: Streams,
    client: SocketAddr,
    now_ns: u64,
    seen: Vec<OwnedEvent>,
}

impl Wire {
    fn new() -> Self {
        Self::with_limits(LIMITS)
    }

    fn with_limits(limits: Limits) -> Self {
        Self { streams: Streams::with_limits(limits), client: CLIENT, now_ns: S_NS, seen: Vec::new() }
    }

    /// The next segment from the client, without flags.
    fn query<'a>(&self, sequence: u32, payload: &'a [u8]) -> Segment<'a> {
        let (at_ns, from) = (self.now_ns + STEP_NS, self.client);
        let (syn, fin, rst) = (false, false, false);
        Segment { at_ns, from, to: SERVER, to_server: true, sequence, syn, fin, rst, payload, missing: 0 }
    }

    /// The next segment from the server, without flags.
    fn reply<'a>(&self, sequence: u32, payload: &'a [u8]) -> Segment<'a> {
        Segment { from: SERVER, to: self.client, to_server: false, ..self.query(sequence, payload) }
    }

    /// Takes a segment, and checks that as many messages come out as it is said to complete.
    fn take(&mut self, segment: Segment<'_>) -> Result<usize, Why> {
        self.now_ns = segment.at_ns;
        let outcome = self.streams.take(&segment);
        let mut messages = 0;
        while let Some(done) = self.streams.next() {
            self.seen.push(match done {
                Done::Closed { connection, at_ns, .. } => OwnedEvent::Closed { connection, at_ns },
                Done::Message { connection, to_server, client, server, at_ns, bytes } => {
                    assert_eq!((client.ip(), server), (CLIENT.ip(), SERVER));
                    messages += 1;
                    OwnedEvent::Message { connection, to_server, at_ns, bytes: bytes.to_vec() }
                }
            });
        }
        assert_eq!(outcome.unwrap_or(0), messages);
        assert_ne!(outcome, Ok(0));
        assert!(self.streams.table.len() <= self.streams.limits.connections);
        assert!(self.streams.held_bytes <= self.streams.limits.held_bytes);
        outcome
    }

    fn syn(&mut self, sequence: u32) -> Result<usize, Why> {
        self.take(Segment { syn: true, ..self.query(sequence, &[]) })
    }

    fn syn_ack(&mut self, sequence: u32) -> Result<usize, Why> {
        self.take(Segment { syn: true, ..self.reply(sequence, &[]) })
    }

    /// Opens a connection whose client's first byte has number 1, and the server's 1001.
    fn connect(&mut self) {
        assert_eq!(self.syn(0), Err(Why::TcpControl));
        assert_eq!(self.syn_ack(1000), Err(Why::TcpControl));
    }

    /// The events that came out since the last call.
    fn seen(&mut self) -> Vec<OwnedEvent> {
        std::mem::take(&mut self.seen)
    }

    /// The IDs of the messages that came out since the last call.
    fn ids(&mut self) -> Vec<u16> {
        let seen = self.seen();
        let messages = seen.iter().filter_map(|seen| match seen {
            OwnedEvent::Message { bytes, .. } => Some(u16::from_be_bytes([bytes[0], bytes[1]])),
            OwnedEvent::Closed { .. } => None,
        });
        messages.collect()
    }

    /// The ends of connections since the last call, with their times.
    fn closed(&mut self) -> Vec<(u64, u64)> {
        let seen = self.seen();
        let closed = seen.iter().filter_map(|seen| match *seen {
            OwnedEvent::Closed { connection, at_ns } => Some((connection, at_ns)),
            OwnedEvent::Message { .. } => None,
        });
        closed.collect()
    }
}

/// A query for the A records of a name of one label, of `bytes` bytes: 19 to 81.
fn query(id: u16, bytes: usize) -> Vec<u8> {
    let label = bytes - 18;
    let [high, low] = id.to_be_bytes();
    let header = [high, low, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    [&header[..], &[label as u8], &vec![b'a'; label], &[0, 0, 1, 0, 1]].concat()
}

/// A reply with the same question.
fn reply(id: u16, bytes: usize) -> Vec<u8> {
    let mut message = query(id, bytes);
    message[2] |= 0x80;
    message
}

/// A message after its length.
fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

/// A query after its length, 32 bytes in all.
fn asked(id: u16) -> Vec<u8> {
    framed(&query(id, 30))
}

/// A reply after its length, 32 bytes in all.
fn replied(id: u16) -> Vec<u8> {
    framed(&reply(id, 30))
}

#[test]
fn a_connection_from_syn_to_fin() {
    let mut wire = Wire::new();
    wire.connect();
    assert_eq!(wire.take(wire.query(1, &[])), Err(Why::TcpControl));
    assert_eq!(wire.take(wire.query(1, &asked(7))), Ok(1));
    assert_eq!(wire.take(wire.reply(1001, &replied(7))), Ok(1));
    assert_eq!(wire.take(Segment { fin: true, ..wire.query(33, &[]) }), Err(Why::TcpControl));
    assert_eq!(wire.take(Segment { fin: true, ..wire.reply(1033, &[]) }), Err(Why::TcpControl));
    assert_eq!(wire.take(wire.query(34, &[])), Err(Why::TcpControl));
    let at_ns = |segment: u64| S_NS + segment * STEP_NS;
    let expected = [
        OwnedEvent::Message { connection: 0, to_server: true, at_ns: at_ns(4), bytes: query(7, 30) },
        OwnedEvent::Message { connection: 0, to_server: false, at_ns: at_ns(5), bytes: reply(7, 30) },
        OwnedEvent::Closed { connection: 0, at_ns: at_ns(7) },
    ];
    assert_eq!(wire.seen(), expected);
}

#[test]
fn several_messages_in_one_segment() {
    let mut wire = Wire::new();
    wire.connect();
    let three = [asked(1), framed(&query(2, 19)), framed(&query(3, 81))].concat();
    assert_eq!(wire.take(wire.query(1, &three)), Ok(3));
    assert_eq!(wire.ids(), [1, 2, 3]);
    let and_a_half = [&asked(4)[..], &asked(5)[..9]].concat();
    assert_eq!(wire.take(wire.query(1 + three.len() as u32, &and_a_half)), Ok(1));
    assert_eq!(wire.take(wire.query(1 + three.len() as u32 + 41, &asked(5)[9..])), Ok(1));
    assert_eq!(wire.ids(), [4, 5]);
}

#[test]
fn one_message_over_many_segments() {
    let mut wire = Wire::new();
    wire.connect();
    let bytes = asked(9);
    for (number, byte) in bytes.iter().enumerate() {
        let outcome = wire.take(wire.query(1 + number as u32, std::slice::from_ref(byte)));
        assert_eq!(outcome, if number == 31 { Ok(1) } else { Err(Why::TcpPart) });
    }
    let seen = wire.seen();
    let OwnedEvent::Message { at_ns, bytes, .. } = &seen[0] else { panic!("{seen:?}") };
    assert_eq!((*at_ns, bytes), (wire.now_ns, &query(9, 30)));
    assert_eq!(wire.streams.held_bytes, 0);
}

#[test]
fn a_length_prefix_in_a_segment_of_its_own() {
    let mut wire = Wire::new();
    wire.connect();
    assert_eq!(wire.take(wire.query(1, &asked(1)[..2])), Err(Why::TcpPart));
    assert_eq!(wire.take(wire.query(3, &asked(1)[2..])), Ok(1));
    assert_eq!(wire.take(wire.query(33, &asked(2)[..1])), Err(Why::TcpPart));
    assert_eq!(wire.take(wire.query(34, &asked(2)[1..])), Ok(1));
    assert_eq!(wire.ids(), [1, 2]);
}

#[test]
fn a_segment_that_is_sent_again_is_counted_and_changes_nothing() {
    let mut wire = Wire::new();
    assert_eq!(wire.syn(0), Err(Why::TcpControl));
    assert_eq!(wire.syn(0), Err(Why::TcpControl));
    assert_eq!(wire.syn_ack(1000), Err(Why::TcpControl));
    assert_eq!(wire.take(wire.query(1, &asked(1))), Ok(1));
    assert_eq!(wire.take(wire.query(1, &asked(1))), Err(Why::TcpRepeated));
    // A probe whether the peer lives has the number before the next one.
    assert_eq!(wire.take(wire.query(32, &[0])), Err(Why::TcpRepeated));
    // The sender puts the first bytes together with new ones.
    assert_eq!(wire.take(wire.query(1, &[asked(1), asked(2)].concat())), Ok(1));
    assert_eq!(wire.ids(), [1, 2]);
    assert_eq!(wire.streams.connections, 1);
}

#[test]
fn sequence_numbers_wrap() {
    let mut wire = Wire::new();
    let first = u32::MAX - 39;
    assert_eq!(wire.syn(first.wrapping_sub(1)), Err(Why::TcpControl));
    for id in 0..4_u16 {
        let sequence = first.wrapping_add(32 * u32::from(id));
        assert_eq!(wire.take(wire.query(sequence, &asked(id))), Ok(1));
        assert_eq!(wire.take(wire.query(sequence, &asked(id))), Err(Why::TcpRepeated));
    }
    assert_eq!(wire.ids(), [0, 1, 2, 3]);
}

#[test]
fn bytes_that_are_no_messages_end_a_direction_until_one_begins() {
    let mut wire = Wire::new();
    wire.connect();
    // A length of less than a header; then a reply to a server; then bytes of another protocol.
    assert_eq!(wire.take(wire.query(1, &[0, 11, 1])), Err(Why::BadMessage));
    assert_eq!(wire.take(wire.query(4, &asked(1))), Ok(1));
    assert_eq!(wire.take(wire.query(36, &[asked(2), replied(3)].concat())), Ok(1));
    assert_eq!(wire.take(wire.query(100, &replied(4))), Err(Why::TcpGap));
    assert_eq!(wire.take(wire.query(132, b"GET / HTTP/1.1\r\n\r\n")), Err(Why::TcpGap));
    assert_eq!(wire.take(wire.query(150, &asked(5))), Ok(1));
    assert_eq!(wire.take(wire.query(182, &replied(6)[..9])), Err(Why::BadMessage));
    assert_eq!(wire.ids(), [1, 2, 5]);
}
