//! Replies that are no longer than their queries: each query becomes its reply in place, and a run of replies is
//! sent from where the queries arrived. Nothing is copied. A datagram without an answer ends a run.

use std::io;
use std::ops::Range;

use kqps_kernel::Address;
use kqps_kernel::batch::{SEGMENTED_BYTES, SEGMENTS, TurnBatch, Wait, cannot_cut};
use kqps_kernel::poll::{FOREVER_NS, PollSet};

use super::MESSAGES;
use crate::answer::{Answer, Query};
use crate::counts::{Cause, Counts};
use crate::sockets::Endpoint;
use crate::worker::Worker;

/// Runs per call. Each message makes one run, and one more for every datagram without an answer between others.
/// If there are more runs, the first ones are sent earlier.
const RUNS: usize = 64;

pub(super) fn run(worker: &mut Worker<impl Answer>) -> io::Result<()> {
    let Worker { endpoints, answer, counts, stop, .. } = worker;
    let mut batch = TurnBatch::new(MESSAGES, SEGMENTED_BYTES, RUNS);
    let mut set = PollSet::new(endpoints.iter().map(|endpoint| &*endpoint.receiver));
    let wait = if endpoints.len() == 1 { Wait::ForOne } else { Wait::No };
    // The longest run that each endpoint can send, in segments. It is 1 if the device refuses segmented messages,
    // which some do although the socket accepted the option.
    let mut longest = vec![SEGMENTS; endpoints.len()];
    let mut runs = Vec::with_capacity(2 * SEGMENTS);
    stop.report_ready()?;
    while !stop.is_set() {
        if wait == Wait::No {
            set.wait(FOREVER_NS)?;
        }
        for (endpoint, longest) in endpoints.iter().zip(&mut longest) {
            let messages = batch.recv(&endpoint.receiver, wait)?;
            for index in 0..messages {
                let message = batch.message(index);
                let (segment, from) = (message.segment_bytes, message.from);
                turn(batch.message_mut(index), segment, &from, *longest, answer, counts, &mut runs);
                for run in runs.drain(..) {
                    if !batch.room() {
                        send(&mut batch, endpoint, counts, longest);
                    }
                    batch.reply(index, run.start, run.len(), u16::try_from(segment).ok());
                }
            }
            answer.end_turn();
            send(&mut batch, endpoint, counts, longest);
        }
    }
    Ok(())
}

/// Answers every datagram of a message in place. Returns the ranges of the message that are runs of replies: each
/// has at most `longest` replies, as long as a segment except for the last.
fn turn(
    bytes: &mut [u8],
    segment: usize,
    source: &Address,
    longest: usize,
    answer: &mut impl Answer,
    counts: &mut Counts,
    runs: &mut Vec<Range<usize>>,
) {
    if bytes.is_empty() {
        counts.received += 1;
        counts.drop(Cause::QueryTooShort);
    }
    let mut run = 0..0;
    for (datagram, at) in bytes.chunks_mut(segment).zip((0..).step_by(segment)) {
        counts.received += 1;
        let length = datagram.len();
        match answer.answer(Query::by_udp(datagram, length, source)).one() {
            // Extends the run if the reply just before this one is part of it and is as long as a segment.
            Ok(length) if run.end == at && run.len() < longest * segment => run.end += length,
            Ok(length) => {
                runs.extend((!run.is_empty()).then_some(run));
                run = at..at + length;
            }
            Err(cause) => counts.drop(cause),
        }
    }
    runs.extend((!run.is_empty()).then_some(run));
}

/// Sends all queued runs. A run that the kernel cannot segment is sent again datagram by datagram.
fn send(batch: &mut TurnBatch, endpoint: &Endpoint, counts: &mut Counts, longest: &mut usize) {
    let mut first = 0;
    while first < batch.queued() {
        match batch.send(&endpoint.sender, first) {
            Ok(sent) => {
                let segments: usize = (first..first + sent).map(|reply| batch.segments(reply)).sum();
                counts.answered += segments as u64;
                first += sent;
            }
            Err(error) => {
                let segments = batch.segments(first);
                if segments > 1 && error.raw_os_error().is_some_and(cannot_cut) {
                    batch.send_apart(&endpoint.sender, first, |outcome| {
                        if outcome.is_ok() {
                            *longest = 1;
                        }
                        counts.sent(outcome);
                    });
                } else {
                    counts.refused(&error, segments as u64);
                }
                first += 1;
            }
        }
    }
    batch.clear_replies();
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::services::echo::EchoAnswer;

    /// Answers datagrams of 12 bytes. A 1 stands for a response, which gets no answer.
    fn turned(responses: &[u8], tail: usize, longest: usize) -> (Vec<Range<usize>>, Counts) {
        let mut bytes: Vec<u8> =
            responses.iter().flat_map(|&response| [0, 0, response << 7, 0, 0, 0, 0, 0, 0, 0, 0, 0]).collect();
        bytes.truncate(bytes.len() - tail);
        let (mut counts, mut runs) = (Counts::default(), Vec::new());
        let source = Address::from(SocketAddr::from(([192, 0, 2, 1], 53)));
        turn(&mut bytes, 12, &source, longest, &mut EchoAnswer::default(), &mut counts, &mut runs);
        (runs, counts)
    }

    #[test]
    fn a_datagram_without_an_answer_ends_a_run() {
        let (runs, counts) = turned(&[0, 0, 1, 0, 1, 1, 0, 0, 0], 0, 64);
        assert_eq!(runs, [0..24, 36..48, 72..108]);
        assert_eq!(counts.received, 9);
        assert_eq!(counts.dropped()["is-response"], 3);
        assert_eq!(turned(&[1, 1], 0, 64).0, []);
        assert_eq!(turned(&[1, 0], 0, 64).0, vec![12..24]);
    }

    #[test]
    fn a_run_has_its_limit_and_a_short_tail_is_looked_at() {
        assert_eq!(turned(&[0; 5], 0, 2).0, [0..24, 24..48, 48..60]);
        assert_eq!(turned(&[0; 3], 0, 1).0, [0..12, 12..24, 24..36]);
        let (runs, counts) = turned(&[0, 0, 0], 1, 64);
        assert_eq!(runs, vec![0..24]);
        assert_eq!(counts.dropped()["query-too-short"], 1);
        assert_eq!(turned(&[0], 12, 64).1.received, 1);
    }
}
