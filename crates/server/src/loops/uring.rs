//! `uring`: each socket has one multishot receive into buffers provided in advance. Replies are sent from the
//! same buffers. One system call submits all replies that are ready and fetches what has arrived.

use std::io;

use kqps_kernel::uring::{Completion, Ring};

use super::BUFFER_BYTES;
use crate::answer::{Answer, Query};
use crate::worker::Worker;

const BUFFERS: u16 = 1024;

/// The maximum number of datagrams received after the request to stop: those of the turn, and those that the
/// kernel received meanwhile.
pub(super) const DATAGRAMS: usize = 2 * BUFFERS as usize;

pub(super) fn run<A: Answer>(worker: &mut Worker<A>) -> io::Result<()> {
    let Worker { endpoints, answer, counts, stop, .. } = worker;
    let mut ring = Ring::new(BUFFERS, BUFFER_BYTES)?;
    for (endpoint, key) in endpoints.iter().zip(0..) {
        ring.receive(&endpoint.receiver, key)?;
    }
    ring.watch_wake(&endpoints[0].receiver)?;
    // When the worker is stopped, the kernel still has datagrams and replies whose completions were not read.
    let mut receiving = true;
    let mut replies = 0;
    stop.report_ready()?;
    while receiving || replies > 0 {
        ring.submit_and_wait()?;
        if receiving && stop.is_set() {
            ring.stop_receiving()?;
            receiving = false;
        }
        while let Some(completion) = ring.completion() {
            match completion {
                Completion::Received { key, buffer, armed } => {
                    let endpoint = &endpoints[key as usize];
                    if receiving && !armed {
                        ring.receive(&endpoint.receiver, key)?;
                    }
                    counts.received += 1;
                    let local = if A::LATER { ring.asked(&buffer) } else { None };
                    let (place, query_bytes, source) = ring.slot(&buffer);
                    let query = Query::by_udp(place, query_bytes, &source).at(key as usize, local);
                    match answer.answer(query).one() {
                        Ok(bytes) => {
                            ring.reply(&endpoint.sender, buffer, bytes)?;
                            replies += 1;
                        }
                        Err(cause) => {
                            counts.drop(cause);
                            ring.give_back(buffer);
                        }
                    }
                }
                Completion::Sent(buffer, outcome) => {
                    replies -= 1;
                    counts.sent(outcome);
                    ring.give_back(buffer);
                }
                // The kernel found no free buffer; by the time it looks again there are some.
                Completion::Unarmed(key, None) if receiving => {
                    ring.receive(&endpoints[key as usize].receiver, key)?;
                }
                Completion::Unarmed(_, Some(error)) if receiving => return Err(error),
                // Either this worker or another process that reads from this socket is being stopped. The next
                // turn checks which.
                Completion::Woken if receiving => ring.watch_wake(&endpoints[0].receiver)?,
                Completion::Unarmed(..) | Completion::Woken => {}
            }
        }
        answer.end_turn();
    }
    Ok(())
}
