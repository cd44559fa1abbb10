//! All connections of a process: which are accepted, which runs next, which is closed.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use kqps_kernel::clock;
use mio::{Events, Poll, Token, Waker};

use super::Limits;
use super::client_limits::ClientLimits;
use super::connection::{Connection, Scratch, Turn};
use super::counts::{End, TcpReport};
use super::listener::{Accepted, Listener};
use super::slots::Slots;
use super::stream::Stream;
use crate::answer::Answer;
use crate::sockets::ListeningSocket;
use crate::worker::StopFlag;

/// Events per call.
const EVENTS: usize = 1024;

/// Connections accepted before open connections have their turn.
const ACCEPTS: usize = 64;

/// Pause before the next accept when the system has no free descriptor, in nanoseconds.
const PAUSE_NS: u64 = 100_000_000;

/// The connections, and what they share. A connection is known by its slot. Its token is the slot plus the
/// number of listeners, plus one for the waker.
pub(super) struct ConnectionLoop<A: Answer> {
    poll: Poll,
    listeners: Vec<Listener>,
    limits: Limits,
    connections: Slots<Connection<A::Many>>,
    clients: ClientLimits,
    /// The slots of connections that can go on.
    ready: VecDeque<usize>,
    paused_until_ns: u64,
    scratch: Scratch<A>,
}

impl<A: Answer> ConnectionLoop<A> {
    pub(super) fn new(
        listeners: Vec<ListeningSocket>,
        limits: Limits,
        answer: A,
    ) -> io::Result<(Self, Arc<Waker>)> {
        let poll = Poll::new()?;
        let listeners = listeners
            .into_iter()
            .enumerate()
            .map(|(number, socket)| Listener::new(socket, poll.registry(), Token(number)))
            .collect::<io::Result<Vec<_>>>()?;
        let waker = Arc::new(Waker::new(poll.registry(), Token(listeners.len()))?);
        let connections = Self {
            poll,
            listeners,
            limits,
            connections: Slots::default(),
            clients: ClientLimits::new(limits.per_client),
            ready: VecDeque::new(),
            paused_until_ns: 0,
            scratch: Scratch::new(answer),
        };
        Ok((connections, waker))
    }

    /// Serves until it is stopped.
    pub(super) fn serve(&mut self, stop: &StopFlag) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        let mut now_ns = clock::now_ns();
        while !stop.is_set() {
            match self.poll.poll(&mut events, self.timeout(now_ns)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                Err(_) => events.clear(),
                Ok(()) => {}
            }
            now_ns = clock::now_ns();
            self.note(&events);
            self.accept(now_ns);
            for _ in 0..self.ready.len() {
                let Some(slot) = self.ready.pop_front() else { break };
                self.turn(slot, now_ns);
            }
            self.look(now_ns);
        }
        Ok(())
    }

    /// How long to wait for events before something is due; `None` for ever.
    fn timeout(&self, now_ns: u64) -> Option<Duration> {
        let waiting = self.listeners.iter().any(|listener| listener.waiting);
        let accept_ns = waiting.then_some(self.paused_until_ns);
        let ready_ns = (!self.ready.is_empty()).then_some(now_ns);
        let idle_ns = self.limits.idle_ns();
        let due_ns = self.connections.oldest().map(|(active_ns, _)| active_ns.saturating_add(idle_ns));
        let next_ns = [accept_ns, ready_ns, due_ns].into_iter().flatten().min()?;
        let left = Duration::from_nanos(next_ns.saturating_sub(now_ns));
        // Polling has a resolution of 1 ms. Rounded down, it would return too early, again and again.
        Some(if left.is_zero() { left } else { left + Duration::from_millis(1) })
    }

    fn note(&mut self, events: &Events) {
        for event in events {
            let Token(token) = event.token();
            if let Some(listener) = self.listeners.get_mut(token) {
                listener.waiting = true;
                continue;
            }
            let Some(slot) = token.checked_sub(self.listeners.len() + 1) else { continue };
            let Some(connection) = self.connections.get_mut(slot) else { continue };
            connection.note(event.is_readable(), event.is_read_closed() || event.is_error());
            self.queue(slot);
        }
    }

    fn accept(&mut self, now_ns: u64) {
        if now_ns < self.paused_until_ns {
            return;
        }
        for number in 0..self.listeners.len() {
            for _ in 0..ACCEPTS {
                if !self.listeners[number].waiting {
                    break;
                }
                match self.listeners[number].accept() {
                    Accepted::Connection(stream, client) => self.welcome(stream, client, now_ns),
                    Accepted::NoClient => break,
                    Accepted::NotNow => {
                        self.displace();
                        self.paused_until_ns = now_ns + PAUSE_NS;
                        return;
                    }
                }
            }
        }
    }

    /// Takes a connection in, or closes it at once.
    fn welcome(&mut self, stream: Stream, client: Option<IpAddr>, now_ns: u64) {
        self.scratch.counts.connections += 1;
        if client.is_some_and(|client| !self.clients.enter(client)) {
            return self.scratch.counts.end(End::Client);
        }
        if self.connections.len() >= self.limits.connections && !self.displace() {
            self.leave(client);
            return self.scratch.counts.end(End::Full);
        }
        let set_up = stream.hold_nothing_back();
        let slot = self.connections.enter(Connection::new(stream, client, now_ns));
        match set_up.and_then(|()| self.watch(slot)) {
            Ok(()) => self.queue(slot),
            Err(_) => self.end(slot, End::Broken),
        }
    }

    /// Registers what a connection waits for.
    fn watch(&mut self, slot: usize) -> io::Result<()> {
        let token = Token(self.listeners.len() + 1 + slot);
        let Some(connection) = self.connections.get_mut(slot) else { return Ok(()) };
        connection.watch(self.poll.registry(), token)
    }

    fn queue(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if !connection.queued {
            connection.queued = true;
            self.ready.push_back(slot);
        }
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
            self.end(slot, End::Displaced);
        }
        longest.is_some()
    }

    fn turn(&mut self, slot: usize, now_ns: u64) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        connection.queued = false;
        match connection.turn(&mut self.scratch, now_ns) {
            Turn::Waits => {
                if self.watch(slot).is_err() {
                    self.end(slot, End::Broken);
                }
            }
            Turn::Again => self.queue(slot),
            Turn::Ended(end) => self.end(slot, end),
        }
    }

    /// Closes connections without progress.
    fn look(&mut self, now_ns: u64) {
        let Some(since_ns) = now_ns.checked_sub(self.limits.idle_ns()) else { return };
        while let Some(slot) = self.connections.inactive_since(since_ns) {
            let Some(connection) = self.connections.get_mut(slot) else { return };
            let end = connection.output.end_in_time();
            self.end(slot, end);
        }
    }

    fn end(&mut self, slot: usize, end: End) {
        let Some(connection) = self.connections.leave(slot) else { return };
        self.leave(connection.client);
        self.scratch.counts.end(end);
        // A peer that broke the connection, or does not read, cannot receive the rest.
        let _ = connection.close();
    }

    /// Closes all connections, and returns the counts.
    pub(super) fn close(mut self) -> TcpReport {
        while let Some((_, slot)) = self.connections.oldest() {
            self.end(slot, End::Stopped);
        }
        let response_rcodes = self.scratch.answer.response_rcodes();
        TcpReport { response_rcodes, ..self.scratch.counts.report() }
    }
}
