//! Completion queues: one ring receives, a multishot receive on every socket filling provided buffers; another
//! sends each burst in one submission.

use std::io;

use kqps_kernel::batch::SendBatch;
use kqps_kernel::uring::{Completion, Ring};
use kqps_kernel::uring_send::{SendRing, had_no_room};

use super::Stage;
use super::stage::{SEND_TRIES, taken_up_ns};
use crate::deck::Due;
use crate::plan::BURST_MOST;

/// Provided buffers: replies that may arrive between two looks. When they run out a receive ends and is
/// armed again; what waits meanwhile stays in the socket's buffer.
const BUFFERS: u16 = 1024;

/// The longest reply that is read whole: what EDNS advertises at most in practice.
const REPLY_BYTES: usize = 4096;

pub(super) fn play(stage: &mut Stage<'_>) -> io::Result<()> {
    let mut ring = Ring::new(BUFFERS, REPLY_BYTES)?;
    for (key, socket) in (0..).zip(stage.sockets) {
        ring.receive(socket, key)?;
    }
    let mut sender = Sender::new()?;
    if !stage.begin()? {
        return Ok(());
    }
    loop {
        let (now_ns, more) = stage.turn();
        let sent_first = stage.sends_first() && sender.send_due(stage)?;
        let heard = hear(stage, &mut ring, now_ns)?;
        if !more {
            break;
        }
        if !sender.send_due(stage)? && !sent_first {
            stage.rest(now_ns, heard)?;
        }
    }
    stage.drain(|stage, now_ns| hear(stage, &mut ring, now_ns))
}

/// What sending takes.
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
            queries: SendBatch::new(BURST_MOST, BURST_MOST * usize::from(u16::MAX)),
            burst: Vec::with_capacity(BURST_MOST),
            outcomes: Vec::with_capacity(BURST_MOST),
        })
    }

    /// Sends what is due. Tells whether anything was.
    fn send_due(&mut self, stage: &mut Stage<'_>) -> io::Result<bool> {
        let Self { ring, queries, burst, outcomes } = self;
        let mut sent = false;
        while let Some(socket) = stage.next_burst(burst) {
            stage.write_queries(socket, burst, queries);
            let began_ns = stage.deck.now_ns();
            stage.deck.tally.send_began(began_ns);
            ring.send(queries, &stage.sockets[socket], outcomes)?;
            for _ in 0..SEND_TRIES {
                if !outcomes.iter().any(had_no_room) {
                    break;
                }
                stage.wait_for_room();
                ring.send_rest(queries, &stage.sockets[socket], outcomes)?;
            }
            let call_ns = began_ns..stage.deck.now_ns();
            for (message, (outcome, due)) in outcomes.iter().zip(burst.chunks_exact(1)).enumerate() {
                match outcome {
                    Ok(()) => {
                        stage.deck.tally.messages_sent += 1;
                        let at_ns = taken_up_ns(&call_ns, message, outcomes.len());
                        stage.deck.sent(socket, at_ns, due);
                    }
                    Err(error) => stage.deck.refused(socket, error.raw_os_error().unwrap_or(0), due),
                }
            }
            sent = true;
        }
        Ok(sent)
    }
}

/// Takes in what the kernel finished. Tells whether anything arrived. One look does not bring everything: the
/// kernel finishes a limited number of receives at a time, and those that ended for want of buffers are to be
/// armed again. So before time runs out for a query, it looks until there is nothing more that came before now.
fn hear(stage: &mut Stage<'_>, ring: &mut Ring, now_ns: u64) -> io::Result<bool> {
    let tick = stage.deck.tick(now_ns);
    let (mut heard, mut again) = (false, true);
    while again {
        again = false;
        ring.submit_and_look()?;
        while let Some(completion) = ring.completion() {
            match completion {
                Completion::Received { key, buffer, armed } => {
                    heard = true;
                    let arrived_ns = ring.arrived_ns(&buffer);
                    again |= tick && !stage.deck.came_after(arrived_ns, now_ns);
                    stage.deck.tally.messages_heard += 1;
                    let socket = key as usize;
                    if ring.sender(&buffer) == stage.targets[socket] {
                        stage.deck.arrived(socket, ring.payload(&buffer), arrived_ns, now_ns);
                    } else {
                        stage.deck.answers_nothing(1);
                    }
                    ring.give_back(buffer);
                    if !armed {
                        ring.receive(&stage.sockets[socket], key)?;
                        again = true;
                    }
                }
                Completion::Unarmed(key, None) => {
                    ring.receive(&stage.sockets[key as usize], key)?;
                    again = true;
                }
                Completion::Unarmed(_, Some(error)) => return Err(error),
                Completion::Sent(buffer, _) => ring.give_back(buffer),
                Completion::Woken => (),
            }
        }
    }
    if tick {
        stage.deck.expire(now_ns);
    }
    Ok(heard)
}
