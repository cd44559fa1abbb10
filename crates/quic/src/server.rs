//! The connections of one worker of a server. A query arrives on a stream of its own, and its reply leaves on it (RFC
//! 9250, section 4.2).

mod connection;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kqps_tls::{Acceptor, Kind};
use quinn_proto::{
    ConnectionEvent, ConnectionHandle, DatagramEvent, Endpoint, EndpointEvent, Incoming, ServerConfig,
    StreamId, Transmit,
};

use crate::Congestion;
use crate::clock::Clock;
use crate::code;
use crate::end::End;
use crate::session::ServerCrypto;
use crate::timers::Timers;
use crate::transport::{numbered, transport};
use connection::{Connection, Scratch};

/// Streams that a client may have open at once. quinn-proto makes room for all of them when it accepts a connection.
const STREAMS: u32 = 256;

/// Answers queries.
pub trait Responder {
    /// The state of a reply of many messages.
    type Many;

    /// Answers the query of a client. A reply of one message is written to `reply`, which is empty before. `key` names
    /// the query for [`Server::reply_later`].
    fn answer(
        &mut self,
        query: &[u8],
        client: IpAddr,
        key: QueryKey,
        reply: &mut Vec<u8>,
    ) -> Reply<Self::Many>;

    /// Counts queries that were answered [`Reply::Later`] and whose client has left, or wants no reply, before the replies
    /// came. [`Server::reply_later`] then returns `None` for them.
    fn gone(&mut self, _queries: u64) {}

    /// Writes the next message of a reply to `message`, which is empty before. Returns whether there was one.
    fn next(&mut self, many: &mut Self::Many, message: &mut Vec<u8>) -> bool;
}

/// The outcome of a query.
#[derive(Debug)]
pub enum Reply<M> {
    /// A reply of one message.
    One,
    /// A reply of many messages.
    Many(M),
    /// A reply that [`Server::reply_later`] takes.
    Later,
    /// No reply: its stream is reset.
    None,
}

/// A query of a connection, whose reply may come later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryKey {
    /// The handle of the connection, and its number among all that the server had.
    slot: usize,
    number: u64,
    stream: StreamId,
}

/// Whether a connection is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It is.
    Accept,
    /// It is not, and the client learns it (`CONNECTION_REFUSED`).
    Refuse,
}

/// An event of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// Its handshake is complete.
    Opened(Kind),
    /// It ended, and the client had this address when it began. The connection is gone.
    Ended(SocketAddr, End),
}

/// Datagrams to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// Where they go.
    pub to: SocketAddr,
    /// The address of this host that they come from, if it is known.
    pub from: Option<IpAddr>,
    /// The length of each datagram; the last may be shorter.
    pub segment_bytes: usize,
}

impl Transmission {
    fn from_transmit(transmit: &Transmit) -> Self {
        Self {
            to: transmit.destination,
            from: transmit.src_ip,
            segment_bytes: transmit.segment_size.unwrap_or(transmit.size),
        }
    }
}

/// The connections of one worker.
pub struct Server<R: Responder> {
    endpoint: Endpoint,
    clock: Clock,
    /// By their handles.
    connections: Vec<Option<Connection<R::Many>>>,
    open: usize,
    /// Connections that were made so far.
    made: u64,
    /// Handles of connections at which something happened, each once.
    ready: Vec<usize>,
    timers: Timers,
    scratch: Scratch,
}

impl<R: Responder> Server<R> {
    /// A server whose connections end after `idle` without a packet. It speaks QUIC as `acceptor` speaks TLS, which
    /// must be [`Acceptor::over_quic`]. It is the only one at its address.
    pub fn new(acceptor: &Acceptor, idle: Duration, congestion: Congestion) -> Self {
        Self::numbered(acceptor, idle, congestion, 0)
    }

    /// A server like [`Self::new`], with a number among those at its address. The connection IDs that it chooses begin
    /// with the number, in network byte order, and have [`crate::transport::SERVER_ID_BYTES`] bytes, so that what
    /// distributes packets over the servers can read it.
    pub fn numbered(acceptor: &Acceptor, idle: Duration, congestion: Congestion, number: u16) -> Self {
        let mut config =
            ServerConfig::with_crypto(Arc::new(ServerCrypto::new(Arc::clone(acceptor.config()))));
        config.transport_config(Arc::new(transport(congestion, STREAMS, idle)));
        Self {
            endpoint: Endpoint::new(Arc::new(numbered(number)), Some(Arc::new(config)), false, None),
            clock: Clock::new(),
            connections: Vec::new(),
            open: 0,
            made: 0,
            ready: Vec::new(),
            timers: Timers::default(),
            scratch: Scratch::default(),
        }
    }

    /// The number of connections.
    pub fn connections(&self) -> usize {
        self.open
    }

    /// Takes a datagram that arrived from `from` at the address `to` of this host, if that is known. `admit` decides
    /// about a new connection. Returns what must be sent at once, with its bytes in `response`.
    pub fn datagram(
        &mut self,
        (from, to): (SocketAddr, Option<IpAddr>),
        bytes: &[u8],
        now_ns: u64,
        response: &mut Vec<u8>,
        admit: impl FnOnce(SocketAddr) -> Admission,
    ) -> Option<Transmission> {
        response.clear();
        let at = self.clock.at(now_ns);
        match self.endpoint.handle(at, from, to, None, BytesMut::from(bytes), response)? {
            DatagramEvent::ConnectionEvent(ConnectionHandle(slot), event) => {
                self.pass(slot, event);
                None
            }
            DatagramEvent::NewConnection(incoming) => self.welcome(incoming, now_ns, response, admit),
            DatagramEvent::Response(transmit) => Some(Transmission::from_transmit(&transmit)),
        }
    }

    fn pass(&mut self, slot: usize, event: ConnectionEvent) {
        if let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) {
            connection.inner.handle_event(event);
            self.note(slot);
        }
    }

    /// Notes that something happened at a connection.
    fn note(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut)
            && !std::mem::replace(&mut connection.is_ready, true)
        {
            self.ready.push(slot);
        }
    }

    fn welcome(
        &mut self,
        incoming: Incoming,
        now_ns: u64,
        response: &mut Vec<u8>,
        admit: impl FnOnce(SocketAddr) -> Admission,
    ) -> Option<Transmission> {
        let client = incoming.remote_address();
        response.clear();
        if admit(client) == Admission::Refuse {
            return Some(Transmission::from_transmit(&self.endpoint.refuse(incoming, response)));
        }
        match self.endpoint.accept(incoming, self.clock.at(now_ns), response, None) {
            Ok((ConnectionHandle(slot), inner)) => {
                if slot >= self.connections.len() {
                    self.connections.resize_with(slot + 1, || None);
                }
                self.connections[slot] = Some(Connection::new(inner, client, (slot, self.made)));
                self.open += 1;
                self.made += 1;
                self.note(slot);
                None
            }
            Err(error) => {
                // It was admitted, so it must end.
                self.scratch.failed.push((client, End::from_error(error.cause, None)));
                error.response.map(|transmit| Transmission::from_transmit(&transmit))
            }
        }
    }

    /// Takes the next connection at which something happened.
    pub fn next_ready(&mut self) -> Option<usize> {
        let slot = self.ready.pop()?;
        if let Some(connection) = self.connections[slot].as_mut() {
            connection.is_ready = false;
        }
        Some(slot)
    }

    /// Answers what arrived on a connection, and calls `each` for what happened to it. Pass on what
    /// [`Self::transmit`] then returns, and [`Self::rest`] it.
    pub fn work(&mut self, slot: usize, now_ns: u64, responder: &mut R, mut each: impl FnMut(ServerEvent)) {
        let Self { endpoint, clock, connections, scratch, .. } = self;
        let Some(connection) = connections[slot].as_mut() else { return };
        connection.poll(clock.at(now_ns), responder, scratch, &mut each);
        while let Some(event) = connection.inner.poll_endpoint_events() {
            if let Some(event) = endpoint.handle_event(ConnectionHandle(slot), event) {
                connection.inner.handle_event(event);
            }
        }
    }

    /// Sends the reply to a query that was answered [`Reply::Later`]; without a message its stream is reset. Returns
    /// whether the stream was still open; `None` if the query does not wait any more, see [`Responder::gone`]. The
    /// connection is then among those at which something happened.
    pub fn reply_later(&mut self, key: QueryKey, message: Option<&[u8]>) -> Option<bool> {
        let connection = self.connections.get_mut(key.slot).and_then(Option::as_mut);
        let connection = connection.filter(|connection| connection.at.1 == key.number)?;
        let is_taken = connection.reply_later(key.stream, message, &mut self.scratch);
        self.note(key.slot);
        is_taken
    }

    /// Reports connections that were admitted and not made.
    pub fn failed(&mut self, mut each: impl FnMut(ServerEvent)) {
        for (client, end) in self.scratch.failed.drain(..) {
            each(ServerEvent::Ended(client, end.unwrap_or(End::TimedOut)));
        }
    }

    /// Writes the next datagrams of a connection to `buffer`, `most` of them at most.
    pub fn transmit(
        &mut self,
        slot: usize,
        most: usize,
        buffer: &mut Vec<u8>,
        now_ns: u64,
    ) -> Option<Transmission> {
        buffer.clear();
        let connection = self.connections[slot].as_mut()?;
        let transmit = connection.inner.poll_transmit(self.clock.at(now_ns), most, buffer)?;
        buffer.truncate(transmit.size);
        Some(Transmission::from_transmit(&transmit))
    }

    /// Ends the turn of a connection: it waits for its client, or is gone if it ended.
    pub fn rest(&mut self, slot: usize) {
        let Some(connection) = self.connections[slot].as_mut() else { return };
        if connection.has_ended {
            self.connections[slot] = None;
            self.open -= 1;
            self.endpoint.handle_event(ConnectionHandle(slot), EndpointEvent::drained());
        } else if let Some(at) = connection.inner.poll_timeout() {
            self.timers.set(slot, self.clock.ns(at));
        }
    }

    /// When [`Self::expire`] is due; `None` if it never is.
    pub fn next_ns(&self) -> Option<u64> {
        self.timers.next_ns()
    }

    /// Does what is due by now.
    pub fn expire(&mut self, now_ns: u64) {
        while let Some(slot) = self.timers.take_due(now_ns) {
            let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else { continue };
            connection.inner.handle_timeout(self.clock.at(now_ns));
            self.note(slot);
        }
    }

    /// Closes all connections. Pass on what [`Self::transmit`] returns for each of the slots that this returns.
    pub fn close(&mut self, now_ns: u64) -> Vec<(usize, SocketAddr)> {
        let at = self.clock.at(now_ns);
        let mut closed = Vec::new();
        for (slot, connection) in self.connections.iter_mut().enumerate() {
            if let Some(connection) = connection {
                connection.inner.close(at, code::number(code::NO_ERROR), Bytes::new());
                closed.push((slot, connection.client));
            }
        }
        closed
    }
}
