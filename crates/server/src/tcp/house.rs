//! All connections of a process: who may come in, whose turn it is, who has to go.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token, Waker};

use super::clients::Clients;
use super::connection::{Connection, Desk, Turn};
use super::counts::{End, TcpReport};
use super::listener::{Accepted, Listener};
use super::stream::Stream;
use super::{Limits, StreamAnswer};
use crate::sockets::ListeningSocket;
use crate::worker::Going;

/// Events taken by one call.
const EVENTS: usize = 1024;

/// Connections accepted before those that are open have their turn.
const ACCEPTS: usize = 64;

/// How long nobody is accepted after the system had no room for one more.
const PAUSE: Duration = Duration::from_millis(100);

/// The connections, and what they share. A connection is known by its place; tokens are places behind those of
/// the listeners and of the waker.
pub(super) struct House<A: StreamAnswer> {
    poll: Poll,
    listeners: Vec<Listener>,
    limits: Limits,
    connections: Vec<Option<Connection<A::Stream>>>,
    free: Vec<usize>,
    clients: Clients,
    /// When each connection is to be looked at, and its place. It is moved only when it is due, not with every
    /// query.
    deadlines: BTreeSet<(Instant, usize)>,
    /// The places of those that can go on.
    ready: VecDeque<usize>,
    paused_until: Option<Instant>,
    desk: Desk<A>,
}

impl<A: StreamAnswer> House<A> {
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
        let house = Self {
            poll,
            listeners,
            limits,
            connections: Vec::new(),
            free: Vec::new(),
            clients: Clients::new(limits.per_client),
            deadlines: BTreeSet::new(),
            ready: VecDeque::new(),
            paused_until: None,
            desk: Desk::new(answer),
        };
        Ok((house, waker))
    }

    /// Serves until it is told to stop.
    pub(super) fn serve(&mut self, going: &Going) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        let mut now = Instant::now();
        while going.on() {
            match self.poll.poll(&mut events, self.timeout(now)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                Err(_) => events.clear(),
                Ok(()) => {}
            }
            now = Instant::now();
            self.note(&events);
            self.accept(now);
            for _ in 0..self.ready.len() {
                let Some(place) = self.ready.pop_front() else { break };
                self.turn(place, now);
            }
            self.look_at_deadlines(now);
        }
        Ok(())
    }

    /// How long there is nothing to do unless something happens.
    fn timeout(&self, now: Instant) -> Option<Duration> {
        let waiting = self.listeners.iter().any(|listener| listener.waiting);
        let accept_at = if waiting { Some(self.paused_until.unwrap_or(now)) } else { None };
        let ready_at = (!self.ready.is_empty()).then_some(now);
        let due_at = self.deadlines.first().map(|(due, _)| *due);
        let next = [accept_at, ready_at, due_at].into_iter().flatten().min()?;
        let left = next.saturating_duration_since(now);
        // Polling counts in milliseconds, and rounded down it would come back too early, again and again.
        Some(if left.is_zero() { left } else { left + Duration::from_millis(1) })
    }

    fn note(&mut self, events: &Events) {
        for event in events {
            let Token(token) = event.token();
            if let Some(listener) = self.listeners.get_mut(token) {
                listener.waiting = true;
                continue;
            }
            let Some(place) = token.checked_sub(self.listeners.len() + 1) else { continue };
            let Some(Some(connection)) = self.connections.get_mut(place) else { continue };
            connection.note(event.is_readable(), event.is_read_closed() || event.is_error());
            if !connection.queued {
                connection.queued = true;
                self.ready.push_back(place);
            }
        }
    }

    fn accept(&mut self, now: Instant) {
        if self.paused_until.is_some_and(|until| now < until) {
            return;
        }
        self.paused_until = None;
        for number in 0..self.listeners.len() {
            for _ in 0..ACCEPTS {
                if !self.listeners[number].waiting {
                    break;
                }
                match self.listeners[number].accept() {
                    Accepted::Connection(stream, client) => self.welcome(stream, client, now),
                    Accepted::Nobody => break,
                    Accepted::NotNow => {
                        self.displace();
                        self.paused_until = Some(now + PAUSE);
                        return;
                    }
                }
            }
        }
    }

    /// Takes a connection in, or closes it at once.
    fn welcome(&mut self, stream: Stream, client: Option<IpAddr>, now: Instant) {
        self.desk.counts.connections += 1;
        if client.is_some_and(|client| !self.clients.enter(client)) {
            return self.desk.counts.end(End::Client);
        }
        if self.connections.len() - self.free.len() >= self.limits.connections && !self.displace() {
            self.leave(client);
            return self.desk.counts.end(End::Full);
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        let set_up = stream.hold_nothing_back();
        let deadline = now + self.limits.idle;
        let mut connection = Connection::new(stream, client, now, deadline);
        let token = self.token(place);
        if set_up.and_then(|()| connection.watch(self.poll.registry(), token)).is_err() {
            self.free.push(place);
            self.leave(client);
            return self.desk.counts.end(End::Broken);
        }
        connection.queued = true;
        self.connections[place] = Some(connection);
        self.deadlines.insert((deadline, place));
        self.ready.push_back(place);
    }

    /// The token of the connection in this place.
    fn token(&self, place: usize) -> Token {
        Token(self.listeners.len() + 1 + place)
    }

    /// One of a client's connections has gone.
    fn leave(&mut self, client: Option<IpAddr>) {
        if let Some(client) = client {
            self.clients.leave(client);
        }
    }

    /// Closes the connection that has been idle longest; whether there was one.
    fn displace(&mut self) -> bool {
        let (mut busy, mut longest) = (Vec::new(), None);
        while let Some((deadline, place)) = self.deadlines.pop_first() {
            let Some(connection) = &mut self.connections[place] else { continue };
            let due = connection.active + self.limits.idle;
            if due > deadline {
                connection.deadline = due;
                self.deadlines.insert((due, place));
            } else if connection.is_idle() {
                longest = Some(place);
                break;
            } else {
                busy.push((deadline, place));
            }
        }
        self.deadlines.extend(busy);
        if let Some(place) = longest {
            self.end(place, End::Displaced);
        }
        longest.is_some()
    }

    fn turn(&mut self, place: usize, now: Instant) {
        let token = self.token(place);
        let Some(connection) = &mut self.connections[place] else { return };
        connection.queued = false;
        match connection.turn(&mut self.desk, now) {
            Turn::Waits => {
                if connection.watch(self.poll.registry(), token).is_err() {
                    self.end(place, End::Broken);
                }
            }
            Turn::Again => {
                connection.queued = true;
                self.ready.push_back(place);
            }
            Turn::Ended(end) => self.end(place, end),
        }
    }

    /// Closes those that made no progress in time.
    fn look_at_deadlines(&mut self, now: Instant) {
        while let Some(&(deadline, place)) = self.deadlines.first().filter(|(deadline, _)| *deadline <= now) {
            let Some(connection) = &mut self.connections[place] else { return };
            let due = connection.active + self.limits.idle;
            if due <= now {
                let end = connection.end_in_time();
                self.end(place, end);
            } else {
                connection.deadline = due;
                self.deadlines.remove(&(deadline, place));
                self.deadlines.insert((due, place));
            }
        }
    }

    fn end(&mut self, place: usize, end: End) {
        let Some(connection) = self.connections[place].take() else { return };
        self.deadlines.remove(&(connection.deadline, place));
        self.leave(connection.client);
        self.free.push(place);
        self.desk.counts.end(end);
        // Whoever broke it, or does not read, cannot be told anything.
        let _ = connection.close();
    }

    /// Closes all, and returns the counts.
    pub(super) fn close(mut self) -> TcpReport {
        for place in 0..self.connections.len() {
            self.end(place, End::Stopped);
        }
        let response_rcodes = self.desk.answer.response_rcodes();
        TcpReport { response_rcodes, ..self.desk.counts.report() }
    }
}
