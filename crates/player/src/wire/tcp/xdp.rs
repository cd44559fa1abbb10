//! Past the kernel's network stack (`AF_XDP`): TCP is that of `kqps_stack`, and its segments travel in frames that the
//! loop writes and reads itself. The kernel has no socket of a connection and sees none of its segments. A turn reads
//! what has arrived, lets the places do what follows from it, and then writes the segments of all connections. So an
//! ACK goes with the query or the FIN that answers it.

mod frames;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use kqps_kernel::clock;
use kqps_stack::Ends;
use kqps_stack::tcp::{self, ConnectError, Connections, Id, Settings, Status};

use super::kernel::Origin;
use super::layer::Layer;
use super::places::{Places, Sockets};
use super::ports::Ports;
use crate::connections::ConnectionCounts;
use crate::plan::{BURST_MOST, Close, Plan};
use crate::share::{Owners, share_of};
use crate::state::ThreadState;
use crate::thread::{PlayerThread, TICK_NS};
use crate::wire::xdp::{self, PastCounts, PastPart};
use frames::{read_post, serve_closed, transmit, turn};

/// The SYN is sent again after a second, as by the kernel. This is known of a connection that has not ended.
const SYN_AGAIN_NS: u64 = 1_000_000_000;

/// How long the last connections may take to close after the drain.
const LINGER_NS: u64 = 100_000_000;
const LINGER_NAP_NS: u64 = 1_000_000;

/// Connections beyond those of the places: the player has closed them, and their peers have not.
const CLOSING_MOST: usize = 1 << 16;

/// Memory of the connections of a place for what is sent: two blocks of the pool, so that none starves that has a
/// query.
const SEND_BYTES_OF_PLACE: usize = 512;

/// Closed connections that are remembered, to acknowledge a FIN that comes once more.
const REMEMBERED: u32 = 1 << 17;

type XdpThread<'a, L> = PlayerThread<'a, Places<L, XdpSockets>>;

fn play<L: Layer>(thread: &mut XdpThread<'_, L>) -> io::Result<()> {
    let mut burst = Vec::with_capacity(BURST_MOST);
    let mut next_tick_ns = 0;
    thread.open_kept()?;
    // Until all threads have opened theirs, each may have frames of the others.
    while !thread.wire.sockets.past.have_all_opened() {
        let (stop, broken) = thread.stop_signals();
        if stop.is_asked() || broken.load(Relaxed) {
            break;
        }
        XdpSockets::look(&mut thread.wire, &mut thread.state, TICK_NS)?;
    }
    if !thread.begin()? {
        return Ok(());
    }
    let mut received = false;
    loop {
        let (now_ns, more) = thread.turn();
        if !more {
            break;
        }
        let sent = thread.send_due(&mut burst)?;
        thread.wire.sockets.transmit()?;
        let most_ns = if sent && !thread.sends_first() { 0 } else { thread.rest_ns(next_tick_ns, received) };
        received = receive(thread, &mut next_tick_ns, now_ns, most_ns)?;
    }
    thread.drain_with(
        |thread, now_ns| receive(thread, &mut next_tick_ns, now_ns, 0),
        |thread, most_ns| {
            XdpSockets::look(&mut thread.wire, &mut thread.state, most_ns.min(TICK_NS)).map(drop)
        },
        |_| (),
    )
}

/// Looks at the queues, for `most_ns` at most, and settles queries by time at each tick.
fn receive<L: Layer>(
    thread: &mut XdpThread<'_, L>,
    next_tick_ns: &mut u64,
    now_ns: u64,
    most_ns: u64,
) -> io::Result<bool> {
    let mut received = XdpSockets::look(&mut thread.wire, &mut thread.state, most_ns)?;
    if now_ns < *next_tick_ns {
        return Ok(received);
    }
    let read_ns = thread.wire.sockets.past.all_read(thread.state.clock.clock_ns(now_ns));
    // Other threads have handed over all frames that they had read by then.
    received |= read_post(&mut thread.wire, &mut thread.state)?;
    let read_ns = thread.state.clock.since_start_ns(read_ns);
    thread.tick(next_tick_ns, now_ns, read_ns)?;
    Ok(received)
}

/// The queues and connections of one thread.
pub(super) struct XdpSockets {
    past: PastPart,
    /// The thread of each port.
    owners: Owners,
    tcp: Connections,
    /// The present time of the connections, nanoseconds of the monotonic clock.
    now_ns: u64,
    /// How often segments were written.
    rounds: u64,
    counts: PastCounts,
    /// Places whose queries wait for memory that other connections have.
    starved: VecDeque<usize>,
}

/// A connection.
pub(super) struct XdpConnection {
    id: Id,
    /// Whether closing resets it.
    by_reset: bool,
    /// The rounds of writing before it was handed something.
    handed_after: u64,
}

impl Sockets for XdpSockets {
    const IO: &'static str = xdp::IO;

    type Socket = XdpConnection;

    type Means = PastPart;

    fn new(past: PastPart, places: usize) -> io::Result<Self> {
        let mtu = past.ways.iter().map(|way| way.mtu).min().unwrap_or_default();
        let usual = Settings::default();
        let settings = Settings {
            send_pool: places.saturating_mul(SEND_BYTES_OF_PLACE).max(usual.send_pool),
            connections: (places.saturating_mul(2) + CLOSING_MOST) as u32,
            mtu: mtu as u16,
            remembered: REMEMBERED,
            ..usual
        };
        let now_ns = clock::now_ns();
        let tcp = Connections::new(&settings, [fastrand::u64(..), fastrand::u64(..)], now_ns);
        let owners = Owners::new(past.ports.clone().count() as u64, past.threads);
        let (counts, starved) = (PastCounts::default(), VecDeque::new());
        Ok(Self { past, owners, tcp, now_ns, rounds: 0, counts, starved })
    }

    fn ports(&self, plan: &Plan, flows: Range<usize>) -> Option<Ports> {
        let all: Vec<u16> = self.past.ports.clone().collect();
        let own = share_of(all.len() as u64, self.past.threads, self.past.number);
        let own = all[own.start as usize..own.end as usize].to_vec();
        Some(if plan.replay.is_some() {
            Ports::of_clients_of_thread(own, all.len(), plan)
        } else {
            Ports::of_thread(own, all.len(), plan, flows)
        })
    }

    fn connect(
        &mut self,
        from: Origin,
        (to, target): (SocketAddr, usize),
        flow: usize,
    ) -> io::Result<Option<XdpConnection>> {
        let Origin::Pair(pair) = from else { return Err(io::ErrorKind::AddrNotAvailable.into()) };
        let way = self.past.ways[target];
        let address = if pair.ip().is_unspecified() { way.source } else { pair.ip() };
        let ends = Ends { path: way.path, from: SocketAddr::new(address, pair.port()), to };
        self.now_ns = clock::now_ns();
        match self.tcp.connect(&ends, flow as u64, self.now_ns) {
            Ok(id) => Ok(Some(XdpConnection { id, by_reset: false, handed_after: self.rounds })),
            Err(ConnectError::InUse) => Ok(None),
            Err(ConnectError::Full) => Err(io::ErrorKind::OutOfMemory.into()),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn retransmitted(&self, _: &XdpConnection) -> u64 {
        0
    }

    fn has_lost_syn(&self, connection: &XdpConnection, took_ns: u64) -> bool {
        self.status(connection).map_or(took_ns >= SYN_AGAIN_NS, |status| status.retransmitted.syn > 0)
    }

    fn acknowledged_bytes(&self, connection: &XdpConnection) -> u64 {
        self.status(connection).map_or(u64::MAX, |status| status.acknowledged_bytes)
    }

    #[inline]
    fn write(&mut self, connection: &mut XdpConnection, bytes: &mut Vec<u8>) -> io::Result<usize> {
        let taken = self.tcp.send(connection.id, bytes, self.now_ns);
        connection.handed_after = self.rounds;
        drop(bytes.drain(..taken));
        Ok(taken)
    }

    #[inline]
    fn unsent(&self, _: &XdpConnection) -> usize {
        0
    }

    #[inline]
    fn await_room(&mut self, _: &XdpConnection, flow: usize, awaits: bool) -> io::Result<()> {
        // Otherwise the connection has as much as it takes, and an acknowledgment of its own makes room.
        if awaits && !self.tcp.has_send_room() {
            self.starved.push_back(flow);
        }
        Ok(())
    }

    fn write_last(&mut self, connection: &XdpConnection, bytes: &[u8]) {
        // A peer that takes them no more misses nothing that it needs.
        self.tcp.send(connection.id, bytes, self.now_ns);
    }

    /// A FIN follows what was handed over. A reset would overtake even the ACK with which the connection is made.
    #[inline]
    fn may_close(&self, connection: &XdpConnection, how: Close) -> bool {
        let has_left = |status: Status| status.unsent_bytes == 0 && connection.handed_after < self.rounds;
        how == Close::Fin || self.status(connection).is_none_or(has_left)
    }

    fn close_by_reset(&self, connection: &mut XdpConnection) -> io::Result<()> {
        connection.by_reset = true;
        Ok(())
    }

    fn end(&mut self, connection: XdpConnection) {
        let how = if connection.by_reset { tcp::Close::Rst } else { tcp::Close::Fin };
        self.tcp.close(connection.id, how, self.now_ns);
    }

    fn finish(
        &mut self,
        left: Vec<XdpConnection>,
        counts: &mut ConnectionCounts,
    ) -> io::Result<Option<PastCounts>> {
        for connection in left {
            self.end(connection);
        }
        let end_ns = clock::now_ns() + LINGER_NS;
        while self.tcp.count() > 0 && clock::now_ns() < end_ns {
            let now_ns = clock::now_ns();
            self.serve_closed()?;
            self.past.note_read(now_ns);
            self.past.wait(LINGER_NAP_NS)?;
        }
        let Self { past, owners, tcp, counts: ours, .. } = self;
        let frames = past.close(|past| serve_closed(past, tcp, ours, owners))?;
        let (retransmitted, given_up) = (tcp.counts().retransmitted, tcp.counts().fin_wait_given_up);
        counts.retransmitted = retransmitted.total();
        counts.delayed_acks = tcp.counts().delayed_acks;
        Ok(Some(PastCounts {
            bad_checksums: ours.bad_checksums,
            refused_segments: ours.refused_segments,
            retransmitted,
            given_up,
            ..frames
        }))
    }

    fn read<L: Layer>(_: &mut Places<L, Self>, _: &mut ThreadState<'_>, _: usize, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn look<L: Layer>(
        places: &mut Places<L, Self>,
        state: &mut ThreadState<'_>,
        most_ns: u64,
    ) -> io::Result<bool> {
        places.sockets.transmit()?;
        let happened = turn(places, state)?;
        if happened || most_ns == 0 {
            return Ok(happened);
        }
        let XdpSockets { past, tcp, now_ns, .. } = &places.sockets;
        let due_ns = tcp.next_timeout(*now_ns).unwrap_or(u64::MAX);
        past.wait(most_ns.min(due_ns.saturating_sub(*now_ns)))?;
        turn(places, state)
    }

    fn play<L: Layer>(thread: &mut XdpThread<'_, L>) -> io::Result<()> {
        play(thread)
    }
}

impl XdpSockets {
    #[inline]
    fn status(&self, connection: &XdpConnection) -> Option<Status> {
        self.tcp.status(connection.id)
    }

    /// Writes the segments that wait.
    #[inline]
    fn transmit(&mut self) -> io::Result<()> {
        self.rounds += 1;
        transmit(&mut self.past, &mut self.tcp, &mut self.counts)
    }

    /// Does what connections still need that no place has any more.
    fn serve_closed(&mut self) -> io::Result<()> {
        serve_closed(&mut self.past, &mut self.tcp, &mut self.counts, &self.owners)
    }
}
