//! Handshakes of QUIC after which nothing is sent, and the connection is held. Each has a socket of its own.

use std::io;

use kqps_kernel::address::Address;
use kqps_kernel::clock;
use kqps_kernel::epoll::{Epoll, Ready};
use kqps_kernel::udp::{Peer, UdpSocket};
use kqps_kernel::{Wait, udp};
use kqps_quic::{Client, ClientEvent, End, Timers};
use kqps_tls::Connector;

use super::Own;
use super::attempts::Attack;
use super::counts::HostileCounts;
use super::key::{key, place};
use crate::connections::Ending;
use crate::loss::{Loss, by_end, by_error};
use crate::plan::QuicPlan;

/// Descriptors that one look returns at most.
const EVENTS: usize = 256;

/// Datagrams of one connection that are read before others have their turn.
const READS: usize = 8;

/// Tokens of a server that are kept: none, so that each client is a new one.
const TOKENS: usize = 0;

/// The connections of one thread.
pub(super) struct Handshakes<'a> {
    own: Own<'a>,
    timeout_ns: u64,
    client: Client,
    epoll: Epoll,
    ready: Vec<Ready>,
    places: Box<[Place]>,
    free: Vec<usize>,
    timers: Timers,
    /// Connections begun so far.
    begun: usize,
    counts: HostileCounts,
    buffer: Box<[u8]>,
    packet: Vec<u8>,
}

/// A place for one connection after the other.
#[derive(Default)]
struct Place {
    socket: Option<UdpSocket>,
    to: Peer,
    began_ns: u64,
    /// When its handshake was complete; `None` before.
    opened_ns: Option<u64>,
    /// How many connections it had. An event of an earlier one is not of the present one.
    generation: u32,
}

impl<'a> Handshakes<'a> {
    /// No connections yet.
    pub(super) fn new(own: &Own<'a>, quic: &'a QuicPlan, connectors: Vec<Connector>) -> io::Result<Self> {
        Ok(Self {
            own: *own,
            timeout_ns: quic.connect_timeout.as_nanos() as u64,
            client: Client::new(connectors, own.places, TOKENS, quic.congestion),
            epoll: Epoll::new(EVENTS)?,
            ready: Vec::with_capacity(EVENTS),
            places: (0..own.places).map(|_| Place::default()).collect(),
            free: (0..own.places).rev().collect(),
            timers: Timers::default(),
            begun: 0,
            counts: HostileCounts::new(own.kind, false),
            buffer: vec![0; udp::DATAGRAM_BYTES].into(),
            packet: Vec::new(),
        })
    }

    fn key(&self, at: usize) -> u64 {
        key(at, self.places[at].generation)
    }

    fn connect(&mut self, at: usize, now_ns: u64) {
        let number = self.begun;
        self.begun += 1;
        self.counts.facts.connections.begun += 1;
        let (target, to) = self.own.target(number);
        let bound = self.own.datagrams(number).and_then(|socket| {
            self.epoll.add(&socket, self.key(at))?;
            Ok(socket)
        });
        let socket = match bound {
            Ok(socket) => socket,
            Err(error) => return self.failed(at, by_socket_error(&error)),
        };
        let to_peer = Peer { address: Address::from(to), asked: None };
        let place = &mut self.places[at];
        (place.socket, place.to, place.began_ns, place.opened_ns) = (Some(socket), to_peer, now_ns, None);
        match self.client.connect(at, None, (target, to), now_ns) {
            Ok(()) => self.pump(at, now_ns),
            Err(_) => self.failed(at, Loss::Local),
        }
    }

    /// Handles what happened on a connection, and sends what it has to send.
    fn pump(&mut self, at: usize, now_ns: u64) {
        let (mut is_open, mut ended) = (false, None);
        self.client.poll(at, now_ns, |event| match event {
            ClientEvent::Opened { .. } => is_open = true,
            ClientEvent::Ended(end) => ended = Some(end),
            ClientEvent::Again(_)
            | ClientEvent::Reply(..)
            | ClientEvent::Failed(..)
            | ClientEvent::Available => {}
        });
        if is_open {
            self.places[at].opened_ns = Some(now_ns);
            self.counts.facts.connections.connected += 1;
        }
        let sent = self.send(at, now_ns);
        match (ended, sent) {
            (Some(end), _) => self.ended(at, &end, now_ns),
            (None, Err(error)) => self.broke(at, &error, now_ns),
            (None, Ok(())) => self.schedule(at),
        }
    }

    /// Sends the datagrams of a connection. Those for which the kernel has no room are lost, as on a network.
    fn send(&mut self, at: usize, now_ns: u64) -> io::Result<()> {
        let Self { client, places, counts, packet, .. } = self;
        let Place { socket: Some(socket), to, .. } = &places[at] else { return Ok(()) };
        while client.transmit(at, 1, packet, now_ns).is_some() {
            match socket.send(packet, to) {
                Ok(()) => counts.facts.bytes_sent += packet.len() as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Sets when something is due at a place.
    fn schedule(&mut self, at: usize) {
        let place = &self.places[at];
        if place.opened_ns.is_none() {
            self.timers.set(at, place.began_ns.saturating_add(self.timeout_ns));
        }
        if let Some(due_ns) = self.client.due_ns(at) {
            self.timers.set(at, due_ns);
        }
    }

    fn due(&mut self, at: usize, now_ns: u64) {
        let place = &self.places[at];
        if place.socket.is_none() {
            return;
        }
        let gives_up_ns = place.began_ns.saturating_add(self.timeout_ns);
        if place.opened_ns.is_none() && gives_up_ns <= now_ns {
            return self.failed(at, Loss::ConnectTimeout);
        }
        if self.client.due_ns(at).is_some_and(|due_ns| due_ns <= now_ns) {
            self.client.expire(at, now_ns);
            return self.pump(at, now_ns);
        }
        self.schedule(at);
    }

    /// Empties a place.
    fn clear(&mut self, at: usize) {
        self.client.forget(at);
        let place = &mut self.places[at];
        place.socket = None;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(at);
    }

    fn failed(&mut self, at: usize, loss: Loss) {
        self.counts.failed(loss);
        self.clear(at);
    }

    /// The connection ended, or could not be made.
    fn ended(&mut self, at: usize, end: &End, now_ns: u64) {
        let Some(opened_ns) = self.places[at].opened_ns else { return self.failed(at, by_end(end)) };
        let ending = match end {
            End::Closed { .. } => Ending::Closed,
            end => Ending::of_quic(end, true),
        };
        self.counts.ended(ending, now_ns.saturating_sub(opened_ns));
        self.clear(at);
    }

    /// The socket returned an error.
    fn broke(&mut self, at: usize, error: &io::Error, now_ns: u64) {
        match self.places[at].opened_ns {
            None => self.failed(at, by_error(error)),
            Some(opened_ns) => {
                self.counts.ended(Ending::of_error(error), now_ns.saturating_sub(opened_ns));
                self.clear(at);
            }
        }
    }

    /// Reads the datagrams that arrived.
    fn read(&mut self, at: usize, now_ns: u64) {
        let mut from = Peer::default();
        for _ in 0..READS {
            let Some(socket) = &self.places[at].socket else { return };
            match socket.recv(&mut self.buffer, &mut from, Wait::No) {
                Ok(None) => break,
                Ok(Some(bytes)) => {
                    if let Some(address) = from.address.to_socket_addr() {
                        self.client.datagram(at, address, &self.buffer[..bytes], now_ns);
                    }
                }
                Err(error) => return self.broke(at, &error, now_ns),
            }
        }
        self.pump(at, now_ns);
    }
}

/// Why no socket could be bound and connected.
fn by_socket_error(error: &io::Error) -> Loss {
    match error.kind() {
        // All ports of the address are in use.
        io::ErrorKind::AddrInUse => Loss::Ports,
        // A bound datagram socket needs no port to connect, so the address is not one of this host's.
        io::ErrorKind::AddrNotAvailable => Loss::Address,
        _ => by_error(error),
    }
}

impl Attack for Handshakes<'_> {
    fn begin(&mut self, now_ns: u64) -> bool {
        let Some(at) = self.free.pop() else { return false };
        self.connect(at, now_ns);
        true
    }

    fn watched(&mut self) -> (&mut Epoll, &mut Vec<Ready>) {
        (&mut self.epoll, &mut self.ready)
    }

    fn happened(&mut self, event: Ready) {
        let at = place(event.key);
        if self.key(at) == event.key {
            self.read(at, clock::now_ns());
        }
    }

    fn expire(&mut self, now_ns: u64) {
        while let Some(at) = self.timers.take_due(now_ns) {
            self.due(at, now_ns);
        }
    }

    fn next_ns(&self) -> Option<u64> {
        self.timers.next_ns()
    }

    fn is_settled(&self) -> bool {
        self.places.iter().all(|place| place.socket.is_none() || place.opened_ns.is_some())
    }

    fn finish(mut self) -> HostileCounts {
        let now_ns = clock::now_ns();
        for at in 0..self.places.len() {
            if self.places[at].socket.is_none() {
                continue;
            }
            let connections = &mut self.counts.facts.connections;
            match self.places[at].opened_ns {
                Some(_) => connections.held += 1,
                None => connections.connecting += 1,
            }
            self.client.close(at, now_ns);
            // A close that cannot be sent counts as lost on the network.
            let _ = self.send(at, now_ns);
        }
        self.counts
    }
}
