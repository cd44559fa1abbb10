//! Past the kernel's network stack (`AF_XDP`): TCP is that of `kqps_stack`, and its segments travel in frames that the
//! loop writes and reads itself. The kernel has no socket of a connection and sees none of its segments. A turn reads
//! what has arrived, lets the places do what follows from it, and then writes the segments of all connections: so an ACK
//! goes with the query or the FIN that answers it.

use std::io;
use std::net::SocketAddr;
use std::ops::{Range, RangeInclusive};
use std::sync::atomic::Ordering::Relaxed;

use kqps_kernel::clock;
use kqps_stack::tcp::{self, Connections, ConnectError, End, Id, Settings, Status};
use kqps_stack::{Ends, parse};

use super::kernel::Origin;
use super::layer::{Broken, Layer, Rest};
use super::places::{Places, Sockets};
use super::ports::Ports;
use super::thread::{Pause, TcpThread};
use crate::connections::ConnectionCounts;
use crate::plan::{BURST_MOST, Close, Plan};
use crate::share::share_of;
use crate::state::ThreadState;
use crate::thread::TICK_NS;
use crate::wire::xdp::{self, PastCounts, PastPart};

/// The SYN is sent again after a second, as by the kernel. This is known of a connection that has not ended.
const SYN_AGAIN_NS: u64 = 1_000_000_000;

/// How long the last connections may take to close after the drain.
const LINGER_NS: u64 = 100_000_000;
const LINGER_NAP_NS: u64 = 1_000_000;

/// Connections beyond those of the places: the player has closed them, and their peers have not.
const CLOSING_MOST: usize = 1 << 16;

/// Closed connections that are remembered, to acknowledge a FIN that comes once more.
const REMEMBERED: u32 = 1 << 17;

type XdpThread<'a, L> = TcpThread<'a, L, XdpSockets>;

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
        let most_ns = if sent && !thread.sends_first() { 0 } else { rest(thread, next_tick_ns, received) };
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
    // What other threads had read by then, they have handed over.
    received |= read_post(&mut thread.wire, &mut thread.state)?;
    let read_ns = thread.state.clock.since_start_ns(read_ns);
    thread.tick(next_tick_ns, now_ns, read_ns)?;
    Ok(received)
}

/// How long to wait for something to read, nanoseconds. Sleeps first, if that is better.
fn rest<L: Layer>(thread: &mut XdpThread<'_, L>, next_tick_ns: u64, received: bool) -> u64 {
    match thread.pause(next_tick_ns, received) {
        Pause::WaitFor(most_ns) => most_ns,
        Pause::SleepUntil(at_ns) => {
            thread.state.clock.sleep_until_ns(at_ns);
            0
        }
    }
}

/// The queues and connections of one thread.
pub(super) struct XdpSockets {
    past: PastPart,
    tcp: Connections,
    /// The present time of the connections, nanoseconds of the monotonic clock.
    now_ns: u64,
    /// How often segments were written.
    rounds: u64,
    counts: PastCounts,
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
        let settings = Settings {
            connections: (places.saturating_mul(2) + CLOSING_MOST) as u32,
            mtu: mtu as u16,
            remembered: REMEMBERED,
            ..Settings::default()
        };
        let now_ns = clock::now_ns();
        let tcp = Connections::new(&settings, [fastrand::u64(..), fastrand::u64(..)], now_ns);
        Ok(Self { past, tcp, now_ns, rounds: 0, counts: PastCounts::default() })
    }

    fn ports(&self, plan: &Plan, flows: Range<usize>) -> Option<Ports> {
        let all: Vec<u16> = self.past.ports.clone().collect();
        let own = share_of(all.len() as u64, self.past.threads, self.past.number);
        let own = all[own.start as usize..own.end as usize].to_vec();
        Some(Ports::of_thread(own, all.len(), plan, flows))
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
    fn await_room(&mut self, _: &XdpConnection, _: usize, _: bool) -> io::Result<()> {
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
            self.serve_closed()?;
            self.past.wait(LINGER_NAP_NS)?;
        }
        let Self { past, tcp, counts: ours, .. } = self;
        let frames = past.close(|past| serve_closed(past, tcp, ours))?;
        let retransmitted = tcp.counts().retransmitted;
        counts.retransmitted = retransmitted.total();
        Ok(Some(PastCounts {
            bad_checksums: ours.bad_checksums,
            refused_segments: ours.refused_segments,
            retransmitted,
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
        serve_closed(&mut self.past, &mut self.tcp, &mut self.counts)
    }
}

/// Writes the segments that wait, and hands them to the device. One that the device refuses is as good as lost, and is
/// sent again.
#[inline]
fn transmit(past: &mut PastPart, tcp: &mut Connections, counts: &mut PastCounts) -> io::Result<()> {
    let socket = past.sender();
    if tcp.has_segment() {
        let now_ns = clock::now_ns();
        while tcp.has_segment() {
            let write = |frame: &mut [u8]| {
                let sent = tcp.poll_transmit(frame, now_ns);
                sent.expect("a segment waits").frame_bytes
            };
            if !socket.put(write, 0) {
                break;
            }
        }
    }
    if socket.waiting() > 0 {
        socket.flush(|_| counts.refused_segments += 1)?;
    }
    Ok(())
}

/// Reads segments of connections that the player has closed, and answers them.
fn serve_closed(past: &mut PastPart, tcp: &mut Connections, counts: &mut PastCounts) -> io::Result<()> {
    let now_ns = clock::now_ns();
    let (ports, threads, own, verifies) = (past.ports.clone(), past.threads, past.number, past.verifies);
    let PastPart { sockets, post, read, .. } = &mut *past;
    let mut take = |post: Option<&mut xdp::Post>, frame: &[u8], arrived_ns| {
        let Some(parsed) = parse(frame) else { return };
        let owner = owner(parsed.ends.to.port(), &ports, threads);
        match post {
            Some(post) if owner != own => post.add(owner, frame, arrived_ns),
            _ if verifies && !parsed.verify() => counts.bad_checksums += 1,
            // No place has the connection any more.
            _ => {
                tcp.receive(&parsed, now_ns);
            }
        }
    };
    for socket in sockets {
        let most = socket.receives();
        let frames = socket.receive(most, |frame, bytes, arrived_ns| {
            take(post.as_mut(), &frame[..bytes], arrived_ns);
            None
        });
        *read += frames as u64;
    }
    if let Some(post) = post {
        post.deliver();
        post.each(|frame, arrived_ns| take(None, frame, arrived_ns));
    }
    while tcp.poll_timeout(now_ns).is_some() {}
    transmit(past, tcp, counts)
}

/// The thread to which a port belongs: it deals the same share of the ports at every address.
fn owner(port: u16, ports: &RangeInclusive<u16>, threads: usize) -> usize {
    let (first, count) = (usize::from(*ports.start()), ports.clone().count() as u64);
    let number = usize::from(port).saturating_sub(first) as u64;
    (0..threads).find(|thread| share_of(count, threads, *thread).contains(&number)).unwrap_or_default()
}

/// Reads what has arrived, does what is due, and writes what follows. Returns whether anything happened.
fn turn<L: Layer>(places: &mut Places<L, XdpSockets>, state: &mut ThreadState<'_>) -> io::Result<bool> {
    places.sockets.now_ns = clock::now_ns();
    let mut happened = false;
    let mut outcome = Ok(());
    // The places need the rest of what is here while frames are read.
    let mut queues = std::mem::take(&mut places.sockets.past.sockets);
    let mut frames = 0;
    for queue in &mut queues {
        let most = queue.receives();
        frames += queue.receive(most, |frame, bytes, arrived_ns| {
            if outcome.is_ok() {
                let taken = arrived(places, state, &frame[..bytes], arrived_ns, true);
                outcome = taken.map(|is_news| happened |= is_news);
            }
            None
        });
    }
    places.sockets.past.sockets = queues;
    places.sockets.past.read += frames as u64;
    outcome?;
    if let Some(post) = &mut places.sockets.past.post {
        post.deliver();
    }
    happened |= read_post(places, state)?;
    happened |= time_out(places, state)?;
    places.sockets.transmit()?;
    Ok(happened)
}

/// Takes frames that other threads handed over. Returns whether anything happened.
fn read_post<L: Layer>(places: &mut Places<L, XdpSockets>, state: &mut ThreadState<'_>) -> io::Result<bool> {
    let Some(mut post) = places.sockets.past.post.take() else { return Ok(false) };
    let (mut happened, mut outcome) = (false, Ok(()));
    post.each(|frame, arrived_ns| {
        if outcome.is_ok() {
            let taken = arrived(places, state, frame, arrived_ns, false);
            outcome = taken.map(|is_news| happened |= is_news);
        }
    });
    places.sockets.past.post = Some(post);
    outcome.map(|()| happened)
}

/// Ends the connections whose peers answer no more. Returns whether there were any.
fn time_out<L: Layer>(places: &mut Places<L, XdpSockets>, state: &mut ThreadState<'_>) -> io::Result<bool> {
    let mut happened = false;
    let clock_ns = places.sockets.now_ns;
    while let Some(timed_out) = places.sockets.tcp.poll_timeout(clock_ns) {
        happened = true;
        let now_ns = state.clock.since_start_ns(clock_ns);
        let flow = timed_out.tag as usize;
        if has(places, flow, timed_out.connection) {
            broken(places, state, flow, io::ErrorKind::TimedOut, now_ns)?;
        }
    }
    Ok(happened)
}

/// Whether a place has this connection.
#[inline]
fn has<L: Layer>(places: &mut Places<L, XdpSockets>, flow: usize, id: Id) -> bool {
    places.connection(flow).is_some_and(|connection| connection.socket.id == id)
}

/// The connection of a place was made. Its ACK waits to be written.
#[inline]
fn established<L: Layer>(
    places: &mut Places<L, XdpSockets>,
    state: &mut ThreadState<'_>,
    flow: usize,
    now_ns: u64,
) -> io::Result<()> {
    let rounds = places.sockets.rounds;
    if let Some(connection) = places.connection(flow) {
        connection.socket.handed_after = rounds;
    }
    if places.connected(state, flow, Ok(()), now_ns) {
        places.write_on(state, flow, now_ns)?;
    }
    Ok(())
}

/// The connection of a place, or its making, broke.
fn broken<L: Layer>(
    places: &mut Places<L, XdpSockets>,
    state: &mut ThreadState<'_>,
    flow: usize,
    kind: io::ErrorKind,
    now_ns: u64,
) -> io::Result<()> {
    let is_connected = places.connection(flow).is_some_and(|connection| connection.connected_ns.is_some());
    if is_connected {
        return places.go_on(state, flow, Err(Broken::Socket), now_ns);
    }
    places.connected(state, flow, Err(kind.into()), now_ns);
    Ok(())
}

/// Takes a frame that arrived. `is_own_queue` is whether it came by a queue of this thread, and may be another's. Returns
/// whether anything happened that a place must know of.
#[inline]
fn arrived<L: Layer>(
    places: &mut Places<L, XdpSockets>,
    state: &mut ThreadState<'_>,
    frame: &[u8],
    arrived_ns: u64,
    is_own_queue: bool,
) -> io::Result<bool> {
    let Some(parsed) = parse(frame) else { return Ok(false) };
    let XdpSockets { past, tcp, now_ns: clock_ns, counts, .. } = &mut places.sockets;
    if let Some(post) = past.post.as_mut().filter(|_| is_own_queue) {
        let owner = owner(parsed.ends.to.port(), &past.ports, past.threads);
        if owner != past.number {
            post.add(owner, frame, arrived_ns);
            return Ok(false);
        }
    }
    if past.verifies && !parsed.verify() {
        counts.bad_checksums += 1;
        return Ok(false);
    }
    let Some(arrival) = tcp.receive(&parsed, *clock_ns) else { return Ok(false) };
    // It is there until the next segment is taken.
    let more = if arrival.more_bytes > 0 { tcp.more().to_vec() } else { Vec::new() };
    let now_ns = state.clock.since_start_ns(*clock_ns);
    let at_ns = if arrived_ns == 0 { now_ns } else { state.clock.since_start_ns(arrived_ns) };
    let (flow, id) = (arrival.tag as usize, arrival.connection);
    if arrival.is_established && has(places, flow, id) {
        established(places, state, flow, now_ns)?;
    }
    let awaits_room = places.connection(flow).is_some_and(|one| one.socket.id == id && one.awaits_room);
    if arrival.acknowledged_bytes > 0 && awaits_room {
        places.flush(state, flow, now_ns)?;
    }
    for bytes in [arrival.bytes, &more[..]] {
        if !bytes.is_empty() && has(places, flow, id) {
            let (mut hearing, _, buffers) = places.split(flow, now_ns);
            let joined = buffers.join(hearing.kept(), bytes);
            let rest = hearing.hear(state, joined, at_ns);
            places.go_on(state, flow, rest, now_ns)?;
        }
    }
    if arrival.is_peer_closed && has(places, flow, id) {
        places.go_on(state, flow, Ok(Rest::End), now_ns)?;
    }
    let kind = match arrival.ended {
        Some(End::Refused) => io::ErrorKind::ConnectionRefused,
        Some(End::Reset) => io::ErrorKind::ConnectionReset,
        Some(End::Finished) | None => return Ok(true),
    };
    if has(places, flow, id) {
        broken(places, state, flow, kind, now_ns)?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_belongs_to_the_thread_that_deals_it() {
        let ports = 1024..=2000;
        for threads in [1, 2, 3, 7] {
            for thread in 0..threads {
                let share = share_of(977, threads, thread);
                for number in [share.start, share.end - 1] {
                    assert_eq!(owner(1024 + number as u16, &ports, threads), thread);
                }
            }
        }
    }
}
