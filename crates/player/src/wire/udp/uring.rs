//! Completion queues. One ring receives: a multishot receive on every socket fills provided buffers. The other
//! sends each burst in one submission.

use std::io;

use kqps_kernel::batch::SendBatch;
use kqps_kernel::udp::DATAGRAM_BYTES;
use kqps_kernel::uring::{Completion, Ring};
use kqps_kernel::uring_send::{SendRing, had_no_room};

use super::Stage;
use super::look::Look;
use super::thread::{SEND_TRIES, taken_up_ns};
use crate::books::Due;
use crate::plan::BURST_MOST;

/// Provided buffers: replies that may arrive between two looks. If they run out, a receive ends and must be armed
/// again. Datagrams then wait in the socket's buffer.
const BUFFERS: u16 = 1024;

/// Sockets whose receives the kernel completes in one look, at least, each in its turn. `IO_LOCAL_TW_DEFAULT_MAX`
/// of Linux 6.13 and later is 20; earlier kernels have no limit.
const SOCKETS_AT_A_TIME: usize = 16;

pub(super) fn play(stage: &mut Stage<'_>) -> io::Result<()> {
    let mut ring = Ring::new(BUFFERS, DATAGRAM_BYTES)?;
    for (key, socket) in (0..).zip(stage.sockets) {
        ring.receive(socket, key)?;
    }
    let mut sender = Sender::new()?;
    let mut looks = vec![Look::begin(0, 0); stage.sockets.len()];
    if !stage.begin()? {
        return Ok(());
    }
    loop {
        let (now_ns, more) = stage.turn();
        let sent_first = stage.sends_first() && sender.send_due(stage)?;
        let heard = hear(stage, &mut ring, &mut looks, now_ns)?;
        if !more {
            break;
        }
        if !sender.send_due(stage)? && !sent_first {
            stage.rest(now_ns, heard)?;
        }
    }
    stage.drain(|stage, now_ns| hear(stage, &mut ring, &mut looks, now_ns))
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
    fn send_due(&mut self, stage: &mut Stage<'_>) -> io::Result<bool> {
        let Self { ring, queries, burst, outcomes } = self;
        let mut sent = false;
        while let Some(socket) = stage.next_burst(burst) {
            stage.write_queries(socket, burst, queries);
            let began_ns = stage.state.now_ns();
            stage.state.books.tally.send_began(began_ns);
            ring.send(queries, &stage.sockets[socket], outcomes)?;
            for _ in 0..SEND_TRIES {
                if !outcomes.iter().any(had_no_room) {
                    break;
                }
                stage.wait_for_room();
                ring.send_rest(queries, &stage.sockets[socket], outcomes)?;
            }
            let call_ns = began_ns..stage.state.now_ns();
            for (message, (outcome, due)) in outcomes.iter().zip(burst.chunks_exact(1)).enumerate() {
                match outcome {
                    Ok(()) => {
                        stage.state.books.tally.messages_sent += 1;
                        let at_ns = taken_up_ns(&call_ns, message, outcomes.len());
                        stage.sent(socket, at_ns, due);
                    }
                    Err(error) => stage.refused(socket, error.raw_os_error().unwrap_or(0), due),
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
fn hear(stage: &mut Stage<'_>, ring: &mut Ring, looks: &mut [Look], now_ns: u64) -> io::Result<bool> {
    let tick = stage.polling.tick(&mut stage.state, now_ns);
    looks.fill(Look::begin(now_ns, stage.messages_most));
    // After this many looks in a row without such a datagram, each socket has had a turn.
    let vain_most = if tick { 1 + looks.len() / SOCKETS_AT_A_TIME } else { 1 };
    let (mut heard, mut vain) = (false, 0);
    while vain < vain_most {
        vain += 1;
        let seen = look_once(stage, ring, looks, now_ns)?;
        heard |= seen.heard;
        if seen.left_off || (tick && seen.of_then) {
            vain = 0;
        } else if !seen.heard {
            break;
        }
    }
    if tick {
        stage.state.books.expire(now_ns);
    }
    Ok(heard)
}

/// What one look at the completions returned.
#[derive(Default)]
struct Seen {
    /// Anything arrived.
    heard: bool,
    /// A datagram arrived that was there when looking began.
    of_then: bool,
    /// A receive had ended and was armed again, on a socket that may hold more such datagrams.
    left_off: bool,
}

/// Handles the receives that are complete now.
#[inline]
fn look_once(stage: &mut Stage<'_>, ring: &mut Ring, looks: &mut [Look], now_ns: u64) -> io::Result<Seen> {
    let mut seen = Seen::default();
    ring.submit_and_look()?;
    while let Some(completion) = ring.completion() {
        match completion {
            Completion::Received { key, buffer, armed } => {
                seen.heard = true;
                stage.state.books.tally.messages_heard += 1;
                let socket = key as usize;
                let at_ns = stage.state.clock.arrival_ns(ring.arrived_ns(&buffer), now_ns);
                seen.of_then |= !looks[socket].has_read_all(1, at_ns);
                if ring.sender(&buffer) == stage.targets[socket] {
                    stage.state.books.arrived(socket, ring.payload(&buffer), at_ns);
                } else {
                    stage.state.books.answers_nothing(1);
                }
                ring.give_back(buffer);
                if !armed {
                    ring.receive(&stage.sockets[socket], key)?;
                    seen.left_off |= !looks[socket].is_over();
                }
            }
            Completion::Unarmed(key, None) => {
                let socket = key as usize;
                ring.receive(&stage.sockets[socket], key)?;
                seen.left_off |= !looks[socket].is_over();
            }
            Completion::Unarmed(_, Some(error)) => return Err(error),
            Completion::Sent(buffer, _) => ring.give_back(buffer),
            Completion::Woken => (),
        }
    }
    Ok(seen)
}
