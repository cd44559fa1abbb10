//! Completion queues: one ring receives, a multishot receive on every socket filling provided buffers; another
//! sends each burst in one submission.

use std::io;

use kqps_kernel::batch::SendBatch;
use kqps_kernel::uring::{Completion, Ring};
use kqps_kernel::uring_send::SendRing;

use super::Stage;
use super::stage::write_query;
use crate::plan::BURST_MOST;

/// Provided buffers: replies that may arrive between two looks. When they run out a receive ends and is
/// armed again; what waits meanwhile stays in the socket's buffer.
const BUFFERS: u16 = 1024;

/// The longest reply that is read whole: what EDNS advertises at most in practice.
const REPLY_BYTES: usize = 4096;

/// Whether the host offers both rings.
pub(super) fn offered() -> io::Result<()> {
    Ring::new(2, REPLY_BYTES)?;
    SendRing::new(2).map(drop)
}

pub(super) fn play(stage: &mut Stage<'_>) -> io::Result<()> {
    let mut ring = Ring::new(BUFFERS, REPLY_BYTES)?;
    for (key, socket) in (0..).zip(stage.sockets) {
        ring.receive(socket, key)?;
    }
    let mut sender = SendRing::new(BURST_MOST as u32)?;
    let mut queries = SendBatch::new(BURST_MOST, BURST_MOST * usize::from(u16::MAX));
    let (mut burst, mut outcomes) = (Vec::with_capacity(BURST_MOST), Vec::with_capacity(BURST_MOST));
    stage.begin();
    loop {
        let (now_ns, more) = stage.turn();
        let heard = hear(stage, &mut ring, now_ns)?;
        if !more {
            break;
        }
        let mut sent = false;
        while stage.deck.is_due(stage.deck.now_ns(), stage.burst_most) {
            let now_ns = stage.deck.now_ns();
            let socket = stage.deck.deal(now_ns, stage.burst_most, &mut burst);
            if burst.is_empty() {
                break;
            }
            queries.clear();
            for due in &burst {
                write_query(&stage.deck, due, queries.add(&stage.target, usize::from(due.bytes), None));
            }
            stage.deck.tally.send_began(now_ns);
            sender.send(&queries, &stage.sockets[socket], &mut outcomes)?;
            for (outcome, due) in outcomes.iter().zip(burst.chunks_exact(1)) {
                match outcome {
                    Ok(()) => {
                        stage.deck.tally.messages_sent += 1;
                        stage.deck.sent(socket, now_ns, due);
                    }
                    Err(error) => stage.deck.refused(socket, error.raw_os_error().unwrap_or(0), due),
                }
            }
            sent = true;
            if stage.deck.window().is_some() {
                break;
            }
        }
        if !sent {
            stage.rest(now_ns, heard)?;
        }
    }
    stage.drain(|stage, now_ns| hear(stage, &mut ring, now_ns))
}

/// Takes in what the kernel finished. Tells whether anything arrived.
fn hear(stage: &mut Stage<'_>, ring: &mut Ring, now_ns: u64) -> io::Result<bool> {
    let (sockets, target) = (stage.sockets, stage.target);
    // Lets time go by; every socket is heard alike.
    stage.deck.for_each_awaited(now_ns, |_, _| ());
    let mut heard = false;
    ring.submit_and_look()?;
    while let Some(completion) = ring.completion() {
        match completion {
            Completion::Received { key, buffer, armed } => {
                heard = true;
                stage.deck.tally.messages_heard += 1;
                if ring.sender(&buffer) == target {
                    let arrived_ns = ring.arrived_ns(&buffer);
                    stage.deck.arrived(key as usize, ring.payload(&buffer), arrived_ns, now_ns);
                } else {
                    stage.deck.arrived_from_elsewhere(1);
                }
                ring.give_back(buffer);
                if !armed {
                    ring.receive(&sockets[key as usize], key)?;
                }
            }
            Completion::Unarmed(key, None) => ring.receive(&sockets[key as usize], key)?,
            Completion::Unarmed(_, Some(error)) => return Err(error),
            Completion::Sent(buffer, _) => ring.give_back(buffer),
            Completion::Woken => (),
        }
    }
    Ok(heard)
}
