//! The places for a thread's connections, one for each flow of the books: what is written and read there, and what
//! becomes of the queries of a connection when it ends.

mod captured;
mod making;
mod reading;
mod sockets;
mod tending;
mod writes;

use std::io;
use std::net::{IpAddr, SocketAddr};

use kqps_kernel::ephemeral;

use super::connection::Connection;
use super::frame::append;
use super::layer::{Buffers, Fault, Layer};
use super::ports::Ports;
use crate::books::Due;
use crate::connections::{ConnectionCounts, Ending};
use crate::loss::Loss;
use crate::plan::{Close, TcpPlan};
use crate::share::capacity;
use crate::state::ThreadState;
use crate::team::Team;
use crate::thread::TICK_NS;
use crate::wire::attempts::{Attempts, Tries};
use crate::wire::over_connections::OverConnections;
use crate::wire::xdp::PastCounts;
use captured::{Clients, Closing};
pub(crate) use sockets::Sockets;
use writes::Writes;

/// A place takes no more queries while it has more bytes than this that the kernel has not taken.
const OUTPUT_MOST: usize = 1 << 16;

/// The places for the connections of one thread, with a layer between messages and bytes, and the sockets of one I/O
/// model.
pub(crate) struct Places<L: Layer, S: Sockets> {
    places: Box<[Place<L, S>]>,
    /// State that the layers share.
    shared: L::Shared,
    pub(super) sockets: S,
    attempts: Attempts,
    buffers: Buffers,
    /// Dealer of ports to connections that are closed again; `None` if the kernel chooses them.
    ports: Option<Ports>,
    close: Close,
    /// The clients of a capture; `None` without one.
    clients: Option<Clients>,
}

/// A place for one connection after the other.
pub(super) struct Place<L, S: Sockets> {
    /// The number of its target.
    target: usize,
    to: SocketAddr,
    from: Option<IpAddr>,
    connection: Option<Connection<L, S::Socket>>,
    /// Bytes of queries that were handed to the place and not yet to the kernel.
    output: Vec<u8>,
    tries: Tries,
    /// The ID of the query that stands for the connection that is being made, if connections alone are the load.
    stands_for: Option<u16>,
    /// When the connection is closed, if the capture has its end.
    closing: Option<Closing>,
    writes: Writes,
}

impl<L: Layer, S: Sockets> Places<L, S> {
    /// Places for `flows` connections, of which `first` is the number of the first among all.
    pub(super) fn new(
        team: &Team,
        tcp: &TcpPlan,
        shared: L::Shared,
        means: S::Means,
        (first, flows): (usize, usize),
    ) -> io::Result<Self> {
        let plan = &team.plan;
        let used = tcp.connection_use();
        let alone = used.has_connections_alone();
        let settle = plan.timeout + plan.drain;
        let slots = if alone { 1 } else { capacity(plan.load, plan.timeout, settle, team.sockets()) };
        let clients = team.replay.as_ref().map(|replay| Clients::new(replay, plan.local));
        let sockets = S::new(means, flows)?;
        let ports = sockets.ports(plan, first..first + flows).or_else(|| match (&clients, &team.replay) {
            (Some(clients), Some(replay)) => {
                let thread = replay.flows.thread_of(first);
                clients.need_ports(tcp).then(|| Ports::of_replay(plan, replay, thread))
            }
            _ => match tcp.local_port {
                Some(port) => Some(Ports::of_each_flow(port, plan, first..first + flows)),
                None => tcp.queries_per_connection.map(|_| Ports::new(plan, first..first + flows)),
            },
        });
        let counts = ConnectionCounts {
            tls: L::counts(),
            ports: ports.as_ref().map_or_else(|| ephemeral::ports().len(), Ports::of_each_address) as u64,
            ..ConnectionCounts::default()
        };
        // The address of a connection that begins as captured, or takes any client's query, is known when it begins.
        let kept = team.replay.as_ref().filter(|replay| !replay.follows && replay.flows.are_of_clients());
        let own = kept.map(|replay| replay.flows.first_clients(&replay.crowd, replay.carried));
        let from = |number: usize| match (&clients, &own) {
            (Some(clients), Some(own)) => clients.address(own[number]),
            (Some(_), None) => None,
            (None, _) => plan.local.map(|local| local.of_socket(number)),
        };
        let place = |number: usize| Place {
            target: number % plan.targets.len(),
            to: plan.targets[number % plan.targets.len()],
            from: from(number),
            connection: None,
            output: Vec::new(),
            tries: Tries::default(),
            stands_for: None,
            closing: None,
            writes: Writes::new(slots),
        };
        let places = (first..first + flows).map(place).collect();
        Ok(Self {
            places,
            shared,
            sockets,
            attempts: Attempts::new(&used, counts),
            buffers: Buffers::new(),
            ports,
            close: tcp.close,
            clients,
        })
    }

    /// An open connection ended. The next one may begin at once, unless the last ones gave no reply.
    fn ended(&mut self, state: &mut ThreadState<'_>, flow: usize, ending: Ending, now_ns: u64) {
        let place = &mut self.places[flow];
        self.attempts.ended(flow, &mut place.tries, ending, now_ns);
        if ending == Ending::GoAway
            && let Some(connection) = &mut place.connection
        {
            part(connection, &mut self.sockets, false);
        }
        self.clear(state, flow, ending.loss(), now_ns);
    }

    /// Empties a place. Its open queries are lost, and it takes as many queries as a new connection.
    fn clear(&mut self, state: &mut ThreadState<'_>, flow: usize, loss: Loss, now_ns: u64) {
        self.empty(flow, now_ns);
        state.books.broken(flow, loss, now_ns);
        state.books.block(flow, false);
        if let Some(uses) = self.attempts.uses_of_connection {
            state.books.allow(flow, uses);
        }
        state.books.emptied(flow);
    }

    /// Takes the connection out of a place, and what waits for it.
    fn empty(&mut self, flow: usize, now_ns: u64) {
        let place = &mut self.places[flow];
        if let Some(mut connection) = place.connection.take() {
            let counts = &mut self.attempts.counts;
            connection.layer.ended(connection.is_open, now_ns, counts.tls.as_mut());
            counts.retransmitted += self.sockets.retransmitted(&connection.socket);
            self.sockets.end(connection.socket);
        }
        place.output.clear();
        place.writes.clear();
        place.stands_for = None;
        place.closing = None;
    }

    /// The layer of a connection failed, which ends the connection or its attempt.
    fn layer_failed(&mut self, state: &mut ThreadState<'_>, flow: usize, fault: &Fault, now_ns: u64) {
        if let (Some(tls), Fault::Tls(failure)) = (&mut self.attempts.counts.tls, fault) {
            tls.failed(failure);
        }
        let Some(connection) = &mut self.places[flow].connection else { return };
        part(connection, &mut self.sockets, true);
        if connection.is_open {
            self.ended(state, flow, fault.ending(), now_ns);
        } else {
            self.failed(state, flow, fault.loss(), now_ns);
        }
    }

    /// Writes what the kernel takes.
    #[inline]
    pub(super) fn flush(&mut self, state: &mut ThreadState<'_>, flow: usize, now_ns: u64) -> io::Result<()> {
        let Place { connection: Some(connection), output, writes, .. } = &mut self.places[flow] else {
            return Ok(());
        };
        // Queries that waited are written later than this turn began.
        let at_ns = if writes.has_unwritten() { state.now_ns() } else { now_ns };
        let wanted = |key| state.books.open_query(flow, key).is_some();
        let outgoing = match connection.layer.outgoing(output, now_ns, wanted) {
            Ok(outgoing) => outgoing,
            Err(fault) => {
                self.layer_failed(state, flow, &fault, now_ns);
                return Ok(());
            }
        };
        match self.sockets.write(&mut connection.socket, outgoing) {
            Ok(taken) => connection.written_bytes += taken as u64,
            Err(error) => {
                connection.broke(&error);
                return S::read(self, state, flow, now_ns);
            }
        }
        let waiting = outgoing.len() + self.sockets.unsent(&connection.socket);
        let unwritten = match waiting {
            0 => output.len() as u64,
            _ if L::IS_PLAIN => waiting as u64,
            // It is not known which queries are in what waits.
            _ => u64::MAX,
        };
        writes.written(unwritten, at_ns);
        connection.layer.each_lost(|key, loss| state.books.lost(flow, key, loss, now_ns));
        let is_full = waiting.max(output.len()) > OUTPUT_MOST;
        state.books.block(flow, is_full || !connection.layer.takes_more());
        let awaits_room = waiting > 0;
        if awaits_room != connection.awaits_room {
            connection.awaits_room = awaits_room;
            self.sockets.await_room(&connection.socket, flow, awaits_room)?;
        }
        Ok(())
    }

    /// Goes on when a connection was made, or may have room.
    #[inline]
    pub(super) fn write_on(
        &mut self,
        state: &mut ThreadState<'_>,
        flow: usize,
        now_ns: u64,
    ) -> io::Result<()> {
        self.flush(state, flow, now_ns)?;
        if self.attempts.has_connections_alone { self.close_if_spent(state, flow, now_ns) } else { Ok(()) }
    }

    /// Notes that the kernel took bytes that had been handed to it, at `at_ns`, and that so many of them are left.
    pub(super) fn written(&mut self, flow: usize, left: usize, at_ns: u64) {
        let Place { output, writes, .. } = &mut self.places[flow];
        if left == 0 || L::IS_PLAIN {
            writes.written((left + output.len()) as u64, at_ns);
        }
    }

    /// The number of places.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// The connection of a place, which is being made or was made.
    #[inline]
    pub(super) fn connection(&mut self, flow: usize) -> Option<&mut Connection<L, S::Socket>> {
        self.places[flow].connection.as_mut()
    }

    /// The counts, once the trial is over at `now_ns`, and those of frames past the kernel. Ends all connections.
    pub(super) fn finish(&mut self, now_ns: u64) -> io::Result<(ConnectionCounts, Option<PastCounts>)> {
        let mut counts = std::mem::take(&mut self.attempts.counts);
        let mut left = Vec::new();
        for mut connection in self.places.iter_mut().filter_map(|place| place.connection.take()) {
            let count = if connection.is_open { &mut counts.open } else { &mut counts.unfinished };
            *count += 1;
            connection.layer.ended(connection.is_open, now_ns, counts.tls.as_mut());
            counts.retransmitted += self.sockets.retransmitted(&connection.socket);
            if self.close == Close::Rst {
                // If it fails, the port stays in TIME_WAIT.
                let _ = self.sockets.close_by_reset(&mut connection.socket);
            } else if connection.is_open {
                part(&mut connection, &mut self.sockets, false);
            }
            left.push(connection.socket);
        }
        L::finish(&self.shared, &mut counts);
        let past = self.sockets.finish(left, &mut counts)?;
        Ok((counts, past))
    }
}

impl<L: Layer, S: Sockets> OverConnections for Places<L, S> {
    fn attempts(&self) -> &Attempts {
        &self.attempts
    }

    fn open_kept(&mut self, state: &mut ThreadState<'_>, is_stopped: impl Fn() -> bool) -> io::Result<()> {
        self.make_kept(state, is_stopped)
    }

    /// Hands queries to a place: they leave at once if its connection is open or takes early data, and as soon as it is
    /// open otherwise.
    #[inline]
    fn hand(
        &mut self,
        state: &mut ThreadState<'_>,
        flow: usize,
        burst: &[Due],
        now_ns: u64,
    ) -> io::Result<()> {
        self.attempts.counts.handed += burst.len() as u64;
        self.prepare(state, flow)?;
        let place = &mut self.places[flow];
        if self.attempts.has_connections_alone {
            place.stands_for = burst.first().map(|due| due.key);
            self.connect(state, flow, now_ns);
            return Ok(());
        }
        let was_idle = state.books.unsettled_of(flow) as usize == burst.len();
        if let Some(connection) = place.connection.as_mut().filter(|one| was_idle && one.is_open) {
            connection.idle_at_bytes = Some(connection.written_bytes);
        }
        for due in burst {
            let query = append(&mut place.output, state.supply.query(due.query).message, due.key);
            state.supply.finish(due.due_ns, due.key, query);
        }
        place.writes.stamps.keep_room(state.books.slots_of(flow));
        place.writes.handed(burst, now_ns);
        state.books.block(flow, place.output.len() > OUTPUT_MOST);
        let can_connect = place.connection.is_none() && place.tries.paused_until_ns.is_none();
        let takes = |one: &Connection<L, S::Socket>| one.is_open || one.layer.takes_early_data();
        let has_room = place.connection.as_ref().is_some_and(|one| takes(one) && !one.awaits_room);
        if has_room {
            self.flush(state, flow, now_ns)?;
        } else if can_connect {
            self.connect(state, flow, now_ns);
        }
        self.places[flow].writes.keep_unwritten(burst);
        Ok(())
    }

    fn tend(&mut self, state: &mut ThreadState<'_>, now_ns: u64, is_loading: bool) -> io::Result<()> {
        self.tend_places(state, now_ns, is_loading)
    }

    fn timer_wait_ns(&self, _: &ThreadState<'_>, now_ns: u64) -> u64 {
        self.next_timer_ns(now_ns).unwrap_or(u64::MAX).max(TICK_NS)
    }
}

/// Writes the last bytes of a connection's layer. `has_failed` is whether the layer failed.
fn part<L: Layer, S: Sockets>(connection: &mut Connection<L, S::Socket>, sockets: &mut S, has_failed: bool) {
    let bytes = connection.layer.last_bytes(has_failed);
    if !bytes.is_empty() {
        sockets.write_last(&connection.socket, bytes);
    }
}
