//! The places for a thread's connections, one for each flow of the books: what is written and read there, and what
//! becomes of the queries of a connection when it ends.

mod making;
mod writes;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use kqps_kernel::epoll::{Epoll, Interest, Ready};

use super::connection::Connection;
use super::frame::append;
use super::layer::{Arrived, Broken, Buffers, Fault, Layer, Rest};
use super::ports::Ports;
use crate::books::Due;
use crate::connections::{ConnectionCounts, Ending};
use crate::loss::Loss;
use crate::plan::{Close, Plan, TcpPlan};
use crate::share::capacity;
use crate::state::ThreadState;
use making::pause_ns;
use writes::Writes;

/// Descriptors that one look returns at most.
const EVENTS: usize = 256;

/// Reads of one connection in one look: together more than its receive buffer holds (`tcp_rmem`, usually 6 MiB).
const READS_MOST: u32 = 32;

/// A place takes no more queries while it has more bytes than this that the kernel has not taken.
const OUTPUT_MOST: usize = 1 << 16;

/// Places that one call checks for connections whose last queries were lost, or whose streams were. With more of them a
/// call would take longer than a query may be late.
const CLOSED_AT_ONCE: usize = 4096;

/// How long a connection without queries waits for its server's ticket, nanoseconds.
const TICKET_WAIT_NS: u64 = 100_000_000;

/// The places for the connections of one thread, with a layer between messages and bytes.
pub(crate) struct Places<L: Layer> {
    places: Box<[Place<L>]>,
    /// What the layers share.
    shared: L::Shared,
    epoll: Epoll,
    ready: Vec<Ready>,
    /// When something is due at a place: a failed connection is tried again, or an attempt has taken too long.
    timers: BinaryHeap<Reverse<(u64, usize)>>,
    /// The place where the next check for connections without further queries begins.
    next_to_close: usize,
    buffers: Buffers,
    /// What deals ports to connections that are closed again; `None` if the kernel chooses them.
    ports: Option<Ports>,
    /// How many queries use a connection, or stand for it, before it is closed.
    uses_of_connection: Option<u32>,
    /// Whether connections alone are the load.
    has_connections_alone: bool,
    /// Whether such a connection stays open until it has a ticket, with which a later one resumes its session. A server
    /// that sends none ends this.
    awaits_tickets: bool,
    close: Close,
    connect_timeout: Duration,
    counts: ConnectionCounts,
}

/// A place for one connection after the other.
struct Place<L> {
    /// The number of its target.
    target: usize,
    to: SocketAddr,
    from: Option<IpAddr>,
    connection: Option<Connection<L>>,
    /// Bytes of queries that were handed to the place and not yet to the kernel.
    output: Vec<u8>,
    /// Failed attempts in a row.
    failures: u32,
    /// When the next attempt may begin; `None` if it may at once.
    paused_until_ns: Option<u64>,
    /// The ID of the query that stands for the connection that is being made, if connections alone are the load.
    stands_for: Option<u16>,
    writes: Writes,
}

impl<L: Layer> Places<L> {
    /// Places for `flows` connections, of which `first` is the number of the first among all.
    pub(super) fn new(
        plan: &Plan,
        tcp: &TcpPlan,
        shared: L::Shared,
        first: usize,
        flows: usize,
    ) -> io::Result<Self> {
        let alone = tcp.has_connections_alone();
        let settle = plan.timeout + plan.drain;
        let slots = if alone { 1 } else { capacity(plan.load, plan.timeout, settle, plan.flows()) };
        let ports = tcp.queries_per_connection.map(|_| Ports::new(plan, first..first + flows));
        let counts = ConnectionCounts {
            tls: L::counts(),
            ports: ports.as_ref().map_or(0, Ports::of_each_address) as u64,
            ..ConnectionCounts::default()
        };
        let place = |number: usize| Place {
            target: number % plan.targets.len(),
            to: plan.targets[number % plan.targets.len()],
            from: plan.local.map(|local| local.of_socket(number)),
            connection: None,
            output: Vec::new(),
            failures: 0,
            paused_until_ns: None,
            stands_for: None,
            writes: Writes::new(slots),
        };
        Ok(Self {
            places: (first..first + flows).map(place).collect(),
            shared,
            epoll: Epoll::new(EVENTS)?,
            ready: Vec::with_capacity(EVENTS),
            timers: BinaryHeap::new(),
            next_to_close: 0,
            buffers: Buffers::new(),
            ports,
            uses_of_connection: tcp.uses_of_connection(),
            has_connections_alone: alone,
            awaits_tickets: alone && tcp.tls.as_ref().is_some_and(|tls| tls.client.resume),
            close: tcp.close,
            connect_timeout: tcp.connect_timeout,
            counts,
        })
    }

    /// Hands queries to a place: they leave at once if its connection is open, and as soon as it is open otherwise.
    #[inline]
    pub(super) fn hand(
        &mut self,
        state: &mut ThreadState<'_>,
        flow: usize,
        burst: &[Due],
        now_ns: u64,
    ) -> io::Result<()> {
        self.counts.handed += burst.len() as u64;
        let place = &mut self.places[flow];
        if self.has_connections_alone {
            place.stands_for = burst.first().map(|due| due.key);
            self.connect(state, flow, now_ns);
            return Ok(());
        }
        let was_idle = state.books.unsettled_of(flow) as usize == burst.len();
        if let Some(connection) = place.connection.as_mut().filter(|one| was_idle && one.is_open) {
            connection.idle_at_bytes = Some(connection.written_bytes);
        }
        for due in burst {
            append(&mut place.output, state.supply.query(due.query).message, due.key);
        }
        place.writes.handed(burst, now_ns);
        state.books.block(flow, place.output.len() > OUTPUT_MOST);
        let can_connect = place.connection.is_none() && place.paused_until_ns.is_none();
        let has_room = place.connection.as_ref().is_some_and(|one| one.is_open && !one.awaits_room);
        if has_room {
            self.flush(state, flow, now_ns)?;
        } else if can_connect {
            self.connect(state, flow, now_ns);
        }
        self.places[flow].writes.keep_unwritten(burst);
        Ok(())
    }

    /// An open connection ended. The next one may begin at once, unless the last ones gave no reply.
    fn ended(&mut self, state: &mut ThreadState<'_>, flow: usize, ending: Ending, now_ns: u64) {
        self.counts.closed[ending.number()] += 1;
        let loss = ending.loss();
        let place = &mut self.places[flow];
        if ending == Ending::GoAway
            && let Some(connection) = &mut place.connection
        {
            connection.part(false);
        }
        if ending != Ending::Player && !self.has_connections_alone {
            place.failures += 1;
            if place.failures > 1 {
                let until_ns = now_ns + pause_ns(place.failures - 2);
                place.paused_until_ns = Some(until_ns);
                self.timers.push(Reverse((until_ns, flow)));
            }
        }
        self.clear(state, flow, loss, now_ns);
    }

    /// Empties a place. Its open queries are lost, and it takes as many queries as a new connection.
    fn clear(&mut self, state: &mut ThreadState<'_>, flow: usize, loss: Loss, now_ns: u64) {
        let place = &mut self.places[flow];
        if let Some(connection) = place.connection.take() {
            self.counts.retransmitted += connection.retransmitted();
        }
        place.output.clear();
        place.writes.clear();
        place.stands_for = None;
        state.books.broken(flow, loss, now_ns);
        state.books.block(flow, false);
        if let Some(uses) = self.uses_of_connection {
            state.books.allow(flow, uses);
        }
    }

    /// The layer of a connection failed, which ends the connection or its attempt.
    fn layer_failed(&mut self, state: &mut ThreadState<'_>, flow: usize, fault: &Fault, now_ns: u64) {
        if let (Some(tls), Fault::Tls(failure)) = (&mut self.counts.tls, fault) {
            tls.failed(failure);
        }
        let Some(connection) = &mut self.places[flow].connection else { return };
        connection.part(true);
        if connection.is_open {
            self.ended(state, flow, fault.ending(), now_ns);
        } else {
            self.failed(state, flow, fault.loss(), now_ns);
        }
    }

    /// Writes what the kernel takes.
    #[inline]
    fn flush(&mut self, state: &mut ThreadState<'_>, flow: usize, now_ns: u64) -> io::Result<()> {
        let Place { connection: Some(connection), output, writes, .. } = &mut self.places[flow] else {
            return Ok(());
        };
        // Queries that waited are written later than this turn began.
        let at_ns = if writes.has_unwritten() { state.now_ns() } else { now_ns };
        let outgoing = match connection.layer.outgoing(output, now_ns) {
            Ok(outgoing) => outgoing,
            Err(fault) => {
                self.layer_failed(state, flow, &fault, now_ns);
                return Ok(());
            }
        };
        while !outgoing.is_empty() {
            match connection.socket.write(outgoing) {
                Ok(0) => break,
                Ok(taken) => {
                    connection.written_bytes += taken as u64;
                    drop(outgoing.drain(..taken));
                }
                // What the subject sent before it closed the connection may still be read. The write took the
                // socket's error, so that a read then finds only the end.
                Err(error) => {
                    let broken = (error.kind() != io::ErrorKind::BrokenPipe).then_some(Ending::Reset);
                    return self.read(state, flow, broken, now_ns);
                }
            }
        }
        let waiting = outgoing.len();
        // If records of TLS wait, it is not known which queries are in them.
        let unwritten = if output.is_empty() && waiting > 0 { u64::MAX } else { output.len() as u64 };
        writes.written(unwritten, at_ns);
        connection.layer.each_lost(|key, loss| state.books.lost(flow, key, loss, now_ns));
        let is_full = waiting.max(output.len()) > OUTPUT_MOST;
        state.books.block(flow, is_full || !connection.layer.takes_more());
        let awaits_room = waiting > 0;
        if awaits_room != connection.awaits_room {
            connection.awaits_room = awaits_room;
            let interest = if awaits_room { Interest::Both } else { Interest::Read };
            self.epoll.change(&connection.socket, flow as u64, interest)?;
        }
        Ok(())
    }

    /// Looks at the connections, and waits for `most_ns` at most until something happens at one of them. Returns
    /// whether a reply came, or a connection was made or ended.
    pub(super) fn look(&mut self, state: &mut ThreadState<'_>, mut most_ns: Option<u64>) -> io::Result<bool> {
        let mut happened = false;
        let mut rounds_left = 1 + self.places.len() / EVENTS;
        loop {
            rounds_left -= 1;
            self.ready.clear();
            self.ready.extend(self.epoll.wait_for(most_ns)?);
            let now_ns = state.now_ns();
            for index in 0..self.ready.len() {
                happened = true;
                let ready = self.ready[index];
                self.handle(state, ready, now_ns)?;
            }
            if self.ready.len() < EVENTS || rounds_left == 0 {
                return Ok(happened);
            }
            most_ns = Some(0);
        }
    }

    #[inline]
    fn handle(&mut self, state: &mut ThreadState<'_>, ready: Ready, now_ns: u64) -> io::Result<()> {
        let flow = ready.key as usize;
        let Some(connection) = &self.places[flow].connection else { return Ok(()) };
        if connection.connected_ns.is_none() && !self.connected(state, flow, ready, now_ns) {
            return Ok(());
        }
        if ready.writable {
            self.flush(state, flow, now_ns)?;
            if self.has_connections_alone {
                self.close_if_spent(state, flow, now_ns)?;
            }
        }
        if ready.readable {
            self.read(state, flow, None, now_ns)?;
        }
        Ok(())
    }

    /// Reads what has arrived; of a flood as much as a receive buffer holds, so that other connections have their turn.
    /// `broken` is how a write found that the connection had ended, if one did.
    fn read(
        &mut self,
        state: &mut ThreadState<'_>,
        flow: usize,
        broken: Option<Ending>,
        now_ns: u64,
    ) -> io::Result<()> {
        let place = &mut self.places[flow];
        let Some(connection) = &mut place.connection else { return Ok(()) };
        let counts = &mut self.counts;
        let tickets = self.awaits_tickets.then(|| L::tickets(&self.shared, place.target));
        let (mut reads, mut fault) = (0, None);
        let ending = loop {
            reads += 1;
            let mut replies = 0;
            let rest = connection.layer.read(&connection.socket, &mut self.buffers, |arrived, arrived_ns| {
                replies += 1;
                let at_ns = state.clock.arrival_ns(arrived_ns, now_ns);
                let reply = match arrived {
                    Arrived::Message(reply) => reply,
                    Arrived::Wrong { key, cause } => return state.books.wrong(flow, key, cause, at_ns),
                };
                let Some((key, latency_ns)) = state.books.replied(flow, reply, at_ns) else { return };
                counts.write_to_reply.record_us(place.writes.stamps.since_us(key, at_ns));
                if place.writes.stamps.is_first(key) {
                    counts.first_query.record_us(latency_ns / 1000);
                }
            });
            connection.layer.each_lost(|key, loss| state.books.lost(flow, key, loss, now_ns));
            if replies > 0 {
                place.failures = 0;
            }
            match rest {
                Ok(Rest::More) if reads < READS_MOST || broken.is_some() => {}
                Ok(Rest::More | Rest::Nothing) => break broken,
                Ok(Rest::GoneAway) => break broken.or(Some(Ending::GoAway)),
                Ok(Rest::End) if broken.is_some() => break broken,
                Ok(Rest::End) if state.books.unsettled_of(flow) == 0 => break Some(Ending::Idle),
                Ok(Rest::End) => break Some(connection.closed_with_open_queries()),
                Err(Broken::Socket) => break Some(Ending::Reset),
                Err(Broken::Layer(found)) => {
                    fault = Some(found);
                    break None;
                }
            }
        };
        connection.has_ticket |=
            tickets.is_some_and(|before| L::tickets(&self.shared, place.target) > before);
        self.go_on(state, flow, ending, fault.as_ref(), now_ns)
    }

    /// Goes on after a read: the connection has opened, ended, or waits for more.
    #[inline]
    fn go_on(
        &mut self,
        state: &mut ThreadState<'_>,
        flow: usize,
        ending: Option<Ending>,
        fault: Option<&Fault>,
        now_ns: u64,
    ) -> io::Result<()> {
        let has_opened = self.open_if_ready(state, flow, now_ns);
        if let Some(fault) = fault {
            self.layer_failed(state, flow, fault, now_ns);
            return Ok(());
        }
        let Some(connection) = &self.places[flow].connection else { return Ok(()) };
        match ending {
            Some(ending) if connection.is_open => self.ended(state, flow, ending, now_ns),
            // Its handshake was not complete.
            Some(ending) => self.failed(state, flow, ending.loss(), now_ns),
            None => {
                if has_opened || connection.layer.has_own_bytes() {
                    self.flush(state, flow, now_ns)?;
                }
                self.close_if_spent(state, flow, now_ns)?;
            }
        }
        Ok(())
    }

    /// Closes a connection that had all of its queries, once their fates are settled.
    fn close_if_spent(&mut self, state: &mut ThreadState<'_>, flow: usize, now_ns: u64) -> io::Result<()> {
        let is_in_use = state.books.left_of(flow) > 0 || state.books.unsettled_of(flow) > 0;
        if is_in_use || self.waits_for_ticket(flow, now_ns) {
            return Ok(());
        }
        if let Some(connection) = &mut self.places[flow].connection {
            if self.close == Close::Rst {
                connection.socket.close_by_reset()?;
            }
            if connection.is_open {
                if self.close == Close::Fin {
                    connection.part(false);
                }
                self.ended(state, flow, Ending::Player, now_ns);
            }
        }
        Ok(())
    }

    /// Whether a connection without queries stays open for its server's ticket.
    fn waits_for_ticket(&mut self, flow: usize, now_ns: u64) -> bool {
        let connection = self.places[flow].connection.as_ref().filter(|_| self.awaits_tickets);
        let Some(connection) = connection.filter(|one| one.is_open && !one.has_ticket) else { return false };
        self.awaits_tickets = now_ns < connection.opened_ns + TICKET_WAIT_NS;
        self.awaits_tickets
    }

    /// Does what is due: tries failed connections again if queries wait for them or they are kept, gives up attempts
    /// that took too long, and closes connections whose last queries were lost. `is_loading` is whether the load runs.
    pub(super) fn tend(
        &mut self,
        state: &mut ThreadState<'_>,
        now_ns: u64,
        is_loading: bool,
    ) -> io::Result<()> {
        while let Some(&Reverse((due_ns, flow))) = self.timers.peek() {
            if due_ns > now_ns {
                break;
            }
            self.timers.pop();
            self.timer(state, flow, now_ns, is_loading);
        }
        if L::HAS_STREAMS || self.uses_of_connection.is_some() {
            for _ in 0..self.places.len().min(CLOSED_AT_ONCE) {
                let flow = self.next_to_close;
                self.next_to_close = if flow + 1 == self.places.len() { 0 } else { flow + 1 };
                if L::HAS_STREAMS {
                    self.tend_streams(state, flow, now_ns)?;
                }
                self.close_if_spent(state, flow, now_ns)?;
            }
        }
        Ok(())
    }

    /// Gives up streams that have waited too long, and closes a connection whose peer goes away if none are left.
    fn tend_streams(&mut self, state: &mut ThreadState<'_>, flow: usize, now_ns: u64) -> io::Result<()> {
        let is_due = |one: &mut Connection<L>| one.is_open && !one.awaits_room && one.layer.is_due(now_ns);
        if self.places[flow].connection.as_mut().is_some_and(is_due) {
            self.flush(state, flow, now_ns)?;
        }
        let has_gone_away = |one: &Connection<L>| one.is_open && one.layer.has_gone_away();
        if self.places[flow].connection.as_ref().is_some_and(has_gone_away) {
            self.ended(state, flow, Ending::GoAway, now_ns);
        }
        Ok(())
    }

    fn timer(&mut self, state: &mut ThreadState<'_>, flow: usize, now_ns: u64, is_loading: bool) {
        let timeout_ns = self.connect_timeout.as_nanos() as u64;
        let place = &mut self.places[flow];
        match &place.connection {
            Some(connection)
                if !connection.is_open
                    && connection.began_ns.saturating_add(timeout_ns) <= state.clock.clock_ns(now_ns) =>
            {
                self.failed(state, flow, Loss::ConnectTimeout, now_ns);
            }
            None if place.paused_until_ns.is_some_and(|until_ns| until_ns <= now_ns) => {
                place.paused_until_ns = None;
                let is_kept = self.uses_of_connection.is_none();
                if !place.output.is_empty() || (is_kept && is_loading) {
                    self.connect(state, flow, now_ns);
                }
            }
            _ => {}
        }
    }

    /// How long until something is due, nanoseconds.
    pub(super) fn next_timer_ns(&self, now_ns: u64) -> Option<u64> {
        self.timers.peek().map(|&Reverse((due_ns, _))| due_ns.saturating_sub(now_ns))
    }

    /// The counts, once the trial is over. Ends all connections.
    pub(super) fn finish(&mut self) -> ConnectionCounts {
        let mut counts = std::mem::take(&mut self.counts);
        L::finish(&self.shared, &mut counts);
        for mut connection in self.places.iter_mut().filter_map(|place| place.connection.take()) {
            let count = if connection.is_open { &mut counts.open } else { &mut counts.unfinished };
            *count += 1;
            counts.retransmitted += connection.retransmitted();
            if self.close == Close::Rst {
                // If it fails, the port stays in TIME_WAIT.
                let _ = connection.socket.close_by_reset();
            } else if connection.is_open {
                connection.part(false);
            }
        }
        counts
    }
}
