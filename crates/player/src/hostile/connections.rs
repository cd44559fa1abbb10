//! Connections of TCP that attackers make: idle ones, those with half a query or a slow one, handshakes of TLS, resets,
//! and streams of HTTP/2 that are reset as soon as they are opened.

mod events;
mod streams;

use std::io;

use kqps_catalogue::Hostile;
use kqps_catalogue::choice::Close;
use kqps_dataset::Dataset;
use kqps_kernel::epoll::{Epoll, Interest, Ready};
use kqps_kernel::tcp_client::TcpClient;
use kqps_quic::Timers;
use kqps_tls::Connector;

use super::Own;
use super::attempts::Attack;
use super::connection::{Connection, Stage};
use super::counts::HostileCounts;
use super::key::key;
use super::queries::Queries;
use crate::connections::Ending;
use crate::loss::{Loss, by_error};
use crate::plan::{HttpPlan, TcpPlan};

/// Descriptors that one look returns at most.
const EVENTS: usize = 256;

/// Room for the bytes of one read, and for the beginning of a record before them.
const READ_BYTES: usize = 1 << 18;

/// The time between two bytes of a slow query, nanoseconds.
const BYTE_NS: u64 = 1_000_000_000;

/// The connections of one thread.
pub(super) struct Connections<'a> {
    own: Own<'a>,
    tcp: &'a TcpPlan,
    http: Option<&'a HttpPlan>,
    /// Makers of TLS, by target; empty without TLS.
    connectors: Vec<Connector>,
    queries: Queries<'a>,
    epoll: Epoll,
    ready: Vec<Ready>,
    places: Box<[Place]>,
    /// Places without a connection; not in use for streams, which take places in turn.
    free: Vec<usize>,
    timers: Timers,
    /// Connections begun so far.
    begun: usize,
    /// The place of the next stream.
    turn: usize,
    counts: HostileCounts,
    buffer: Box<[u8]>,
    /// Bytes that arrived, without TLS, and room for a stream.
    plain: Vec<u8>,
    room: Vec<u8>,
}

/// A place for one connection after the other.
#[derive(Default)]
struct Place {
    connection: Option<Connection>,
    /// How many connections it had. An event of an earlier one is not of the present one.
    generation: u32,
    /// Until when no connection is made here, since the last one could not be.
    paused_until_ns: u64,
}

impl<'a> Connections<'a> {
    /// No connections yet.
    pub(super) fn new(
        own: &Own<'a>,
        tcp: &'a TcpPlan,
        connectors: Vec<Connector>,
        dataset: &'a Dataset,
    ) -> io::Result<Self> {
        Ok(Self {
            own: *own,
            tcp,
            http: tcp.tls.as_ref().and_then(|tls| tls.http.as_ref()),
            queries: Queries::new(dataset),
            epoll: Epoll::new(EVENTS)?,
            ready: Vec::with_capacity(EVENTS),
            places: (0..own.places).map(|_| Place::default()).collect(),
            free: (0..own.places).rev().collect(),
            timers: Timers::default(),
            begun: 0,
            turn: 0,
            counts: HostileCounts::new(own.kind, !connectors.is_empty()),
            connectors,
            buffer: vec![0; READ_BYTES].into(),
            plain: Vec::new(),
            room: Vec::new(),
        })
    }

    fn kind(&self) -> Hostile {
        self.own.kind
    }

    fn timeout_ns(&self) -> u64 {
        self.tcp.connect_timeout.as_nanos() as u64
    }

    /// Begins a connection at a free place.
    fn connect(&mut self, at: usize, now_ns: u64) {
        let number = self.begun;
        self.begun += 1;
        self.counts.facts.connections.begun += 1;
        match self.connecting(at, number) {
            Ok((socket, target)) => {
                self.places[at].connection = Some(Connection::new(socket, target, now_ns));
                self.schedule(at);
            }
            Err(error) => {
                self.counts.failed(by_error(&error));
                self.pause(at, now_ns);
                self.give_back(at);
            }
        }
    }

    /// The socket of connection `number`, whose events come under the key of a place, and the number of its target.
    fn connecting(&mut self, at: usize, number: usize) -> io::Result<(TcpClient, usize)> {
        let (target, to) = self.own.target(number);
        let socket = TcpClient::bound(to, self.own.source(number))?;
        if let Some(bytes) = self.tcp.buffer_bytes {
            socket.set_buffers(bytes)?;
        }
        if self.kind() == Hostile::Reset {
            socket.close_by_reset()?;
        }
        socket.begin(to)?;
        self.epoll.watch(&socket, self.key(at), Interest::Both)?;
        Ok((socket, target))
    }

    /// The key of the events of a place's connection.
    fn key(&self, at: usize) -> u64 {
        key(at, self.places[at].generation)
    }

    fn give_back(&mut self, at: usize) {
        self.places[at].generation = self.places[at].generation.wrapping_add(1);
        if self.kind().is_connection() {
            self.free.push(at);
        }
    }

    /// Takes the connection off a place, which is then free. Streams that have not left are cut off.
    fn take(&mut self, at: usize) -> Option<Connection> {
        let connection = self.places[at].connection.take()?;
        self.give_back(at);
        if let Some(streams) = &mut self.counts.facts.streams {
            streams.cut_off += connection.cut_off();
        }
        Some(connection)
    }

    /// Sets when something is due at a place.
    fn schedule(&mut self, at: usize) {
        let timeout_ns = self.timeout_ns();
        let connection = self.places[at].connection.as_ref();
        if let Some(due_ns) = connection.and_then(|connection| connection.due_ns(timeout_ns)) {
            self.timers.set(at, due_ns);
        }
    }

    /// An attempt to connect failed.
    fn failed(&mut self, at: usize, loss: Loss, now_ns: u64) {
        self.counts.failed(loss);
        self.take(at);
        self.pause(at, now_ns);
    }

    /// A connection ended, and not by the player.
    fn ended(&mut self, at: usize, ending: Ending, now_ns: u64) {
        let Some(connection) = self.take(at) else { return };
        if connection.stage == Stage::Handshaking {
            self.counts.handshake_failed(Ending::NAMES[ending.number()]);
            self.pause(at, now_ns);
        }
        self.counts.ended(ending, now_ns.saturating_sub(connection.connected_ns));
    }

    /// Closes a connection that is of no use any more.
    fn close(&mut self, at: usize) {
        if let Some(connection) = self.take(at) {
            self.counts.facts.connections.closed_by_player += 1;
            self.close_as_planned(&connection);
        }
    }

    fn close_as_planned(&self, connection: &Connection) {
        if self.tcp.close == Close::Rst {
            // If it fails, the connection ends by FIN.
            let _ = connection.socket.close_by_reset();
        }
    }

    /// Does what is due at a place: its attempt has taken too long, or another byte of its query leaves.
    fn due(&mut self, at: usize, now_ns: u64) {
        let timeout_ns = self.timeout_ns();
        let Some(connection) = &self.places[at].connection else { return };
        let is_due = connection.due_ns(timeout_ns).is_some_and(|due_ns| due_ns <= now_ns);
        match connection.stage {
            _ if !is_due => {}
            Stage::Connecting => return self.failed(at, Loss::ConnectTimeout, now_ns),
            Stage::Handshaking => {
                self.counts.handshake_failed("time");
                self.pause(at, now_ns);
                return self.close(at);
            }
            Stage::Open => self.send_byte(at, now_ns),
        }
        self.schedule(at);
    }

    /// Sends the next byte of a slow query.
    fn send_byte(&mut self, at: usize, now_ns: u64) {
        let Some(connection) = &mut self.places[at].connection else { return };
        let Some(byte) = connection.slow.pop_front() else { return };
        connection.next_byte_ns = now_ns + BYTE_NS;
        let pushed = connection.push(&[byte]);
        self.pushed(at, pushed, now_ns);
    }
}

impl Attack for Connections<'_> {
    fn begin(&mut self, now_ns: u64) -> bool {
        if !self.kind().is_connection() {
            return self.begin_stream(now_ns);
        }
        let Some(at) = self.free.pop() else { return false };
        self.connect(at, now_ns);
        true
    }

    fn watched(&mut self) -> (&mut Epoll, &mut Vec<Ready>) {
        (&mut self.epoll, &mut self.ready)
    }

    fn happened(&mut self, event: Ready) {
        self.handle(event);
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
        self.places.iter().filter_map(|place| place.connection.as_ref()).all(Connection::is_settled)
    }

    fn finish(mut self) -> HostileCounts {
        for at in 0..self.places.len() {
            let Some(connection) = self.take(at) else { continue };
            let facts = &mut self.counts.facts;
            match connection.stage {
                Stage::Connecting => facts.connections.connecting += 1,
                Stage::Handshaking | Stage::Open => facts.connections.held += 1,
            }
            if let Some(handshakes) = &mut facts.handshakes {
                handshakes.under_way += u64::from(connection.stage == Stage::Handshaking);
            }
            self.close_as_planned(&connection);
        }
        self.counts
    }
}
