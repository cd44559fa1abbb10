//! `uring`: each socket has one receive that goes on for ever into buffers provided in advance; replies leave
//! from the same buffers, and one system call submits all that are ready and fetches what has come.

use std::io;

use kqps_kernel::uring::{Completion, Ring};

use super::BUFFER_BYTES;
use crate::answer::{Answer, Packet};
use crate::worker::Worker;

const BUFFERS: u16 = 1024;

pub(super) fn run(worker: &mut Worker<impl Answer>) -> io::Result<()> {
    let Worker { endpoints, answer, counts, going } = worker;
    let mut ring = Ring::new(BUFFERS, BUFFER_BYTES)?;
    for (endpoint, key) in endpoints.iter().zip(0..) {
        ring.receive(&endpoint.receiver, key)?;
    }
    ring.watch_wake(&endpoints[0].receiver)?;
    going.ready()?;
    while going.on() {
        ring.submit_and_wait()?;
        while let Some(completion) = ring.completion() {
            match completion {
                Completion::Received { key, buffer, armed } => {
                    let endpoint = &endpoints[key as usize];
                    if !armed {
                        ring.receive(&endpoint.receiver, key)?;
                    }
                    counts.received += 1;
                    let source_port = ring.sender(&buffer).port();
                    match answer.answer(Packet { bytes: ring.payload(&buffer), source_port }) {
                        Ok(bytes) => ring.reply(&endpoint.sender, buffer, bytes)?,
                        Err(cause) => {
                            counts.drop(cause);
                            ring.give_back(buffer);
                        }
                    }
                }
                Completion::Sent(buffer, outcome) => {
                    counts.sent(outcome);
                    ring.give_back(buffer);
                }
                // The kernel found no free buffer; by the time it looks again there are some.
                Completion::Unarmed(key, None) => ring.receive(&endpoints[key as usize].receiver, key)?,
                Completion::Unarmed(_, Some(error)) => return Err(error),
                Completion::Woken => {}
            }
        }
    }
    Ok(())
}
