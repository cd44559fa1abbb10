//! Completion queues. One ring receives: a multishot receive on every socket fills provided buffers. The other
//! sends each burst in one submission.

use std::io;

use kqps_kernel::batch::SendBatch;
use kqps_kernel::udp::DATAGRAM_BYTES;
use kqps_kernel::uring::{Completion, Ring};
use kqps_kernel::uring_send::{SendRing, had_no_room};

use super::look::Look;
use super::thread::{SEND_TRIES, UdpThread, taken_up_ns};
use crate::books::Due;
use crate::plan::BURST_MOST;

/// Provided buffers: replies that may arrive between two looks. If they run out, a receive ends and must be armed
/// again. Datagrams then wait in the socket's buffer.
const BUFFERS: u16 = 1024;

/// Sockets whose receives the kernel completes in one look, at least, each in its turn. `IO_LOCAL_TW_DEFAULT_MAX`
/// of Linux 6.13 and later is 20; earlier kernels have no limit.
const SOCKETS_AT_A_TIME: usize = 16;

pub(super) fn play(thread: &mut UdpThread<'_>) -> io::Result<()> {
    let mut ring = Ring::new(BUFFERS, DATAGRAM_BYTES)?;
    for (key, socket) in (0..).zip(thread.wire.sockets) {
        ring.receive(socket, key)?;
    }
    let mut sender = Sender::new()?;
    let mut looks = vec![Look::begin(0, 0); thread.wire.sockets.len()];
    if !thread.begin()? {
        return Ok(());
    }
    loop {
        let (now_ns, more) = thread.turn();
        let sent_first = thread.sends_first() && sender.send_due(thread)?;
        let received = receive(thread, &mut ring, &mut looks, now_ns)?;
        if !more {
            break;
        }
        if !sender.send_due(thread)? && !sent_first {
            thread.rest(now_ns, received)?;
        }
    }
    thread.drain(|thread, now_ns| receive(thread, &mut ring, &mut looks, now_ns))
}

struct Sender {
    ring: SendRing,
    queries: SendBatch,
    burst: Vec<Due>,
    outcomes: Vec<io::Result<()>>,
}

impl Sender {
    fn new() -> io::Result<Self> {
        Ok(Self {
            ring: SendRing::new(BURST_MOST as u32)?,
            queries: SendBatch::new(BURST_MOST, BURST_MOST * DATAGRAM_BYTES),
            burst: Vec::with_capacity(BURST_MOST),
            outcomes: Vec::with_capacity(BURST_MOST),
        })
    }

    /// Sends the due queries. Returns whether it sent any.
    fn send_due(&mut self, thread: &mut UdpThread<'_>) -> io::Result<bool> {
        let Self { ring, queries, burst, outcomes } = self;
        let mut sent = false;
        while let Some(socket) = thread.next_burst(burst) {
            thread.write_queries(socket, burst, queries);
            let began_ns = thread.state.now_ns();
            thread.state.books.tally.send_began(began_ns);
            ring.send(queries, &thread.wire.sockets[socket], outcomes)?;
            for _ in 0..SEND_TRIES {
                if !outcomes.iter().any(had_no_room) {
                    break;
                }
                thread.wait_for_room();
                ring.send_rest(queries, &thread.wire.sockets[socket], outcomes)?;
            }
            let call_ns = began_ns..thread.state.now_ns();
            for (message, (outcome, due)) in outcomes.iter().zip(burst.chunks_exact(1)).enumerate() {
                match outcome {
                    Ok(()) => {
                        thread.state.books.tally.messages_sent += 1;
                        let at_ns = taken_up_ns(&call_ns, message, outcomes.len());
                        thread.sent(socket, at_ns, due);
                    }
                    Err(error) => thread.refused(socket, error.raw_os_error().unwrap_or(0), due),
                }
            }
            sent = true;
        }
        Ok(sent)
    }
}

/// Handles completed receives. Returns whether anything arrived. One look does not return everything: the kernel
/// completes a limited number of receives at a time, and a receive that ran out of buffers must be armed again. So
/// at a tick, before queries time out, this looks until it has read everything that was there when it began.
fn receive(thread: &mut UdpThread<'_>, ring: &mut Ring, looks: &mut [Look], now_ns: u64) -> io::Result<bool> {
    let tick = thread.wire.polling.tick(&mut thread.state, now_ns);
    looks.fill(Look::begin(now_ns, thread.wire.messages_most));
    // After this many looks in a row without a datagram that was there before, each socket has had a turn.
    let vain_most = if tick { 1 + looks.len() / SOCKETS_AT_A_TIME } else { 1 };
    let (mut received, mut vain) = (false, 0);
    while vain < vain_most {
        vain += 1;
        let result = look_once(thread, ring, looks, now_ns)?;
        received |= result.received;
        if result.left_off || (tick && result.was_there) {
            vain = 0;
        } else if !result.received {
            break;
        }
    }
    if tick {
        thread.state.books.expire(now_ns);
    }
    Ok(received)
}

/// The findings of one look at the completions.
#[derive(Default)]
struct LookResult {
    /// It read a datagram.
    received: bool,
    /// It read a datagram that had arrived when looking began.
    was_there: bool,
    /// A receive had ended and was armed again, on a socket that may hold more such datagrams.
    left_off: bool,
}

/// Handles the receives that are complete now.
#[inline]
fn look_once(
    thread: &mut UdpThread<'_>,
    ring: &mut Ring,
    looks: &mut [Look],
    now_ns: u64,
) -> io::Result<LookResult> {
    let mut result = LookResult::default();
    ring.submit_and_look()?;
    while let Some(completion) = ring.completion() {
        match completion {
            Completion::Received { key, buffer, armed } => {
                result.received = true;
                thread.state.books.tally.messages_received += 1;
                let socket = key as usize;
                let at_ns = thread.state.clock.arrival_ns(ring.arrived_ns(&buffer), now_ns);
                result.was_there |= !looks[socket].has_read_all(1, at_ns);
                if ring.sender(&buffer) == thread.wire.targets[socket] {
                    thread.state.books.arrived(socket, ring.payload(&buffer), at_ns);
                } else {
                    thread.state.books.answers_nothing(1);
                }
                ring.give_back(buffer);
                if !armed {
                    ring.receive(&thread.wire.sockets[socket], key)?;
                    result.left_off |= !looks[socket].is_over();
                }
            }
            Completion::Unarmed(key, None) => {
                let socket = key as usize;
                ring.receive(&thread.wire.sockets[socket], key)?;
                result.left_off |= !looks[socket].is_over();
            }
            Completion::Unarmed(_, Some(error)) => return Err(error),
            Completion::Sent(buffer, _) => ring.give_back(buffer),
            Completion::Woken => (),
        }
    }
    Ok(result)
}
