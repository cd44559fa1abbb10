//! Clients' connections (RFC 7766): whole queries are cut out of the bytes received, and replies are joined into few
//! writes, in the order in which they come from back ends. The memory of a connection is bounded, and a connection
//! without progress is closed, as in [`kqps_server::connections`].

mod connection;

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;

use kqps_server::connections::frame::append;
use kqps_server::connections::{
    Accepted, ClientLimits, End, Limits, Listener, Slots, Stream, TcpCounts, TcpReport,
};
use kqps_server::counts::{Cause, Rcodes};
use kqps_server::sockets::ListeningSocket;
use mio::event::{Event, Source as _};
use mio::{Interest, Registry};

use super::queries::Caller;
use super::token::{Source, token};
use connection::Connection;

/// Connections accepted before open connections and datagrams have their turn. Few, since each costs as much as
/// several queries.
const ACCEPTS: usize = 8;

/// The number of idle connections to close when the system has no free descriptor.
const SPARE: usize = 8;

/// Pause before the next accept when closing idle connections freed no descriptor, in nanoseconds.
const PAUSE_NS: u64 = 100_000_000;

/// How often connections without progress are looked for, in nanoseconds.
const LOOK_NS: u64 = 250_000_000;

pub(super) struct TcpClients {
    listeners: Vec<Listener>,
    limits: Limits,
    connections: Slots<Connection>,
    clients: ClientLimits,
    counts: TcpCounts,
    rcodes: Rcodes,
    /// The slots of connections that can go on, and of those that have something to write.
    ready: VecDeque<u32>,
    unwritten: Vec<u32>,
    paused_until_ns: u64,
    look_ns: u64,
}

impl TcpClients {
    /// Accepts connections on these sockets.
    pub(super) fn new(
        listeners: Vec<ListeningSocket>,
        limits: Limits,
        registry: &Registry,
    ) -> io::Result<Self> {
        let watched = |(number, socket)| Listener::new(socket, registry, token(Source::Listener, 0, number));
        Ok(Self {
            listeners: listeners.into_iter().enumerate().map(watched).collect::<io::Result<_>>()?,
            limits,
            connections: Slots::default(),
            clients: ClientLimits::new(limits.per_client),
            counts: TcpCounts::default(),
            rcodes: Rcodes::default(),
            ready: VecDeque::new(),
            unwritten: Vec::new(),
            paused_until_ns: 0,
            look_ns: 0,
        })
    }

    /// Notes that clients may be waiting at this listener.
    pub(super) fn note_listener(&mut self, number: usize) {
        self.listeners[number].waiting = true;
    }

    /// Notes an event of the connection in this slot.
    pub(super) fn note(&mut self, slot: usize, event: &Event) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let may_read = event.is_readable() || event.is_read_closed() || event.is_error();
        connection.is_readable |= may_read && !connection.is_at_end;
        if event.is_writable() {
            connection.is_full = false;
            if connection.written < connection.output.len() && !connection.is_unwritten {
                connection.is_unwritten = true;
                self.unwritten.push(slot as u32);
            }
        }
        self.queue(slot as u32);
    }

    fn queue(&mut self, slot: u32) {
        let Some(connection) = self.connections.get_mut(slot as usize) else { return };
        if !connection.is_queued {
            connection.is_queued = true;
            self.ready.push_back(slot);
        }
    }

    /// When something is due even if no event happens, in nanoseconds; `None` without connections and waiting
    /// clients.
    pub(super) fn due_ns(&self, now_ns: u64) -> Option<u64> {
        if !self.ready.is_empty() {
            return Some(now_ns);
        }
        let is_waiting = self.listeners.iter().any(|listener| listener.waiting);
        let accept_ns = is_waiting.then_some(self.paused_until_ns);
        let look_ns = (!self.connections.is_empty()).then_some(self.look_ns);
        [accept_ns, look_ns].into_iter().flatten().min()
    }

    /// Accepts waiting connections.
    pub(super) fn accept(&mut self, registry: &Registry, now_ns: u64) {
        if now_ns < self.paused_until_ns {
            return;
        }
        for number in 0..self.listeners.len() {
            for _ in 0..ACCEPTS {
                if !self.listeners[number].waiting {
                    break;
                }
                match self.listeners[number].accept() {
                    Accepted::Connection(stream, client) => self.welcome(stream, client, registry, now_ns),
                    Accepted::NoClient => break,
                    // Without room, clients would wait forever, and so would a connection to a back end that must be
                    // opened again.
                    Accepted::NotNow if self.make_room() => {}
                    Accepted::NotNow => {
                        self.paused_until_ns = now_ns + PAUSE_NS;
                        return;
                    }
                }
            }
        }
    }

    fn welcome(&mut self, stream: Stream, client: Option<IpAddr>, registry: &Registry, now_ns: u64) {
        self.counts.connections += 1;
        if client.is_some_and(|client| !self.clients.enter(client)) {
            return self.counts.end(End::Client);
        }
        if self.connections.len() >= self.limits.connections && !self.displace() {
            self.leave(client);
            return self.counts.end(End::Full);
        }
        let slot = self.connections.enter(Connection::new(stream, client, now_ns));
        match self.watch(slot, registry) {
            Ok(()) => self.queue(slot as u32),
            Err(_) => self.end(slot as u32, End::Broken),
        }
    }

    /// Registers the socket of a new connection with the poller.
    fn watch(&mut self, slot: usize, registry: &Registry) -> io::Result<()> {
        let Some(Connection { stream, .. }) = self.connections.get_mut(slot) else { return Ok(()) };
        stream.hold_nothing_back()?;
        stream.register(registry, token(Source::Client, 0, slot), Interest::READABLE | Interest::WRITABLE)
    }

    /// Counts one connection of this client less.
    fn leave(&mut self, client: Option<IpAddr>) {
        if let Some(client) = client {
            self.clients.leave(client);
        }
    }

    /// Closes the connection that has been idle longest. Returns whether there was one.
    fn displace(&mut self) -> bool {
        let longest = self.connections.longest_idle();
        if let Some(slot) = longest {
            self.end(slot as u32, End::Displaced);
        }
        longest.is_some()
    }

    /// Closes some idle connections to free descriptors. Returns whether there were any.
    pub(super) fn make_room(&mut self) -> bool {
        (0..SPARE).filter(|_| self.displace()).count() > 0
    }

    /// The number of connections that can go on now.
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Takes the next connection that can go on. Fills `input` with its kept and newly read bytes. Returns the
    /// connection, the number of bytes, and how many more queries it may have outstanding.
    pub(super) fn read(&mut self, input: &mut [u8]) -> Option<(Caller, usize, usize)> {
        let slot = self.ready.pop_front()?;
        let turn = self.connections.turn(slot as usize);
        let connection = self.connections.get_mut(slot as usize)?;
        connection.is_queued = false;
        match connection.fill(input) {
            Ok(filled) => Some((Caller { slot, turn }, filled, connection.room())),
            Err(end) => {
                self.end(slot, end);
                None
            }
        }
    }

    /// Counts a query of this connection as outstanding.
    pub(super) fn begin(&mut self, caller: Caller, now_ns: u64) {
        self.counts.queries.received += 1;
        if let Some(connection) = self.connection(caller) {
            connection.outstanding += 1;
            connection.active_ns = now_ns;
        }
    }

    /// Keeps the unused rest of the bytes read, unless the client sent something that is not DNS.
    pub(super) fn keep(&mut self, caller: Caller, rest: &[u8], is_dns: bool) {
        let Some(connection) = self.connection(caller) else { return };
        connection.input.clear();
        if is_dns {
            connection.input.extend_from_slice(rest);
        } else {
            (connection.is_refused, connection.is_at_end, connection.is_readable) = (true, true, false);
        }
        if connection.input.is_empty() {
            // An idle connection holds no memory.
            connection.input = Vec::new();
        }
        let goes_on = connection.has_more() && !connection.is_paused();
        if let Some(end) = connection.is_over() {
            self.end(caller.slot, end);
        } else if goes_on {
            self.queue(caller.slot);
        }
    }

    fn connection(&mut self, Caller { slot, turn }: Caller) -> Option<&mut Connection> {
        let is_same = self.connections.turn(slot as usize) == turn;
        self.connections.get_mut(slot as usize).filter(|_| is_same)
    }

    /// Queues a reply for writing, after `restore` has given it the client's ID and question.
    pub(super) fn reply(&mut self, caller: Caller, reply: &[u8], restore: impl FnOnce(&mut [u8])) {
        let Some(connection) = self.connection(caller) else { return self.counts.drop(Cause::ClientGone) };
        connection.outstanding -= 1;
        append(&mut connection.output, reply);
        let start = connection.output.len() - reply.len();
        restore(&mut connection.output[start..]);
        if !connection.is_unwritten {
            connection.is_unwritten = true;
            self.unwritten.push(caller.slot);
        }
        self.counts.queries.answered += 1;
        self.rcodes.add_of(reply);
    }

    /// Counts a query that gets no reply.
    pub(super) fn drop(&mut self, caller: Caller, cause: Cause) {
        self.counts.drop(cause);
        let Some(connection) = self.connection(caller) else { return };
        connection.outstanding -= 1;
        // The connection may have waited only for this query.
        if !connection.is_unwritten {
            connection.is_unwritten = true;
            self.unwritten.push(caller.slot);
        }
    }

    /// Writes replies, as far as the kernel takes them.
    pub(super) fn write(&mut self, now_ns: u64) {
        for slot in std::mem::take(&mut self.unwritten) {
            let Some(connection) = self.connections.get_mut(slot as usize) else { continue };
            connection.is_unwritten = false;
            match connection.write(now_ns) {
                Err(end) => self.end(slot, end),
                Ok(()) => match connection.is_over() {
                    Some(end) => self.end(slot, end),
                    // The connection may have been paused until now.
                    None if !connection.is_paused() && connection.has_more() => self.queue(slot),
                    None => {}
                },
            }
        }
    }

    /// Closes connections without progress.
    pub(super) fn look(&mut self, now_ns: u64) {
        if now_ns < self.look_ns {
            return;
        }
        self.look_ns = now_ns + LOOK_NS;
        let idle_ns = self.limits.idle.as_nanos() as u64;
        let late = |(slot, connection): (usize, &Connection)| {
            // A connection that waits for an answer is not idle; the answer arrives or is given up.
            let is_waiting = connection.outstanding > 0 && connection.output.is_empty();
            let is_late = !is_waiting && now_ns.saturating_sub(connection.active_ns) >= idle_ns;
            let is_read = connection.output.is_empty();
            is_late.then_some((slot as u32, if is_read { End::Idle } else { End::Slow }))
        };
        let late: Vec<(u32, End)> = self.connections.iter().filter_map(late).collect();
        for (slot, end) in late {
            self.end(slot, end);
        }
    }

    fn end(&mut self, slot: u32, end: End) {
        let Some(connection) = self.connections.leave(slot as usize) else { return };
        self.leave(connection.client);
        self.counts.end(end);
    }

    /// The counts so far.
    pub(super) fn report(&self) -> TcpReport {
        TcpReport { response_rcodes: self.rcodes.report(), ..self.counts.report() }
    }

    /// Closes all connections.
    pub(super) fn close(&mut self) {
        while let Some((_, slot)) = self.connections.oldest() {
            self.end(slot as u32, End::Stopped);
        }
    }
}
