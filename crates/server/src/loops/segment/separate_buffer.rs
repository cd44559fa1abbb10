//! Replies that may be longer than their queries: each query is copied to the place of its reply, and the
//! replies to one flow leave as few messages.

use std::io;

use kqps_kernel::LocalAddress;
use kqps_kernel::batch::{SEGMENTED_BYTES, SEGMENTS, TurnBatch, Wait};
use kqps_kernel::poll::{FOREVER_NS, PollSet};

use super::MESSAGES;
use crate::answer::{Answer, Query};
use crate::counts::{Cause, Counts};
use crate::loops::BUFFER_BYTES;
use crate::runs::{Longest, Runs};
use crate::sockets::Endpoint;
use crate::worker::Worker;

/// The maximum number of replies before they are sent, and of their bytes: as many as one call can receive, and
/// half of a core's cache.
const REPLIES: usize = MESSAGES * SEGMENTS;
const REPLIES_BYTES: usize = 256 * 1024;

pub(super) fn run(worker: &mut Worker<impl Answer>) -> io::Result<()> {
    let Worker { endpoints, answer, counts, stop, .. } = worker;
    let mut received = TurnBatch::new(MESSAGES, SEGMENTED_BYTES, 1);
    let mut replies = Runs::new(REPLIES, REPLIES_BYTES);
    let mut set = PollSet::new(endpoints.iter().map(|endpoint| &*endpoint.receiver));
    let wait = if endpoints.len() == 1 { Wait::ForOne } else { Wait::No };
    let mut longest = vec![Longest::ANY; endpoints.len()];
    stop.report_ready()?;
    while !stop.is_set() {
        if wait == Wait::No {
            set.wait(FOREVER_NS)?;
        }
        for (number, (endpoint, longest)) in endpoints.iter().zip(&mut longest).enumerate() {
            let messages = received.recv(&endpoint.receiver, wait)?;
            for index in 0..messages {
                let message = received.message(index);
                replies.turn_to(message.from, message.to);
                if message.bytes.is_empty() {
                    counts.received += 1;
                    counts.drop(Cause::QueryTooShort);
                }
                answer.foresee(message.bytes.chunks(message.segment_bytes));
                for query in message.bytes.chunks(message.segment_bytes) {
                    if !replies.has_room(BUFFER_BYTES) {
                        send(&mut replies, endpoint, counts, longest);
                    }
                    counts.received += 1;
                    reply(&mut replies, query, (number, message.to), answer, counts);
                }
            }
            answer.end_turn();
            send(&mut replies, endpoint, counts, longest);
        }
    }
    Ok(())
}

/// Writes the reply to a query, which arrived at this endpoint and was sent to this address of the host.
fn reply(
    replies: &mut Runs,
    query: &[u8],
    (endpoint, local): (usize, Option<LocalAddress>),
    answer: &mut impl Answer,
    counts: &mut Counts,
) {
    let source = replies.to();
    let buffer = &mut replies.room()[..BUFFER_BYTES];
    // A query longer than the buffer gets no answer, so the rest need not be copied: one byte more than the
    // maximum already shows that it is too long.
    let query_bytes = query.len().min(BUFFER_BYTES);
    buffer[..query_bytes].copy_from_slice(&query[..query_bytes]);
    match answer.answer(Query::by_udp(buffer, query_bytes, &source).at(endpoint, local)).one() {
        Ok(bytes) => replies.keep(bytes),
        Err(cause) => counts.drop(cause),
    }
}

fn send(replies: &mut Runs, endpoint: &Endpoint, counts: &mut Counts, longest: &mut Longest) {
    replies.send(&endpoint.sender, longest, |outcome| counts.took(outcome));
}
