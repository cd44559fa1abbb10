//! The frames of a turn past the kernel: it reads those that have arrived, hands others on to their threads, lets the
//! places know what happened to their connections, and writes segments.

use std::io;

use kqps_kernel::clock;
use kqps_kernel::xdp::ROOM_BYTES;
use kqps_stack::parse;
use kqps_stack::tcp::{Connections, End, Id};

use super::XdpSockets;
use crate::connections::Ending;
use crate::share::Owners;
use crate::state::ThreadState;
use crate::wire::tcp::layer::{Broken, Layer, Rest};
use crate::wire::tcp::places::Places;
use crate::wire::xdp::{PastCounts, PastPart, Post, arrival_ns};

/// Bytes that a layer takes at once: with those that it kept, they fit the room of a read.
const PIECE_BYTES: usize = 1 << 16;

/// Writes the segments that wait, and hands them to the device. One that the device refuses is as good as lost, and is
/// sent again. So is one for a device that is down: it would leave when the device is up again, and its connection may
/// have ended by then.
#[inline]
pub(super) fn transmit(
    past: &mut PastPart,
    tcp: &mut Connections,
    counts: &mut PastCounts,
) -> io::Result<()> {
    if tcp.has_segment() {
        let now_ns = clock::now_ns();
        while tcp.has_segment() {
            let queue = past.queue_of(tcp.next_tag().unwrap_or_default() as usize);
            let mut write = |frame: &mut [u8]| {
                let sent = tcp.poll_transmit(frame, now_ns);
                sent.expect("a segment waits").frame_bytes
            };
            let socket = &mut past.sockets[queue];
            if socket.is_down() {
                write(&mut [0; ROOM_BYTES]);
                counts.refused_segments += 1;
            } else if !socket.put(write, 0) {
                break;
            }
        }
    }
    for socket in past.sockets.iter_mut().filter(|socket| socket.waiting() > 0 || socket.is_down()) {
        socket.flush(|_| counts.refused_segments += 1)?;
    }
    Ok(())
}

/// Reads segments of connections that the player has closed, and answers them.
pub(super) fn serve_closed(
    past: &mut PastPart,
    tcp: &mut Connections,
    counts: &mut PastCounts,
    owners: &Owners,
) -> io::Result<()> {
    let now_ns = clock::now_ns();
    let (first_port, own, verifies) = (*past.ports.start(), past.number, past.verifies);
    let PastPart { sockets, post, read, unstamped, .. } = &mut *past;
    let mut take = |post: Option<&mut Post>, frame: &[u8], arrived_ns| {
        let Some(parsed) = parse(frame) else { return };
        let owner = owner(owners, parsed.ends.to.port(), first_port);
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
        let frames = socket.receive(most, |frame, bytes, stamp_ns| {
            take(post.as_mut(), &frame[..bytes], arrival_ns(stamp_ns, unstamped));
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
#[inline]
fn owner(owners: &Owners, port: u16, first_port: u16) -> usize {
    owners.thread(port.saturating_sub(first_port).into())
}

/// Reads what has arrived, does what is due, and writes what follows. Returns whether anything happened.
pub(super) fn turn<L: Layer>(
    places: &mut Places<L, XdpSockets>,
    state: &mut ThreadState<'_>,
) -> io::Result<bool> {
    places.sockets.now_ns = clock::now_ns();
    let mut happened = false;
    let mut outcome = Ok(());
    // The places need the rest of what is here while frames are read.
    let mut queues = std::mem::take(&mut places.sockets.past.sockets);
    let (mut frames, mut unstamped) = (0, 0);
    for queue in &mut queues {
        let most = queue.receives();
        frames += queue.receive(most, |frame, bytes, stamp_ns| {
            let arrived_ns = arrival_ns(stamp_ns, &mut unstamped);
            if outcome.is_ok() {
                let taken = arrived(places, state, &frame[..bytes], arrived_ns, true);
                outcome = taken.map(|is_news| happened |= is_news);
            }
            None
        });
    }
    places.sockets.past.sockets = queues;
    places.sockets.past.read += frames as u64;
    places.sockets.past.unstamped += unstamped;
    outcome?;
    if let Some(post) = &mut places.sockets.past.post {
        post.deliver();
    }
    happened |= read_post(places, state)?;
    happened |= time_out(places, state)?;
    feed_starved(places, state)?;
    places.sockets.transmit()?;
    Ok(happened)
}

/// Takes frames that other threads handed over. Returns whether anything happened.
pub(super) fn read_post<L: Layer>(
    places: &mut Places<L, XdpSockets>,
    state: &mut ThreadState<'_>,
) -> io::Result<bool> {
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

/// Lets places write on that waited for memory of other connections, as far as there is some.
fn feed_starved<L: Layer>(places: &mut Places<L, XdpSockets>, state: &mut ThreadState<'_>) -> io::Result<()> {
    while places.sockets.tcp.has_send_room()
        && let Some(flow) = places.sockets.starved.pop_front()
    {
        let awaits_room =
            |places: &mut Places<L, XdpSockets>| places.connection(flow).is_some_and(|one| one.awaits_room);
        if awaits_room(places) {
            let now_ns = state.clock.since_start_ns(places.sockets.now_ns);
            places.flush(state, flow, now_ns)?;
            if awaits_room(places) && !places.sockets.tcp.has_send_room() {
                places.sockets.starved.push_back(flow);
            }
        }
    }
    Ok(())
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
        let ending = Ending::of_error(&kind.into());
        return places.go_on(state, flow, Err(Broken::Socket(ending)), now_ns);
    }
    places.connected(state, flow, Err(kind.into()), now_ns);
    Ok(())
}

/// Takes a frame that arrived. `is_own_queue` is whether it came by a queue of this thread, and may be another's.
/// Returns whether anything happened that a place must know of.
#[inline]
fn arrived<L: Layer>(
    places: &mut Places<L, XdpSockets>,
    state: &mut ThreadState<'_>,
    frame: &[u8],
    arrived_ns: u64,
    is_own_queue: bool,
) -> io::Result<bool> {
    let Some(parsed) = parse(frame) else { return Ok(false) };
    let XdpSockets { past, tcp, now_ns: clock_ns, counts, owners, .. } = &mut places.sockets;
    if let Some(post) = past.post.as_mut().filter(|_| is_own_queue) {
        let owner = owner(owners, parsed.ends.to.port(), *past.ports.start());
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
    let at_ns = state.clock.since_start_ns(arrived_ns);
    let (flow, id) = (arrival.tag as usize, arrival.connection);
    if arrival.is_established && has(places, flow, id) {
        established(places, state, flow, now_ns)?;
    }
    let awaits_room = places.connection(flow).is_some_and(|one| one.socket.id == id && one.awaits_room);
    if arrival.acknowledged_bytes > 0 && awaits_room {
        places.flush(state, flow, now_ns)?;
    }
    for bytes in [arrival.bytes, &more[..]].into_iter().flat_map(|all| all.chunks(PIECE_BYTES)) {
        if has(places, flow, id) {
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
