//! Keeps the connections of a thread: accepts them as far as limits allow, closes idle ones that must make room, and
//! knows which of them can go on. It neither reads nor writes. What a connection does when its turn comes, and when it
//! has made no progress for too long, is up to the loop that owns the keeper.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;

use mio::{Registry, Token};

use super::Limits;
use super::client_limits::ClientLimits;
use super::counts::{ConnectionCounts, End, TcpReport, add_counts};
use super::listener::{Accepted, Listener};
use super::slots::{Active, Slots};
use super::stream::Stream;
use crate::counts::Counts;
use crate::sockets::ListeningSocket;

/// Pause before the next accept when the system has no free descriptor, in nanoseconds.
const PAUSE_NS: u64 = 100_000_000;

/// A connection that a [`Keeper`] keeps.
pub trait KeptConnection: Active {
    /// A connection that has just been accepted from this client; `None` on a Unix socket.
    fn new(stream: Stream, client: Option<IpAddr>, now_ns: u64) -> Self;

    /// The client's address; `None` on a Unix socket.
    fn client(&self) -> Option<IpAddr>;

    /// Whether it is in the queue of connections that can go on. Only the keeper sets this.
    fn queued(&mut self) -> &mut bool;

    /// Registers the events that the connection waits for, under this token.
    fn watch(&mut self, registry: &Registry, token: Token) -> io::Result<()>;

    /// Closes the connection, whose end is counted already.
    fn close(self, end: End);
}

/// How a keeper accepts connections.
#[derive(Clone, Copy, Debug)]
pub struct Accepting {
    /// The number of connections that it accepts from each listening socket before open connections have their turn.
    pub in_turn: usize,
    /// The number of idle connections that it closes if the system has no free descriptor.
    pub spare: usize,
    /// Whether it goes on accepting after it closed some for that reason. Otherwise it pauses for 100 ms, as it does if
    /// none was idle.
    pub goes_on: bool,
}

/// The connections of a thread, and the sockets that accept them.
pub struct Keeper<C> {
    listeners: Vec<Listener>,
    /// The token of the first listening socket. Those of the others follow, then those of connections, by slot.
    first: Token,
    limits: Limits,
    accepting: Accepting,
    /// The open connections.
    pub connections: Slots<C>,
    clients: ClientLimits,
    counts: ConnectionCounts,
    /// The slots of connections that can go on.
    ready: VecDeque<usize>,
    paused_until_ns: u64,
}

impl<C: KeptConnection> Keeper<C> {
    /// Registers listening sockets, which may have waiting clients already. Their tokens, and those of connections,
    /// begin with `first`.
    pub fn new(
        listeners: Vec<ListeningSocket>,
        limits: Limits,
        accepting: Accepting,
        registry: &Registry,
        first: Token,
    ) -> io::Result<Self> {
        let listeners = listeners
            .into_iter()
            .enumerate()
            .map(|(number, socket)| Listener::new(socket, registry, Token(first.0 + number)))
            .collect::<io::Result<Vec<_>>>()?;
        Ok(Self {
            listeners,
            first,
            limits,
            accepting,
            connections: Slots::default(),
            clients: ClientLimits::new(limits.per_client),
            counts: ConnectionCounts::default(),
            ready: VecDeque::new(),
            paused_until_ns: 0,
        })
    }

    /// Notes an event, whose token is the first one plus `place`. If it is of a connection, queues the connection and
    /// returns it with its slot.
    pub fn note(&mut self, place: usize) -> Option<(usize, &mut C)> {
        let Some(slot) = place.checked_sub(self.listeners.len()) else {
            self.listeners[place].waiting = true;
            return None;
        };
        self.queue(slot);
        Some((slot, self.connections.get_mut(slot)?))
    }

    /// Queues the connection in this slot, unless it is in the queue already.
    pub fn queue(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if !std::mem::replace(connection.queued(), true) {
            self.ready.push_back(slot);
        }
    }

    /// The number of connections in the queue. Some may have ended since.
    pub fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Takes the first connection out of the queue. Returns its slot; `None` if it has ended or the queue is empty.
    pub fn next_ready(&mut self) -> Option<usize> {
        let slot = self.ready.pop_front()?;
        *self.connections.get_mut(slot)?.queued() = false;
        Some(slot)
    }

    /// When a connection can go on or can be accepted without a further event, in nanoseconds; `None` if none can.
    pub fn due_ns(&self, now_ns: u64) -> Option<u64> {
        if !self.ready.is_empty() {
            return Some(now_ns);
        }
        self.listeners.iter().any(|listener| listener.waiting).then_some(self.paused_until_ns)
    }

    /// Accepts waiting connections, and queues them: a query often arrives with its connection.
    pub fn accept(&mut self, registry: &Registry, now_ns: u64) {
        if now_ns < self.paused_until_ns {
            return;
        }
        for number in 0..self.listeners.len() {
            for _ in 0..self.accepting.in_turn {
                if !self.listeners[number].waiting {
                    break;
                }
                match self.listeners[number].accept() {
                    Accepted::Connection(stream, client) => self.welcome(stream, client, registry, now_ns),
                    Accepted::NoClient => break,
                    Accepted::NotNow if self.make_room() && self.accepting.goes_on => {}
                    Accepted::NotNow => {
                        self.paused_until_ns = now_ns + PAUSE_NS;
                        return;
                    }
                }
            }
        }
    }

    /// Takes a connection in, or closes it at once.
    fn welcome(&mut self, stream: Stream, client: Option<IpAddr>, registry: &Registry, now_ns: u64) {
        self.counts.accepted += 1;
        if client.is_some_and(|client| !self.clients.enter(client)) {
            return self.counts.end(End::Client);
        }
        if self.connections.len() >= self.limits.connections && !self.displace() {
            self.leave(client);
            return self.counts.end(End::Full);
        }
        let slot = self.connections.enter(C::new(stream, client, now_ns));
        match self.watch(slot, registry) {
            Ok(()) => self.queue(slot),
            Err(_) => self.end(slot, End::Broken),
        }
    }

    /// Registers the events that the connection in this slot waits for.
    pub fn watch(&mut self, slot: usize, registry: &Registry) -> io::Result<()> {
        let token = Token(self.first.0 + self.listeners.len() + slot);
        let Some(connection) = self.connections.get_mut(slot) else { return Ok(()) };
        connection.watch(registry, token)
    }

    /// Closes some idle connections to free descriptors. Returns whether there were any.
    pub fn make_room(&mut self) -> bool {
        (0..self.accepting.spare).filter(|_| self.displace()).count() > 0
    }

    /// Closes the connection that has been idle longest. Returns whether there was one.
    fn displace(&mut self) -> bool {
        let longest = self.connections.longest_idle();
        if let Some(slot) = longest {
            self.end(slot, End::Displaced);
        }
        longest.is_some()
    }

    /// Counts one connection of this client less.
    fn leave(&mut self, client: Option<IpAddr>) {
        if let Some(client) = client {
            self.clients.leave(client);
        }
    }

    /// Closes the connection in this slot, if there is one, and counts why.
    pub fn end(&mut self, slot: usize, end: End) {
        let Some(connection) = self.connections.leave(slot) else { return };
        self.leave(connection.client());
        self.counts.end(end);
        connection.close(end);
    }

    /// Closes all connections, since the server stops.
    pub fn close(&mut self) {
        while let Some((_, slot)) = self.connections.oldest() {
            self.end(slot, End::Stopped);
        }
    }

    /// The counts so far, with these counts of the connections' queries, and without transfers and rcodes.
    pub fn report(&self, queries: &Counts) -> TcpReport {
        let mut report = self.counts.report(queries);
        for handshakes in self.listeners.iter().filter_map(Listener::handshakes) {
            add_counts(&mut report.handshakes, handshakes.by_kind());
        }
        for refusals in self.listeners.iter().filter_map(Listener::refusals) {
            add_counts(&mut report.refused, refusals.by_status());
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
    use std::time::Duration;

    use mio::{Events, Poll};

    use super::*;

    /// A connection that does nothing.
    struct Still {
        _stream: Stream,
        client: Option<IpAddr>,
        active_ns: u64,
        is_queued: bool,
    }

    impl Active for Still {
        fn active_ns(&self) -> u64 {
            self.active_ns
        }

        fn is_idle(&self) -> bool {
            !self.is_queued
        }
    }

    impl KeptConnection for Still {
        fn new(stream: Stream, client: Option<IpAddr>, now_ns: u64) -> Self {
            Self { _stream: stream, client, active_ns: now_ns, is_queued: false }
        }

        fn client(&self) -> Option<IpAddr> {
            self.client
        }

        fn queued(&mut self) -> &mut bool {
            &mut self.is_queued
        }

        fn watch(&mut self, _: &Registry, _: Token) -> io::Result<()> {
            Ok(())
        }

        fn close(self, _: End) {}
    }

    /// A keeper with one listening socket, and its clients.
    struct Rig {
        poll: Poll,
        keeper: Keeper<Still>,
        address: SocketAddr,
        clients: Vec<TcpStream>,
    }

    impl Rig {
        fn new(connections: usize, per_client: usize) -> Self {
            let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let address = socket.local_addr().unwrap();
            let poll = Poll::new().unwrap();
            let limits = Limits { idle: Duration::from_secs(1), connections, per_client };
            let accepting = Accepting { in_turn: 8, spare: 2, goes_on: true };
            let sockets = vec![ListeningSocket::Tcp(socket)];
            let keeper = Keeper::new(sockets, limits, accepting, poll.registry(), Token(0)).unwrap();
            Self { poll, keeper, address, clients: Vec::new() }
        }

        /// Connects a client, which the keeper accepts at this time.
        fn connect(&mut self, now_ns: u64) {
            let accepted = self.keeper.counts.accepted + 1;
            self.clients.push(TcpStream::connect(self.address).unwrap());
            let mut events = Events::with_capacity(8);
            self.keeper.accept(self.poll.registry(), now_ns);
            while self.keeper.counts.accepted < accepted {
                self.poll.poll(&mut events, Some(Duration::from_secs(10))).unwrap();
                assert!(!events.is_empty(), "the client is not seen");
                for event in &events {
                    assert!(self.keeper.note(event.token().0).is_none(), "it is of the listening socket");
                }
                self.keeper.accept(self.poll.registry(), now_ns);
            }
        }

        /// Gives each connection its turn.
        fn turn(&mut self) {
            while self.keeper.ready() > 0 {
                self.keeper.next_ready();
            }
        }

        /// The number of connections that ended for this reason.
        fn ended(&self, name: &str) -> u64 {
            self.keeper.report(&Counts::default()).ended.get(name).copied().unwrap_or(0)
        }
    }

    #[test]
    fn a_newcomer_displaces_the_connection_that_was_idle_longest() {
        let mut rig = Rig::new(2, 9);
        rig.connect(10);
        rig.connect(20);
        // Both wait for their turn and are not idle.
        rig.connect(30);
        assert_eq!((rig.ended("too-many"), rig.keeper.connections.len()), (1, 2));
        rig.turn();
        rig.keeper.connections.get_mut(0).unwrap().active_ns = 40;
        rig.connect(50);
        assert_eq!((rig.ended("too-many"), rig.ended("displaced")), (1, 1));
        let active_ns = rig.keeper.connections.iter().map(|(_, connection)| connection.active_ns);
        assert_eq!(active_ns.collect::<Vec<_>>(), [40, 50]);
        rig.keeper.close();
        assert_eq!((rig.ended("stopped"), rig.keeper.counts.accepted), (2, 4));
        assert!(rig.keeper.connections.is_empty());
    }

    #[test]
    fn a_client_has_its_share_of_connections() {
        let mut rig = Rig::new(9, 2);
        for now_ns in 0..3 {
            rig.connect(now_ns);
        }
        assert_eq!((rig.ended("too-many-of-client"), rig.keeper.connections.len()), (1, 2));
        rig.keeper.end(0, End::Peer);
        rig.connect(3);
        assert_eq!((rig.ended("too-many-of-client"), rig.keeper.connections.len()), (1, 2));
    }

    #[test]
    fn room_is_made_by_some_of_the_idle_connections() {
        let mut rig = Rig::new(9, 9);
        for now_ns in 0..4 {
            rig.connect(now_ns);
        }
        assert!(!rig.keeper.make_room(), "none is idle");
        rig.turn();
        rig.keeper.queue(0);
        assert!(rig.keeper.make_room());
        assert_eq!(rig.ended("displaced"), 2);
        assert!(rig.keeper.make_room(), "one was left");
        assert!(!rig.keeper.make_room());
        assert_eq!((rig.ended("displaced"), rig.keeper.connections.len()), (3, 1));
    }

    #[test]
    fn a_connection_is_queued_once_until_its_turn() {
        let mut rig = Rig::new(9, 9);
        rig.connect(0);
        rig.connect(0);
        assert_eq!(rig.keeper.due_ns(7), Some(7));
        rig.turn();
        // The place after that of the listening socket.
        assert_eq!(rig.keeper.note(1).map(|(slot, _)| slot), Some(0));
        assert!(rig.keeper.note(1).is_some());
        assert_eq!((rig.keeper.ready(), rig.keeper.next_ready(), rig.keeper.ready()), (1, Some(0), 0));
        assert!(rig.keeper.note(9).is_none(), "no connection is there");
        rig.keeper.queue(1);
        rig.keeper.end(1, End::Peer);
        assert_eq!((rig.keeper.ready(), rig.keeper.next_ready(), rig.keeper.ready()), (1, None, 0));
    }
}
