//! Clients' connections (RFC 7766): whole queries are cut out of the bytes received, and replies are joined into few
//! writes, in the order in which they come from back ends. The memory of a connection is bounded, and a connection
//! without progress is closed, as in [`kqps_server::connections`].

mod connection;

use std::io;

use kqps_server::connections::{Accepting, End, Keeper, Limits, TcpReport};
use kqps_server::counts::{Cause, Counts, Rcodes};
use kqps_server::sockets::ListeningSocket;
use mio::Registry;
use mio::event::Event;

use super::queries::Caller;
use super::token::{Source, token};
use connection::Connection;

/// Few connections in a turn, since each costs as much as several queries. Several idle ones make room if the system has
/// no free descriptor: waiting clients must not wait forever, nor must a connection to a back end that has to be opened
/// again.
const ACCEPTING: Accepting = Accepting { in_turn: 8, spare: 8, goes_on: true };

/// How often connections without progress are looked for, in nanoseconds.
const LOOK_NS: u64 = 250_000_000;

pub(super) struct TcpClients {
    keeper: Keeper<Connection>,
    /// How long a connection may make no progress.
    idle_ns: u64,
    /// The counts of queries.
    counts: Counts,
    rcodes: Rcodes,
    /// The slots of connections that have something to write.
    unwritten: Vec<u32>,
    look_ns: u64,
}

impl TcpClients {
    /// Accepts connections on these sockets.
    pub(super) fn new(
        listeners: Vec<ListeningSocket>,
        limits: Limits,
        registry: &Registry,
    ) -> io::Result<Self> {
        let first = token(Source::Client, 0, 0);
        Ok(Self {
            keeper: Keeper::new(listeners, limits, ACCEPTING, registry, first)?,
            idle_ns: limits.idle_ns(),
            counts: Counts::default(),
            rcodes: Rcodes::default(),
            unwritten: Vec::new(),
            look_ns: 0,
        })
    }

    /// Notes an event of a listening socket or a connection, by the keeper's number for it.
    pub(super) fn note(&mut self, place: usize, event: &Event) {
        let Some((slot, connection)) = self.keeper.note(place) else { return };
        let may_read = event.is_readable() || event.is_read_closed() || event.is_error();
        connection.is_readable |= may_read && !connection.is_at_end;
        if event.is_writable() {
            connection.is_full = false;
            if !connection.output.is_empty() && !connection.is_unwritten {
                connection.is_unwritten = true;
                self.unwritten.push(u32::try_from(slot).expect("slots have 32 bits"));
            }
        }
    }

    /// When something is due even if no event happens, in nanoseconds; `None` without connections and waiting
    /// clients.
    pub(super) fn due_ns(&self, now_ns: u64) -> Option<u64> {
        let look_ns = (!self.keeper.connections.is_empty()).then_some(self.look_ns);
        [self.keeper.due_ns(now_ns), look_ns].into_iter().flatten().min()
    }

    /// Accepts waiting connections.
    pub(super) fn accept(&mut self, registry: &Registry, now_ns: u64) {
        self.keeper.accept(registry, now_ns);
    }

    /// Closes some idle connections to free descriptors.
    pub(super) fn make_room(&mut self) {
        self.keeper.make_room();
    }

    /// The number of connections that can go on now.
    pub(super) fn ready(&self) -> usize {
        self.keeper.ready()
    }

    /// Takes the next connection that can go on. Fills `input` with its kept and newly read bytes. Returns the
    /// connection, the number of bytes, and how many more queries it may have outstanding.
    pub(super) fn read(&mut self, input: &mut [u8]) -> Option<(Caller, usize, usize)> {
        let slot = self.keeper.next_ready()?;
        let turn = self.keeper.connections.turn(slot);
        let connection = self.keeper.connections.get_mut(slot)?;
        match connection.fill(input) {
            Ok(filled) => {
                let slot = u32::try_from(slot).expect("slots have 32 bits");
                Some((Caller { slot, turn }, filled, connection.room()))
            }
            Err(end) => {
                self.keeper.end(slot, end);
                None
            }
        }
    }

    /// Counts a query of this connection as outstanding.
    pub(super) fn begin(&mut self, caller: Caller, now_ns: u64) {
        self.counts.received += 1;
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
            self.keeper.end(caller.slot as usize, end);
        } else if goes_on {
            self.keeper.queue(caller.slot as usize);
        }
    }

    fn connection(&mut self, Caller { slot, turn }: Caller) -> Option<&mut Connection> {
        let connections = &mut self.keeper.connections;
        let is_same = connections.turn(slot as usize) == turn;
        connections.get_mut(slot as usize).filter(|_| is_same)
    }

    /// Queues a reply for writing, after `restore` has given it the client's ID and question.
    pub(super) fn reply(&mut self, caller: Caller, reply: &[u8], restore: impl FnOnce(&mut [u8])) {
        let Some(connection) = self.connection(caller) else { return self.counts.drop(Cause::ClientGone) };
        connection.outstanding -= 1;
        restore(connection.output.append(reply));
        if !connection.is_unwritten {
            connection.is_unwritten = true;
            self.unwritten.push(caller.slot);
        }
        self.counts.answered += 1;
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
            let slot = slot as usize;
            let Some(connection) = self.keeper.connections.get_mut(slot) else { continue };
            connection.is_unwritten = false;
            match connection.write(now_ns) {
                Err(end) => self.keeper.end(slot, end),
                Ok(()) => match connection.is_over() {
                    Some(end) => self.keeper.end(slot, end),
                    // The connection may have been paused until now.
                    None if !connection.is_paused() && connection.has_more() => self.keeper.queue(slot),
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
        let idle_ns = self.idle_ns;
        let late = |(slot, connection): (usize, &Connection)| {
            // A connection that waits for an answer is not idle; the answer arrives or is given up.
            let is_waiting = connection.outstanding > 0 && connection.output.is_empty();
            let is_late = !is_waiting && now_ns.saturating_sub(connection.active_ns) >= idle_ns;
            is_late.then_some((slot, connection.output.end_in_time()))
        };
        let late: Vec<(usize, End)> = self.keeper.connections.iter().filter_map(late).collect();
        for (slot, end) in late {
            self.keeper.end(slot, end);
        }
    }

    /// The counts so far.
    pub(super) fn report(&self) -> TcpReport {
        TcpReport { response_rcodes: self.rcodes.report(), ..self.keeper.report(&self.counts) }
    }

    /// Closes all connections.
    pub(super) fn close(&mut self) {
        self.keeper.close();
    }
}
