//! The places for a thread's connections, one for each flow of the books: what is handed to them and read from them,
//! and what becomes of the queries of a connection when it ends. The client's times, and those of timers, are of the
//! monotonic clock, since connections are made before the trial's start.

mod making;
mod receiving;

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};

use kqps_kernel::address::Address;
use kqps_kernel::batch::{Outbox, RecvBatch, SEGMENTED_BYTES};
use kqps_kernel::clock;
use kqps_kernel::ephemeral;
use kqps_kernel::epoll::{Epoll, Interest, Ready};
use kqps_kernel::udp::UdpSocket;
use kqps_quic::{Client, End, SEGMENTS_MOST};

use crate::books::Due;
use crate::connections::{ConnectionCounts, Ending, QuicCounts, TlsCounts};
use crate::loss::{Loss, by_end};
use crate::plan::{Plan, QuicPlan};
use crate::share::capacity;
use crate::state::ThreadState;
use crate::wire::attempts::{Attempts, Tries};
use crate::wire::over_connections::OverConnections;
use crate::wire::stamps::Stamps;
use crate::wire::udp::look::messages_most;

/// Descriptors that one look returns at most.
const EVENTS: usize = 256;

/// Messages that one receiving call takes at most.
const MESSAGES: usize = 32;

/// Datagrams that one sending call takes at most, and their bytes.
const DATAGRAMS: usize = 256;
const DATAGRAMS_BYTES: usize = 1 << 19;

/// A place takes no more queries while as many wait for a stream.
const WAITING_MOST: usize = 1024;

/// Places that one call checks for queries without further use. With more of them a call would take longer than a query
/// may be late.
const CHECKED_AT_ONCE: usize = 4096;

/// The places for the connections of one thread.
pub(crate) struct Places<'a> {
    places: Box<[Place]>,
    /// The socket of each place; `None` if its address had no free port.
    sockets: &'a [Option<UdpSocket>],
    client: Client,
    epoll: Epoll,
    ready: Vec<Ready>,
    attempts: Attempts,
    /// `None` only while a socket is read.
    received: Option<RecvBatch>,
    /// The most messages that a socket can hold.
    messages_most: usize,
    /// Room for a query that is not sent as the dataset has it.
    room: Vec<u8>,
    outbox: Outbox,
    /// Packets on their way from the client to the outbox.
    packets: Vec<u8>,
    tls: TlsCounts,
    quic: QuicCounts,
}

/// A place for one connection after the other.
struct Place {
    /// The number of its target.
    target: usize,
    to: SocketAddr,
    address: Address,
    /// Datagrams for which the kernel had no room, in order. Nothing passes them. They may be of an earlier connection.
    unsent: Vec<Box<[u8]>>,
    /// The client: its address, if the kernel did not choose it.
    from: Option<IpAddr>,
    /// When the attempt began.
    began_ns: u64,
    /// Whether the handshake is complete.
    is_open: bool,
    /// When it was.
    opened_ns: u64,
    /// Whether a ticket for a later connection arrived.
    has_ticket: bool,
    /// The ID of the query that stands for the connection that is being made, if connections alone are the load.
    stands_for: Option<u16>,
    /// When queries were handed to the connection.
    stamps: Stamps,
    /// Keys of queries that were handed to the place and wait for a stream.
    waiting: VecDeque<u16>,
    /// Since when queries wait although the connection is open.
    blocked_since_ns: Option<u64>,
    tries: Tries,
}

impl<'a> Places<'a> {
    /// Places for a connection on each of these sockets, of which `first` is the number of the first among all.
    pub(super) fn new(
        (plan, quic): (&Plan, &QuicPlan),
        client: Client,
        first: usize,
        sockets: &'a [Option<UdpSocket>],
    ) -> io::Result<Self> {
        let used = quic.connection_use();
        let alone = used.has_connections_alone();
        let settle = plan.timeout + plan.drain;
        let slots = if alone { 1 } else { capacity(plan.load, plan.timeout, settle, plan.flows()) };
        let place = |(number, socket): (usize, &Option<UdpSocket>)| -> io::Result<Place> {
            let target = number % plan.targets.len();
            let to = plan.targets[target];
            let bound = socket.as_ref().filter(|_| plan.local.is_some());
            let from = bound.map(UdpSocket::local_addr).transpose()?;
            Ok(Place {
                target,
                to,
                address: to.into(),
                unsent: Vec::new(),
                from: from.map(|address| address.ip()),
                began_ns: 0,
                is_open: false,
                opened_ns: 0,
                has_ticket: false,
                stands_for: None,
                stamps: Stamps::new(slots),
                waiting: VecDeque::new(),
                blocked_since_ns: None,
                tries: Tries::default(),
            })
        };
        let epoll = Epoll::new(EVENTS)?;
        for (socket, key) in sockets.iter().zip(0..) {
            if let Some(socket) = socket {
                epoll.add(socket, key)?;
            }
        }
        let counts =
            ConnectionCounts { ports: ephemeral::ports().len() as u64, ..ConnectionCounts::default() };
        Ok(Self {
            places: (first..).zip(sockets).map(place).collect::<io::Result<_>>()?,
            sockets,
            client,
            epoll,
            ready: Vec::with_capacity(EVENTS),
            attempts: Attempts::new(&used, counts),
            received: Some(RecvBatch::new(MESSAGES, SEGMENTED_BYTES)),
            messages_most: messages_most(sockets.iter().flatten())?,
            room: Vec::new(),
            outbox: Outbox::new(DATAGRAMS, DATAGRAMS_BYTES),
            packets: Vec::new(),
            tls: TlsCounts::default(),
            quic: QuicCounts::default(),
        })
    }

    /// Sends the queries that wait, as far as there are streams for them.
    fn pump(&mut self, state: &mut ThreadState<'_>, flow: usize, now_ns: u64) {
        let clock_ns = state.clock.clock_ns(now_ns);
        let Self { client, places, tls, room, .. } = self;
        let place = &mut places[flow];
        while let Some(&key) = place.waiting.front() {
            // A query that is lost by now needs no stream.
            if let Some(open) = state.books.open_query(flow, key) {
                let query = state.supply.message(open.query, (open.due_ns, key, 0), room);
                if !client.hand(flow, key, query, clock_ns) {
                    break;
                }
                tls.early.queries += u64::from(!place.is_open);
                place.stamps.stamp(key, now_ns);
            }
            place.waiting.pop_front();
        }
        self.note_blocked(state, flow, clock_ns);
    }

    /// Notes whether queries wait for a stream. With too many of them the flow takes no more.
    #[inline]
    fn note_blocked(&mut self, state: &mut ThreadState<'_>, flow: usize, clock_ns: u64) {
        let place = &mut self.places[flow];
        let is_blocked = place.is_open && !place.waiting.is_empty();
        match place.blocked_since_ns {
            None if is_blocked => place.blocked_since_ns = Some(clock_ns),
            Some(since_ns) if !is_blocked => {
                self.quic.blocked_ns += clock_ns.saturating_sub(since_ns);
                place.blocked_since_ns = None;
            }
            _ => {}
        }
        state.books.block(flow, place.waiting.len() >= WAITING_MOST);
    }

    /// Sends the packets of a place's connection, and sets its timer.
    fn flush(&mut self, state: &mut ThreadState<'_>, flow: usize, now_ns: u64) {
        match self.pass_on(flow, state.clock.clock_ns(now_ns)) {
            Some(loss) => self.cut_off(state, flow, loss, now_ns),
            None => self.schedule(flow),
        }
    }

    /// Sends the packets of a place's connection. Returns what the network reports about the target, if it does.
    /// Packets for which the kernel has no room wait until it has. Those that it refuses for another reason are lost,
    /// and sent again.
    fn pass_on(&mut self, flow: usize, clock_ns: u64) -> Option<Loss> {
        let Self { client, outbox, packets, sockets, places, quic, epoll, .. } = self;
        let Place { address, unsent, .. } = &mut places[flow];
        // A place without a socket has no connection.
        let socket = sockets[flow].as_ref()?;
        let mut loss = None;
        let mut note = |outcome: io::Result<usize>| {
            if let Err(error) = outcome {
                loss = loss_of(&error).or(loss);
            }
        };
        let waited = std::mem::take(unsent);
        for datagram in &waited {
            if !outbox.has_room(datagram.len(), datagram.len()) {
                outbox.send_or_keep(socket, unsent, &mut note);
            }
            outbox.add(address, None, datagram, datagram.len());
        }
        if !waited.is_empty() {
            outbox.send_or_keep(socket, unsent, &mut note);
        }
        while unsent.is_empty()
            && let Some(segment) = client.transmit(flow, SEGMENTS_MOST, packets, clock_ns)
        {
            if !outbox.has_room(packets.len(), segment) {
                outbox.send_or_keep(socket, unsent, &mut note);
            }
            outbox.add(address, None, packets, segment);
        }
        if !outbox.is_empty() {
            outbox.send_or_keep(socket, unsent, note);
        }
        let (waited, waits) = (!waited.is_empty(), !unsent.is_empty());
        if waits != waited {
            quic.send_waits += u64::from(waits);
            let interest = if waits { Interest::Both } else { Interest::Read };
            // Without it the next timer of the connection tries again.
            let _ = epoll.change(socket, flow as u64, interest);
        }
        loss
    }

    /// Sets the timer of a place.
    fn schedule(&mut self, flow: usize) {
        let place = &self.places[flow];
        let due_ns = if self.client.has_connection(flow) {
            let of_attempt_ns = place.began_ns.saturating_add(self.attempts.connect_timeout_ns);
            let limit_ns = if place.is_open { u64::MAX } else { of_attempt_ns };
            self.client.due_ns(flow).unwrap_or(u64::MAX).min(limit_ns)
        } else {
            place.tries.paused_until_ns.unwrap_or(u64::MAX)
        };
        if due_ns != u64::MAX {
            self.attempts.timers.set(flow, due_ns);
        }
    }

    /// Looks at the sockets, and waits for `most_ns` at most until something arrives at one of them. Returns whether
    /// something did.
    pub(super) fn look(&mut self, state: &mut ThreadState<'_>, mut most_ns: Option<u64>) -> io::Result<bool> {
        let mut happened = false;
        let mut rounds_left = 1 + self.places.len() / EVENTS;
        loop {
            rounds_left -= 1;
            self.ready.clear();
            self.ready.extend(self.epoll.wait_for(most_ns)?);
            for index in 0..self.ready.len() {
                happened = true;
                let Ready { key, readable, writable } = self.ready[index];
                let flow = key as usize;
                if readable {
                    self.receive(state, flow)?;
                }
                if writable {
                    self.flush(state, flow, state.now_ns());
                }
            }
            if self.ready.len() < EVENTS || rounds_left == 0 {
                return Ok(happened);
            }
            most_ns = Some(0);
        }
    }

    /// A connection ended, or its attempt.
    fn ended_by(&mut self, state: &mut ThreadState<'_>, flow: usize, end: &End, now_ns: u64) {
        // Perhaps the player has to say why.
        self.pass_on(flow, state.clock.clock_ns(now_ns));
        let ending = Ending::of_quic(end, state.books.unsettled_of(flow) == 0);
        match end {
            End::Tls(failure) => self.tls.failed(failure),
            End::TimedOut => {}
            _ if ending == Ending::Idle => {}
            other => self.quic.failed(&other.to_string()),
        }
        if self.places[flow].is_open {
            self.ended(state, flow, ending, now_ns);
        } else {
            self.failed(state, flow, by_end(end), now_ns);
        }
    }

    /// The network reports that packets do not reach the target.
    fn cut_off(&mut self, state: &mut ThreadState<'_>, flow: usize, loss: Loss, now_ns: u64) {
        if !self.client.has_connection(flow) {
            return;
        }
        if self.places[flow].is_open {
            let ending = if loss == Loss::Refused { Ending::Refused } else { Ending::Unreachable };
            self.ended(state, flow, ending, now_ns);
        } else {
            self.failed(state, flow, loss, now_ns);
        }
    }

    /// An open connection ended. The next one may begin at once, unless the last ones gave no reply.
    fn ended(&mut self, state: &mut ThreadState<'_>, flow: usize, ending: Ending, now_ns: u64) {
        let tries = &mut self.places[flow].tries;
        self.attempts.ended(flow, tries, ending, state.clock.clock_ns(now_ns));
        self.clear(state, flow, ending.loss(), now_ns);
    }

    /// Empties a place. Its open queries are lost, and it takes as many queries as a new connection.
    fn clear(&mut self, state: &mut ThreadState<'_>, flow: usize, loss: Loss, now_ns: u64) {
        self.forget(flow);
        let place = &mut self.places[flow];
        place.is_open = false;
        place.waiting.clear();
        place.stamps.clear();
        place.stands_for = None;
        self.note_blocked(state, flow, state.clock.clock_ns(now_ns));
        state.books.broken(flow, loss, now_ns);
        if let Some(uses) = self.attempts.uses_of_connection {
            state.books.allow(flow, uses);
        }
        self.schedule(flow);
    }

    /// Forgets the connection of a place, if it has one.
    fn forget(&mut self, flow: usize) {
        let is_undecided = !self.places[flow].is_open && self.client.offers_early_data(flow);
        self.tls.early.undecided += u64::from(is_undecided);
        self.client.forget(flow);
    }

    /// Closes a connection that had all of its queries, once their fates are settled.
    fn close_if_spent(&mut self, state: &mut ThreadState<'_>, flow: usize, now_ns: u64) {
        if !self.places[flow].is_open || state.books.left_of(flow) > 0 || state.books.unsettled_of(flow) > 0 {
            return;
        }
        let clock_ns = state.clock.clock_ns(now_ns);
        if self.waits_for_ticket(flow, clock_ns) {
            return;
        }
        self.client.close(flow, clock_ns);
        self.pass_on(flow, clock_ns);
        self.ended(state, flow, Ending::Player, now_ns);
    }

    /// Whether a connection stays open for its server's ticket.
    fn waits_for_ticket(&mut self, flow: usize, clock_ns: u64) -> bool {
        let place = &self.places[flow];
        !place.has_ticket && self.attempts.ticket_waits.wait(place.opened_ns, clock_ns)
    }

    /// Checks places in turn: closes connections whose last queries were lost, and gives up streams whose queries were.
    /// Everything that arrived until `read_ns` has been read.
    fn tend_places(&mut self, state: &mut ThreadState<'_>, read_ns: u64) {
        let now_ns = state.now_ns();
        for _ in 0..self.places.len().min(CHECKED_AT_ONCE) {
            let flow = self.attempts.next_to_check(self.places.len());
            let lost_before_ns = state.books.lost_before_ns(flow, read_ns);
            if self.client.cancel_before(flow, state.clock.clock_ns(lost_before_ns)) {
                self.flush(state, flow, now_ns);
            }
            self.close_if_spent(state, flow, now_ns);
        }
        state.books.publish_connections(&self.attempts.counts);
    }

    /// How long until something is due, nanoseconds.
    fn next_timer_ns(&self, state: &ThreadState<'_>) -> Option<u64> {
        let clock_ns = state.clock.clock_ns(state.now_ns());
        self.attempts.timers.next_ns().map(|due_ns| due_ns.saturating_sub(clock_ns))
    }

    /// The counts, once the trial is over. Ends all connections.
    pub(super) fn finish(&mut self) -> ConnectionCounts {
        let clock_ns = clock::now_ns();
        for flow in 0..self.places.len() {
            if !self.client.has_connection(flow) {
                continue;
            }
            let place = &mut self.places[flow];
            let counts = &mut self.attempts.counts;
            let count = if place.is_open { &mut counts.open } else { &mut counts.unfinished };
            *count += 1;
            if let Some(since_ns) = place.blocked_since_ns.take() {
                self.quic.blocked_ns += clock_ns.saturating_sub(since_ns);
            }
            self.client.close(flow, clock_ns);
            self.pass_on(flow, clock_ns);
            self.forget(flow);
        }
        let quic = QuicCounts { client: self.client.counts(), ..std::mem::take(&mut self.quic) };
        let tls = TlsCounts { tickets: self.client.tickets(), ..std::mem::take(&mut self.tls) };
        ConnectionCounts { tls: Some(tls), quic: Some(quic), ..std::mem::take(&mut self.attempts.counts) }
    }
}

impl OverConnections for Places<'_> {
    fn attempts(&self) -> &Attempts {
        &self.attempts
    }

    fn open_kept(&mut self, state: &mut ThreadState<'_>, is_stopped: impl Fn() -> bool) -> io::Result<()> {
        self.make_kept(state, is_stopped)
    }

    /// Hands queries to a place: they leave at once if its connection has streams for them, and as soon as it has
    /// otherwise.
    #[inline]
    fn hand(
        &mut self,
        state: &mut ThreadState<'_>,
        flow: usize,
        burst: &[Due],
        now_ns: u64,
    ) -> io::Result<()> {
        self.attempts.counts.handed += burst.len() as u64;
        if self.attempts.has_connections_alone {
            self.places[flow].stands_for = burst.first().map(|due| due.key);
            self.connect(state, flow, now_ns);
            return Ok(());
        }
        let clock_ns = state.clock.clock_ns(now_ns);
        let Self { client, places, quic, tls, room, .. } = self;
        let place = &mut places[flow];
        place.stamps.keep_room(state.books.slots_of(flow));
        place.stamps.handed(burst, now_ns);
        for due in burst {
            // A message over QUIC has the ID 0 (RFC 9250, section 4.2.1).
            let query = state.supply.message(due.query, (due.due_ns, due.key, 0), room);
            if place.waiting.is_empty() && client.hand(flow, due.key, query, clock_ns) {
                tls.early.queries += u64::from(!place.is_open);
            } else {
                quic.blocked_queries += u64::from(place.is_open);
                place.waiting.push_back(due.key);
            }
        }
        if client.has_connection(flow) {
            self.note_blocked(state, flow, clock_ns);
            self.flush(state, flow, now_ns);
        } else if place.tries.paused_until_ns.is_none() {
            self.connect(state, flow, now_ns);
        } else {
            self.note_blocked(state, flow, clock_ns);
        }
        Ok(())
    }

    fn tend(&mut self, state: &mut ThreadState<'_>, now_ns: u64, _: bool) -> io::Result<()> {
        self.tend_places(state, now_ns);
        Ok(())
    }

    fn timer_wait_ns(&self, state: &ThreadState<'_>, _: u64) -> u64 {
        self.next_timer_ns(state).unwrap_or(u64::MAX)
    }
}

/// The loss that an error of a connected socket means; `None` if it says nothing about the target.
fn loss_of(error: &io::Error) -> Option<Loss> {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkDown, NetworkUnreachable};
    match error.kind() {
        // ICMP may also say that the other host has no UDP, or that a packet is too long for the path.
        _ if matches!(error.raw_os_error(), Some(libc::ENOPROTOOPT | libc::EPROTO | libc::EMSGSIZE)) => {
            Some(Loss::Unreachable)
        }
        ConnectionRefused => Some(Loss::Refused),
        HostUnreachable | NetworkUnreachable | NetworkDown => Some(Loss::Unreachable),
        _ => None,
    }
}
