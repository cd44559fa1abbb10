//! The content of packets: datagrams of UDP, and segments of TCP, which complete messages together.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use etherparse::{IpNumber, TcpHeaderSlice, UdpHeaderSlice, ip_number};
use kqps_message::header::QR;
use xxhash_rust::xxh3::xxh3_64;

use crate::counts::{Counts, Why};
use crate::duplicates::Exchange;
use crate::ends::{self, Direction, Ends};
use crate::message::{Event, Head, Kind, Transport};
use crate::settings::Settings;
use crate::tcp::{Done, Segment, Streams};

const UDP_HEADER_BYTES: usize = 8;

/// An address and a port.
const END_BYTES: usize = 18;

pub(crate) struct Flow {
    ends: Ends,
    streams: Streams,
    /// Whether the streams may have messages, or ends of connections, that were not taken yet.
    is_waiting: bool,
    /// The message of a connection that was taken last.
    message: Vec<u8>,
    /// The lower port of the packet whose way was asked last.
    pub(crate) other_port: u16,
}

/// Between which ends a packet goes.
pub(crate) struct Way {
    from: SocketAddr,
    to: SocketAddr,
    direction: Direction,
    is_tcp: bool,
}

impl Way {
    /// The exchange of a message in a datagram. `payload` begins with the header of UDP.
    #[inline]
    pub(crate) fn exchange(&self, payload: &[u8]) -> Option<Exchange> {
        let &[id_high, id_low, bits] = payload.get(UDP_HEADER_BYTES..)?.first_chunk()?;
        if self.is_tcp {
            return None;
        }
        let is_response = bits & QR != 0;
        let (client, server) = if is_response { (self.to, self.from) } else { (self.from, self.to) };
        let mut bytes = [0; 2 * END_BYTES + 2];
        for (end, at) in [(client, 0), (server, END_BYTES)] {
            let address = match end.ip() {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            bytes[at..at + 16].copy_from_slice(&address.octets());
            bytes[at + 16..at + END_BYTES].copy_from_slice(&end.port().to_le_bytes());
        }
        bytes[2 * END_BYTES..].copy_from_slice(&[id_high, id_low]);
        Some(Exchange { key: xxh3_64(&bytes), is_response })
    }
}

/// The messages that a packet brought.
pub(crate) enum PayloadMessages {
    /// A message, at a place of the payload.
    Message(Head, Range<usize>),
    /// Messages of a connection, for [`Flow::brought`].
    Messages(usize),
}

/// An event that a connection brought.
pub(crate) enum Brought {
    /// A message.
    Message(Head),
    /// Its end.
    End { at_ns: u64, connection: u64 },
}

impl Flow {
    pub(crate) fn new(settings: &Settings) -> Self {
        let (ends, streams) = (Ends::new(settings), Streams::new());
        Self { ends, streams, is_waiting: false, message: Vec::new(), other_port: 0 }
    }

    /// Between which ends a packet goes, or why it is not DNS. `payload` begins with the header of UDP or TCP.
    #[inline]
    pub(crate) fn way(
        &mut self,
        protocol: IpNumber,
        (from, to): (IpAddr, IpAddr),
        payload: &[u8],
        is_cut: bool,
    ) -> Result<Way, Why> {
        let is_tcp = protocol == ip_number::TCP;
        if !is_tcp && protocol != ip_number::UDP {
            return Err(Why::OtherProtocol);
        }
        let Some(&[a, b, c, d]) = payload.first_chunk() else { return Err(Why::too_short(is_cut)) };
        let from = SocketAddr::new(from, u16::from_be_bytes([a, b]));
        let to = SocketAddr::new(to, u16::from_be_bytes([c, d]));
        self.other_port = from.port().min(to.port());
        let direction = self.ends.direction(from, to)?;
        Ok(Way { from, to, direction, is_tcp })
    }

    /// Takes a whole packet.
    #[inline]
    pub(crate) fn take(&mut self, at_ns: u64, way: &Way, payload: &[u8]) -> Result<PayloadMessages, Why> {
        if way.is_tcp { self.segment(at_ns, way, payload, 0) } else { datagram(at_ns, way, payload) }
    }

    /// Takes a packet whose last bytes, `missing` of them, were not captured. It may end a message that began before.
    pub(crate) fn take_cut(
        &mut self,
        at_ns: u64,
        way: &Way,
        payload: &[u8],
        missing: usize,
    ) -> Result<PayloadMessages, Why> {
        if !way.is_tcp || missing == 0 {
            return Err(Why::Cut);
        }
        self.segment(at_ns, way, payload, missing).map_err(|_| Why::Cut)
    }

    fn segment(
        &mut self,
        at_ns: u64,
        way: &Way,
        payload: &[u8],
        missing: usize,
    ) -> Result<PayloadMessages, Why> {
        let header = TcpHeaderSlice::from_slice(payload).map_err(|_| Why::BadHeader)?;
        let to_server = match way.direction {
            Direction::ToServer => true,
            Direction::ToClient => false,
            Direction::Either => self.is_to_server(way, &header, &payload[header.slice().len()..]),
        };
        self.is_waiting = true;
        let completed = self.streams.take(&Segment {
            at_ns,
            from: way.from,
            to: way.to,
            to_server,
            sequence: header.sequence_number(),
            syn: header.syn(),
            fin: header.fin(),
            rst: header.rst(),
            payload: &payload[header.slice().len()..],
            missing,
        })?;
        if completed == 0 { Err(Why::TcpPart) } else { Ok(PayloadMessages::Messages(completed)) }
    }

    /// Whether a segment between the ports of two servers goes to the one that was asked: by the flags of a handshake,
    /// by the connection that it belongs to, or else by its first message.
    fn is_to_server(&self, way: &Way, header: &TcpHeaderSlice<'_>, payload: &[u8]) -> bool {
        /// Where a message after its length has the bit.
        const QR_AT: usize = 4;
        if header.syn() {
            return !header.ack();
        }
        let is_known = self.streams.has(way.from, way.to);
        if is_known || self.streams.has(way.to, way.from) {
            return is_known;
        }
        // Without a message both directions must agree on one.
        payload.get(QR_AT).map_or(way.to < way.from, |bits| bits & QR == 0)
    }

    /// Gives up what a connection waits for, at the end of the capture. Returns how many messages that completed, for
    /// [`Self::brought`]; `None` if no connection waits.
    pub(crate) fn finish(&mut self) -> Option<usize> {
        let completed = self.streams.finish()?;
        self.is_waiting = true;
        Some(completed)
    }

    /// The next event that connections brought: a message, which is counted, or an end.
    pub(crate) fn brought(&mut self, counts: &mut Counts) -> Option<Brought> {
        while self.is_waiting {
            let Some(done) = self.streams.next() else {
                self.is_waiting = false;
                break;
            };
            let (connection, to_server, client, server, at_ns, bytes) = match done {
                Done::Message { connection, to_server, client, server, at_ns, bytes } => {
                    (connection, to_server, client, server, at_ns, bytes)
                }
                // A flood of SYNs has a connection for each, of which no message knows.
                Done::Closed { has_message: false, .. } => continue,
                Done::Closed { connection, at_ns, .. } => return Some(Brought::End { at_ns, connection }),
            };
            let direction = if to_server { Direction::ToServer } else { Direction::ToClient };
            match ends::kind(direction, bytes) {
                Ok(kind) => {
                    counts.found(kind);
                    self.message.clear();
                    self.message.extend_from_slice(bytes);
                    let (transport, connection) = (Transport::Tcp, Some(connection));
                    let head = Head { at_ns, kind, client, server, transport, connection };
                    return Some(Brought::Message(head));
                }
                Err(why) => counts.skip(why),
            }
        }
        None
    }

    /// The event of what [`Self::brought`] returned last.
    pub(crate) fn event(&self, brought: &Brought) -> Event<'_> {
        match *brought {
            Brought::Message(ref head) => head.with(&self.message),
            Brought::End { at_ns, connection } => Event::Closed { at_ns, connection },
        }
    }
}

#[inline]
fn datagram(at_ns: u64, way: &Way, payload: &[u8]) -> Result<PayloadMessages, Why> {
    let header = UdpHeaderSlice::from_slice(payload).map_err(|_| Why::BadHeader)?;
    let end = usize::from(header.length());
    if end < UDP_HEADER_BYTES || end > payload.len() {
        return Err(Why::BadHeader);
    }
    let bytes = UDP_HEADER_BYTES..end;
    let kind = ends::kind(way.direction, &payload[bytes.clone()])?;
    let (client, server) = match kind {
        Kind::Query => (way.from, way.to),
        Kind::Response => (way.to, way.from),
    };
    let head = Head { at_ns, kind, client, server, transport: Transport::Udp, connection: None };
    Ok(PayloadMessages::Message(head, bytes))
}
