//! First datagrams of QUIC (Initial, RFC 9000, section 17.2.2) from many ports. Each is that of a new client, which takes
//! no notice of what the server answers.

use std::io;

use kqps_kernel::address::Address;
use kqps_kernel::epoll::{Epoll, Ready};
use kqps_kernel::udp::{Peer, UdpSocket};
use kqps_kernel::{Wait, udp};
use kqps_quic::Client;
use kqps_tls::Connector;

use super::Own;
use super::attempts::Attack;
use super::counts::HostileCounts;
use crate::error::PlayError;
use crate::loss::{Loss, by_error};
use crate::plan::QuicPlan;
use crate::wire::udp::sockets::too_many;

/// Descriptors that one look returns at most.
const EVENTS: usize = 256;

/// Datagrams of one socket that are read before others have their turn.
const READS: usize = 32;

/// The slot of the client that is about to begin: none is kept.
const SLOT: usize = 0;

/// The sockets of one thread.
pub(super) struct Initials<'a> {
    own: Own<'a>,
    client: Client,
    epoll: Epoll,
    ready: Vec<Ready>,
    sockets: Box<[Port]>,
    /// Attempts so far.
    begun: usize,
    counts: HostileCounts,
    buffer: Box<[u8]>,
    packet: Vec<u8>,
}

/// A socket with a port of its own.
struct Port {
    socket: UdpSocket,
    /// The number of its target.
    target: usize,
    to: Peer,
}

impl<'a> Initials<'a> {
    /// Binds the sockets.
    pub(super) fn new(
        own: &Own<'a>,
        quic: &'a QuicPlan,
        connectors: Vec<Connector>,
    ) -> Result<Self, PlayError> {
        let failed = |error| PlayError::Loop { io: super::IO, error };
        let epoll = Epoll::new(EVENTS).map_err(failed)?;
        let port = |number: usize| -> io::Result<Port> {
            let (target, to) = own.target(number);
            let socket = own.datagrams(number)?;
            epoll.add(&socket, number as u64)?;
            Ok(Port { socket, target, to: Peer { address: Address::from(to), asked: None } })
        };
        let sockets = (0..own.places).map(port).collect::<io::Result<Box<[Port]>>>();
        Ok(Self {
            own: *own,
            client: Client::new(connectors, 1, 0, quic.congestion),
            sockets: sockets.map_err(|error| too_many(own.plan, error, failed))?,
            epoll,
            ready: Vec::with_capacity(EVENTS),
            begun: 0,
            counts: HostileCounts::new(own.kind, false),
            buffer: vec![0; udp::DATAGRAM_BYTES].into(),
            packet: Vec::new(),
        })
    }

    /// Sends the first datagrams of a new client. Those for which the kernel has no room are lost, as on a network. Returns
    /// why none left, if none did.
    fn send(&mut self, at: usize, now_ns: u64) -> io::Result<()> {
        let Self { client, sockets, counts, packet, .. } = self;
        let Port { socket, to, .. } = &sockets[at];
        let (mut has_left, mut refused) = (false, Ok(()));
        while client.transmit(SLOT, 1, packet, now_ns).is_some() {
            let mut sent = socket.send(packet, to);
            if sent.as_ref().is_err_and(is_report) {
                // The report was of an earlier datagram, and kept this one from leaving.
                counts.replied(UNREACHABLE, 1);
                sent = socket.send(packet, to);
            }
            match sent {
                Ok(()) => {
                    has_left = true;
                    counts.facts.initials += 1;
                    counts.facts.bytes_sent += packet.len() as u64;
                }
                Err(error) => {
                    let is_full = error.kind() == io::ErrorKind::WouldBlock;
                    refused = Err(error);
                    if !is_full {
                        break;
                    }
                }
            }
        }
        if has_left { Ok(()) } else { refused }
    }

    fn read(&mut self, at: usize) {
        let mut from = Peer::default();
        for _ in 0..READS {
            match self.sockets[at].socket.recv(&mut self.buffer, &mut from, Wait::No) {
                Ok(Some(bytes)) => self.counts.replied(sort(&self.buffer[..bytes]), 1),
                Err(error) if is_report(&error) => self.counts.replied(UNREACHABLE, 1),
                Ok(None) | Err(_) => return,
            }
        }
    }
}

/// The sort of a report that nothing listens.
const UNREACHABLE: &str = "unreachable";

/// Whether the network reported that nothing listens at the port, or that no route leads there.
fn is_report(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable)
}

/// The sort of a datagram by its first packet (RFC 8999, RFC 9000, section 17.2).
fn sort(datagram: &[u8]) -> &'static str {
    const LONG: u8 = 0x80;
    match datagram {
        [first, ..] if first & LONG == 0 => "short",
        [_, 0, 0, 0, 0, ..] => "version-negotiation",
        [first, 0, 0, 0, 1, ..] => match (first >> 4) & 3 {
            0 => "initial",
            1 => "0-rtt",
            2 => "handshake",
            _ => "retry",
        },
        _ => "other",
    }
}

impl Attack for Initials<'_> {
    fn begin(&mut self, now_ns: u64) -> bool {
        let at = self.begun % self.sockets.len();
        self.begun += 1;
        self.counts.facts.connections.begun += 1;
        let Port { target, .. } = self.sockets[at];
        let (_, to) = self.own.target(at);
        let loss = match self.client.connect(SLOT, None, (target, to), now_ns) {
            Err(_) => Some(Loss::Local),
            Ok(()) => self.send(at, now_ns).err().map(|error| by_error(&error)),
        };
        self.client.forget(SLOT);
        match loss {
            Some(loss) => self.counts.failed(loss),
            None => self.counts.facts.connections.connecting += 1,
        }
        true
    }

    fn watched(&mut self) -> (&mut Epoll, &mut Vec<Ready>) {
        (&mut self.epoll, &mut self.ready)
    }

    fn happened(&mut self, event: Ready) {
        self.read(event.key as usize);
    }

    fn expire(&mut self, _: u64) {}

    fn next_ns(&self) -> Option<u64> {
        None
    }

    /// Never: the server may still answer.
    fn is_settled(&self) -> bool {
        false
    }

    fn finish(self) -> HostileCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_is_sorted_by_its_first_packet() {
        let long = |first: u8| sort(&[first, 0, 0, 0, 1, 8]);
        assert_eq!([0xc3, 0xd0, 0xe1, 0xf0].map(long), ["initial", "0-rtt", "handshake", "retry"]);
        assert_eq!(sort(&[0xff, 0, 0, 0, 0, 8]), "version-negotiation");
        assert_eq!((sort(&[0x40, 1]), sort(&[0xc0, 9, 9, 9, 9]), sort(&[])), ("short", "other", "other"));
    }
}
