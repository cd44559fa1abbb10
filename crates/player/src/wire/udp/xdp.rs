//! Past the kernel's network stack: the loop writes whole frames into the memory that it shares with the kernel, and
//! reads replies from there (`AF_XDP`). A call hands a burst to the device, and says what the device took. A query is
//! sent once it was taken. What the device refused was not sent. The rest waits in the ring. While it does, the loop
//! sends nothing else, unless the device reads the ring itself.
//!
//! Replies carry the time at which the program on the device selected them, or at which they were read if the driver
//! has no room for that.

mod clients;
mod flows;
pub(in crate::wire) mod numbers;

use std::collections::VecDeque;
use std::io;
use std::slice;

use kqps_kernel::errno::{EBUSY, EMSGSIZE, ENETDOWN};
use kqps_kernel::xdp::XdpSocket;

use super::thread::{WOULD_BLOCK, taken_up_ns};
use crate::books::{Due, Origin};
use crate::error::PlayError;
use crate::plan::{BURST_MOST, Plan};
use crate::record::ThreadResult;
use crate::replay::Replayed;
use crate::state::ThreadState;
use crate::thread::{NAP_LONGEST_NS, PlayerThread, Signals, TICK_NS};
use crate::wire::xdp::{IO, PastCounts, PastPart, Post, ROOM_NAP_NS, Way, arrival_ns};
use clients::Clients;
use flows::Flows;
use numbers::Numbers;

/// Frames that one look reads from a queue between ticks, so that due queries do not wait for long.
const LOOK_MOST: usize = 256;

type XdpThread<'a, E> = PlayerThread<'a, XdpWire<E>>;

/// The ends of a thread's queries on this host: its flows, or the clients of a replay.
trait Endpoints {
    /// An end: a flow, or a client.
    type End;

    /// The origin of the query with this number in the burst of a flow. `origins` are those of a capture.
    fn of_query(&self, origins: &[Origin], flow: usize, number: usize) -> Self::End;

    /// Its flow.
    fn flow(end: &Self::End) -> usize;

    /// Whether a query of so many bytes fits a frame.
    fn has_room(&self, end: &Self::End, query_bytes: usize) -> bool;

    /// Writes the frame of a query with this ID. Returns its length.
    fn write(&self, end: &Self::End, frame: &mut [u8], query: &[u8], id: u16) -> usize;

    /// Notes that a query with this ID was put, whose flow has a table with this many slots.
    fn put(&mut self, _: &Self::End, _: u16, _slots: usize) {}

    /// Books a frame that arrived at this time of the monotonic clock, or hands it to the thread that has its end.
    fn arrived(
        &mut self,
        state: &mut ThreadState<'_>,
        post: Option<&mut Post>,
        frame: &[u8],
        arrived_ns: u64,
    );

    /// Replies that were thrown away for a wrong checksum.
    fn bad_checksums(&self) -> u64;
}

/// The longest query that a way takes behind so many bytes of headers, bytes.
fn longest_query(way: &Way, header_bytes: usize) -> usize {
    // The MTU does not count Ethernet's header.
    let link_bytes = if way.path.vlan.is_some() { 18 } else { 14 };
    (way.mtu + link_bytes).saturating_sub(header_bytes)
}

/// The queues and ends of one thread.
struct XdpWire<E> {
    past: PastPart,
    ends: E,
    /// The queries that wait in each queue.
    rings: Box<[Ring]>,
    /// The tokens of the queries that the device refused in one call.
    refused: Vec<u64>,
    /// Room for a query that is not sent as the dataset has it.
    room: Vec<u8>,
    next_tick_ns: u64,
    /// The next look is the last one.
    is_last: bool,
}

/// Queries whose frames were put into one queue, and that the device has neither taken nor refused, in that order.
#[derive(Default)]
struct Ring {
    waiting: VecDeque<Waiting>,
    /// The token of the first of them; the others have the numbers after it.
    first_token: u64,
}

/// A query that waits for the device.
struct Waiting {
    flow: u32,
    due: Due,
}

/// Plays a thread's part of a trial on `count` flows, of which `first` is the number of the first among all. Returns
/// `None` if the trial was called off.
pub(in crate::wire) fn play(
    (past, numbers): (PastPart, Numbers),
    (first, count): (usize, usize),
    plan: &Plan,
    state: ThreadState<'_>,
    signals: Signals<'_>,
) -> Result<Option<ThreadResult>, PlayError> {
    let flows = Flows::new(plan, &past, numbers, first, count);
    play_from((past, flows), plan, state, signals)
}

/// Plays a thread's part of a replay on `count` flows, of which `first` is the number of the first among all. Returns
/// `None` if the trial was called off.
pub(in crate::wire) fn play_replay(
    (past, numbers): (PastPart, Numbers),
    (replay, flows): (&Replayed, (usize, usize)),
    plan: &Plan,
    mut state: ThreadState<'_>,
    signals: Signals<'_>,
) -> Result<Option<ThreadResult>, PlayError> {
    state.books.share_paths(replay.flows.together());
    let clients = Clients::new(plan, replay, &past, numbers, flows);
    play_from((past, clients), plan, state, signals)
}

fn play_from<E: Endpoints>(
    (mut past, ends): (PastPart, E),
    plan: &Plan,
    state: ThreadState<'_>,
    signals: Signals<'_>,
) -> Result<Option<ThreadResult>, PlayError> {
    let failed = |error| PlayError::Loop { io: IO, error };
    let room = past.sockets.iter_mut().map(XdpSocket::room).min().unwrap_or_default();
    let burst_most = plan.burst.min(room).max(1);
    let rings = past.sockets.iter().map(|_| Ring::default()).collect();
    let (refused, room) = (Vec::new(), Vec::new());
    let wire = XdpWire { past, ends, rings, refused, room, next_tick_ns: 0, is_last: false };
    let mut thread = PlayerThread::new(plan, burst_most, wire, state, signals).map_err(failed)?;
    play_all(&mut thread).map_err(failed)?;
    let past = close(&mut thread).map_err(failed)?;
    Ok(thread.into_result().map(|result| ThreadResult { drops: past.lost(), past: Some(past), ..result }))
}

fn play_all<E: Endpoints>(thread: &mut XdpThread<'_, E>) -> io::Result<()> {
    let mut burst = Vec::with_capacity(BURST_MOST);
    if !thread.begin()? {
        return Ok(());
    }
    loop {
        let (now_ns, more) = thread.turn();
        let sent_first = thread.sends_first() && send_due(thread, &mut burst)?;
        let received = receive(thread, now_ns)?;
        if !more {
            break;
        }
        if !send_due(thread, &mut burst)? && !sent_first {
            rest(thread, now_ns, received)?;
        }
    }
    thread.drain_with(receive, |thread, most_ns| thread.wire.past.wait(most_ns), |wire| wire.is_last = true)
}

/// Sends the due queries. Returns whether it sent any.
#[inline]
fn send_due<E: Endpoints>(thread: &mut XdpThread<'_, E>, burst: &mut Vec<Due>) -> io::Result<bool> {
    let mut sent = false;
    while has_room(thread) {
        let Some((flow, now_ns)) = thread.take_burst(burst) else { break };
        thread.state.books.tally.send_began(now_ns);
        put(thread, flow, burst);
        settle(thread)?;
        sent = true;
    }
    // A thread whose device is down has time to rest.
    Ok(sent && !thread.wire.past.is_down())
}

/// Whether a whole burst can be put into any queue now, or would be refused.
#[inline]
fn has_room<E: Endpoints>(thread: &mut XdpThread<'_, E>) -> bool {
    let burst_most = thread.burst_most;
    let XdpWire { past, rings, .. } = &mut thread.wire;
    past.sockets.iter_mut().zip(rings.iter_mut()).all(|(socket, ring)| {
        let is_free = ring.waiting.is_empty() || socket.is_zero_copy();
        socket.is_down() || is_free && socket.room() >= burst_most
    })
}

/// Writes the frames of a burst.
#[inline]
fn put<E: Endpoints>(thread: &mut XdpThread<'_, E>, flow: usize, burst: &[Due]) {
    let PlayerThread { state, wire: XdpWire { past, ends, rings, room, .. }, .. } = thread;
    for (number, due) in burst.iter().enumerate() {
        let query = state.supply.message(due.query, (due.due_ns, due.key, due.key), room);
        let end = ends.of_query(state.books.origins(), flow, number);
        let flow = E::flow(&end);
        if !ends.has_room(&end, query.len()) {
            state.books.refused(flow, EMSGSIZE, slice::from_ref(due));
            continue;
        }
        let queue = past.queue_of(flow);
        let (socket, Ring { waiting, first_token }) = (&mut past.sockets[queue], &mut rings[queue]);
        if socket.is_down() {
            // Its frame would leave when the device is up again, however late that is.
            state.books.refused(flow, ENETDOWN, slice::from_ref(due));
            continue;
        }
        let token = *first_token + waiting.len() as u64;
        if socket.put(|frame| ends.write(&end, frame, query, due.key), token) {
            ends.put(&end, due.key, state.books.slots_of(flow));
            waiting.push_back(Waiting { flow: flow as u32, due: *due });
        } else {
            state.books.refused(flow, WOULD_BLOCK, slice::from_ref(due));
        }
    }
}

/// Hands what was put to the device, and books what it took and what it refused.
#[inline]
fn settle<E: Endpoints>(thread: &mut XdpThread<'_, E>) -> io::Result<()> {
    let PlayerThread { state, wire: XdpWire { past, rings, refused, .. }, .. } = thread;
    let mut queues = past.sockets.iter_mut().zip(rings.iter_mut());
    queues.try_for_each(|(socket, ring)| settle_queue(state, socket, ring, refused))
}

#[inline]
fn settle_queue(
    state: &mut ThreadState<'_>,
    socket: &mut XdpSocket,
    Ring { waiting, first_token }: &mut Ring,
    refused: &mut Vec<u64>,
) -> io::Result<()> {
    if waiting.is_empty() && !socket.is_down() {
        return Ok(());
    }
    refused.clear();
    let began_ns = state.now_ns();
    let taken = socket.flush(|token| refused.push(token))?;
    // Frames are taken and refused in the order in which they were put.
    let count = taken + refused.len();
    if count == 0 {
        return Ok(());
    }
    // A device that reads the ring itself took them at some time since the last look.
    let ended_ns = if socket.is_zero_copy() { began_ns } else { state.now_ns() };
    let call_ns = began_ns..ended_ns;
    state.books.tally.messages_sent += taken as u64;
    for (index, Waiting { flow, due }) in waiting.drain(..count).enumerate() {
        let at_ns = taken_up_ns(&call_ns, index, count);
        if !refused.is_empty() && refused.contains(&(*first_token + index as u64)) {
            state.books.never_sent(flow as usize, EBUSY, &due, at_ns);
        } else {
            state.sent(flow as usize, at_ns, slice::from_ref(&due));
        }
    }
    *first_token += count as u64;
    Ok(())
}

/// Reads what has arrived. At a tick this is all of it, and queries are settled by time afterwards. Returns whether
/// anything had arrived.
fn receive<E: Endpoints>(thread: &mut XdpThread<'_, E>, now_ns: u64) -> io::Result<bool> {
    settle(thread)?;
    let PlayerThread { state, wire, .. } = thread;
    let XdpWire { past, ends, next_tick_ns, .. } = wire;
    let is_tick = now_ns >= *next_tick_ns || wire.is_last;
    let mut received = read_queues(past, ends, state, (!is_tick).then_some(LOOK_MOST));
    if !is_tick {
        received |= read_post(past, ends, state);
        return Ok(received);
    }
    let all_read_ns = past.all_read(state.clock.clock_ns(now_ns));
    received |= read_post(past, ends, state);
    let since_ns = (now_ns + TICK_NS).saturating_sub(*next_tick_ns);
    *next_tick_ns = now_ns + TICK_NS;
    state.tick(now_ns, since_ns);
    state.books.expire(state.clock.since_start_ns(all_read_ns));
    if wire.is_last {
        give_up(thread);
    }
    Ok(received)
}

/// Reads up to `most` frames of each queue, or all that were there. Returns whether there were any.
#[inline]
fn read_queues(
    past: &mut PastPart,
    ends: &mut impl Endpoints,
    state: &mut ThreadState<'_>,
    most: Option<usize>,
) -> bool {
    let PastPart { sockets, post, read, unstamped, .. } = past;
    let mut frames = 0;
    for socket in sockets {
        let most = most.unwrap_or(socket.receives());
        frames += socket.receive(most, |frame, bytes, stamp_ns| {
            ends.arrived(state, post.as_mut(), &frame[..bytes], arrival_ns(stamp_ns, unstamped));
            None
        });
    }
    if let Some(post) = post {
        post.deliver();
    }
    *read += frames as u64;
    state.books.tally.messages_received += frames as u64;
    frames > 0
}

/// Reads what other threads handed over. Returns whether it was anything.
#[inline]
fn read_post(past: &mut PastPart, ends: &mut impl Endpoints, state: &mut ThreadState<'_>) -> bool {
    let post = past.post.as_mut();
    post.is_some_and(|post| post.each(|frame, arrived_ns| ends.arrived(state, None, frame, arrived_ns)))
}

/// Books what the device never took as not sent, at the end. A device that reads the ring itself may have taken some
/// since the last flush.
#[cold]
fn give_up<E: Endpoints>(thread: &mut XdpThread<'_, E>) {
    let PlayerThread { state, wire: XdpWire { past, rings, .. }, .. } = thread;
    let now_ns = state.now_ns();
    for (socket, Ring { waiting, .. }) in past.sockets.iter_mut().zip(rings.iter_mut()) {
        let taken = socket.taken().min(waiting.len());
        state.books.tally.messages_sent += taken as u64;
        for Waiting { flow, due } in waiting.drain(..taken) {
            state.sent(flow as usize, now_ns, slice::from_ref(&due));
        }
        let errno = if socket.is_down() { ENETDOWN } else { WOULD_BLOCK };
        for Waiting { flow, due } in waiting.drain(..) {
            state.books.never_sent(flow as usize, errno, &due, now_ns);
        }
    }
}

/// Sleeps until there is probably something to do.
fn rest<E: Endpoints>(thread: &mut XdpThread<'_, E>, now_ns: u64, received: bool) -> io::Result<()> {
    let leaves = thread.state.supply.leaves_ns(thread.burst_most);
    let is_down = thread.wire.past.is_down();
    if is_down || thread.wire.rings.iter().any(|ring| !ring.waiting.is_empty()) {
        let soon_ns = now_ns + if is_down { TICK_NS } else { ROOM_NAP_NS };
        let is_zero_copy = thread.wire.past.sockets.iter().all(XdpSocket::is_zero_copy);
        let leaves_ns = leaves.filter(|_| is_zero_copy).map_or(soon_ns, |leaves| *leaves.end());
        thread.state.clock.sleep_until_ns(soon_ns.min(leaves_ns));
        return Ok(());
    }
    if thread.state.is_held_back() {
        return thread.wire.past.wait(NAP_LONGEST_NS.min(thread.state.supply.nap_most_ns()));
    }
    if let (Some(wait), Some(leaves)) = (&mut thread.wait, leaves) {
        wait.withheld.runs_first = thread.precedence.runs_first();
        return wait.until(&mut thread.state, leaves, thread.burst_most, now_ns + NAP_LONGEST_NS);
    }
    if let Some(at_ns) = thread.state.supply.not_before_ns(thread.state.books.waiting()) {
        return thread.wire.past.wait(at_ns.saturating_sub(now_ns).min(NAP_LONGEST_NS));
    }
    match thread.nap_ns(received) {
        Some(nap_ns) => {
            thread.state.clock.sleep_until_ns(now_ns + nap_ns);
            Ok(())
        }
        None => thread.wire.past.wait(NAP_LONGEST_NS),
    }
}

/// Ends the thread's part: the program leaves the device once all threads are here, and the last frames are read.
fn close<E: Endpoints>(thread: &mut XdpThread<'_, E>) -> io::Result<PastCounts> {
    let PlayerThread { state, wire: XdpWire { past, ends, .. }, .. } = thread;
    let mut counts = past.close(|past| {
        read_queues(past, ends, state, None);
        read_post(past, ends, state);
        Ok(())
    })?;
    counts.bad_checksums = ends.bad_checksums();
    counts.taken_late = past.sockets.iter_mut().map(XdpSocket::taken).sum::<usize>() as u64;
    Ok(counts)
}
