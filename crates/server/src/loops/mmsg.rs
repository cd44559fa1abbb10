//! `mmsg`: one `recvmmsg` receives up to 64 datagrams, and one `sendmmsg` sends the replies from the buffers
//! of the queries. With one socket the loop waits in `recvmmsg`, which returns as soon as there is one
//! datagram. With several sockets it polls.

use std::io;

use kqps_kernel::batch::{TurnBatch, Wait};
use kqps_kernel::poll::{FOREVER_NS, PollSet};

use super::BUFFER_BYTES;
use crate::answer::{Answer, Query};
use crate::worker::Worker;

pub(super) const MESSAGES: usize = 64;

pub(super) fn run<A: Answer>(worker: &mut Worker<A>) -> io::Result<()> {
    let Worker { endpoints, answer, counts, stop, .. } = worker;
    let mut batch = TurnBatch::new(MESSAGES, BUFFER_BYTES, MESSAGES);
    let mut set = PollSet::new(endpoints.iter().map(|endpoint| &*endpoint.receiver));
    let wait = if endpoints.len() == 1 { Wait::ForOne } else { Wait::No };
    stop.report_ready()?;
    while !stop.is_set() {
        if wait == Wait::No {
            set.wait(FOREVER_NS)?;
        }
        for (number, endpoint) in endpoints.iter().enumerate() {
            let received = batch.recv(&endpoint.receiver, wait)?;
            counts.received += received as u64;
            answer.foresee((0..received).map(|index| batch.message(index).bytes));
            for index in 0..received {
                let local = if A::LATER { batch.message(index).to } else { None };
                let slot = batch.slot(index);
                let query = Query::by_udp(slot.buffer, slot.bytes, slot.from).at(number, local);
                match answer.answer(query).one() {
                    Ok(bytes) => batch.reply(index, 0, bytes, None),
                    Err(cause) => counts.drop(cause),
                }
            }
            answer.end_turn();
            let mut first = 0;
            while first < batch.queued() {
                match batch.send(&endpoint.sender, first) {
                    Ok(sent) => {
                        counts.answered += sent as u64;
                        first += sent;
                    }
                    Err(error) => {
                        counts.refused(&error, 1);
                        first += 1;
                    }
                }
            }
        }
    }
    Ok(())
}
