//! Replies that may be longer than their queries: each query is copied to where its reply is to stand, and the
//! replies to one flow are put in order of length, so that few messages hold all of them however the lengths
//! alternate. DNS over UDP promises no order (RFC 1035, section 4.2.1).

use std::io;

use kqps_kernel::batch::{Piece, RunBatch, SEGMENTED_BYTES, SEGMENTS, TurnBatch, Wait};
use kqps_kernel::poll::{FOREVER_NS, PollSet};
use kqps_kernel::{Address, LocalAddress};

use super::MESSAGES;
use crate::answer::{Answer, Packet};
use crate::counts::{Cause, Counts};
use crate::io::BUFFER_BYTES;
use crate::sockets::Endpoint;
use crate::worker::Worker;

/// Replies made before they are sent, and the bytes that they may take together: what one call can take in, and
/// half of what a core's cache holds.
const REPLIES: usize = MESSAGES * SEGMENTS;
const REPLIES_BYTES: usize = 256 * 1024;

/// The most bytes in one message: the largest payload of a packet, less than its length field says (RFC 768).
const MESSAGE_BYTES: usize = 65_000;

/// The longest reply that is a segment. A segment must fit the link, here Ethernet with IPv6 (1500 − 48 bytes),
/// whereas a datagram by itself may be cut into fragments.
const SEGMENT_BYTES: usize = 1452;

pub(super) fn run(worker: &mut Worker<impl Answer>) -> io::Result<()> {
    let Worker { endpoints, answer, counts, going } = worker;
    let mut received = TurnBatch::new(MESSAGES, SEGMENTED_BYTES, 1);
    let mut replies = Replies::new();
    let mut set = PollSet::new(endpoints.iter().map(|endpoint| &*endpoint.receiver));
    let wait = if endpoints.len() == 1 { Wait::ForOne } else { Wait::No };
    // The longest run that each endpoint can send, segments: 1 where the device refuses segmented messages,
    // which some do although the socket took the option.
    let mut longest = vec![SEGMENTS; endpoints.len()];
    going.ready()?;
    while going.on() {
        if wait == Wait::No {
            set.wait(FOREVER_NS)?;
        }
        for (endpoint, longest) in endpoints.iter().zip(&mut longest) {
            for index in 0..received.recv(&endpoint.receiver, wait)? {
                let message = received.message(index);
                replies.turn_to(message.from, message.to, *longest);
                if message.bytes.is_empty() {
                    counts.received += 1;
                    counts.drop(Cause::QueryTooShort);
                }
                answer.foresee(message.bytes.chunks(message.segment_bytes));
                for query in message.bytes.chunks(message.segment_bytes) {
                    if !replies.batch.has_room(BUFFER_BYTES) {
                        replies.send(endpoint, counts, longest);
                    }
                    counts.received += 1;
                    replies.answer(query, answer, counts);
                }
            }
            replies.send(endpoint, counts, longest);
        }
    }
    Ok(())
}

/// Replies that wait to be sent.
struct Replies {
    batch: RunBatch,
    /// Those to the present flow, which are in no message yet.
    pieces: Vec<Piece>,
    to: Address,
    from: Option<LocalAddress>,
}

impl Replies {
    fn new() -> Self {
        let batch = RunBatch::new(REPLIES, REPLIES_BYTES);
        Self { batch, pieces: Vec::with_capacity(REPLIES), to: Address::default(), from: None }
    }

    /// What follows goes to this flow.
    fn turn_to(&mut self, to: Address, from: Option<LocalAddress>, longest: usize) {
        if (to, from) != (self.to, self.from) {
            self.put_together(longest);
            (self.to, self.from) = (to, from);
        }
    }

    fn answer(&mut self, query: &[u8], answer: &mut impl Answer, counts: &mut Counts) {
        let buffer = &mut self.batch.room()[..BUFFER_BYTES];
        // What no answer takes is not worth a copy, and would not fit: a longer query is only known as that.
        let query_bytes = query.len().min(BUFFER_BYTES);
        buffer[..query_bytes].copy_from_slice(&query[..query_bytes]);
        match answer.answer(Packet { buffer, query_bytes, source: &self.to }) {
            Ok(bytes) => self.pieces.push(self.batch.keep(bytes)),
            Err(cause) => counts.drop(cause),
        }
    }

    /// Makes messages of the present flow's replies.
    fn put_together(&mut self, longest: usize) {
        self.pieces.sort_unstable_by_key(|piece| std::cmp::Reverse(piece.bytes()));
        let mut rest = &self.pieces[..];
        while !rest.is_empty() {
            let run;
            (run, rest) = rest.split_at(run_of(rest, longest));
            self.batch.add(&self.to, self.from.as_ref(), run);
        }
        self.pieces.clear();
    }

    /// Sends all replies; a run that is refused is sent again datagram by datagram.
    fn send(&mut self, endpoint: &Endpoint, counts: &mut Counts, longest: &mut usize) {
        self.put_together(*longest);
        let batch = &mut self.batch;
        let mut first = 0;
        while first < batch.messages() {
            match batch.send(&endpoint.sender, first) {
                Ok(sent) => {
                    let segments: usize = (first..first + sent).map(|message| batch.segments(message)).sum();
                    counts.answered += segments as u64;
                    first += sent;
                }
                Err(error) if batch.segments(first) == 1 => {
                    counts.refused(&error, 1);
                    first += 1;
                }
                Err(_) => {
                    batch.send_apart(&endpoint.sender, first, |outcome| {
                        if outcome.is_ok() {
                            *longest = 1;
                        }
                        counts.sent(outcome);
                    });
                    first += 1;
                }
            }
        }
        batch.clear();
    }
}

/// How many of these replies, the longest of which comes first, make one message: equal ones, and one shorter.
fn run_of(pieces: &[Piece], longest: usize) -> usize {
    let segment = pieces[0].bytes();
    if segment > SEGMENT_BYTES || segment == 0 {
        return 1;
    }
    let most = longest.min(MESSAGE_BYTES / segment).min(pieces.len());
    let equal = pieces[..most].iter().take_while(|piece| piece.bytes() == segment).count();
    // A shorter one ends the message, and need not be equal.
    if equal < most { equal + 1 } else { equal }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(lengths: &[usize], longest: usize) -> Vec<Vec<usize>> {
        let mut replies = Replies::new();
        for &bytes in lengths {
            let piece = replies.batch.keep(bytes);
            replies.pieces.push(piece);
        }
        replies.pieces.sort_unstable_by_key(|piece| std::cmp::Reverse(piece.bytes()));
        let (mut rest, mut runs) = (&replies.pieces[..], Vec::new());
        while !rest.is_empty() {
            let run;
            (run, rest) = rest.split_at(run_of(rest, longest));
            runs.push(run.iter().map(|piece| piece.bytes()).collect());
        }
        runs
    }

    #[test]
    fn however_lengths_alternate_the_runs_are_few() {
        assert_eq!(runs(&[50, 90, 50, 90, 50, 90], 64), [vec![90, 90, 90, 50], vec![50, 50]]);
        assert_eq!(runs(&[50, 60, 70], 64), [vec![70, 60], vec![50]]);
        assert_eq!(runs(&[50; 5], 2), [vec![50, 50], vec![50, 50], vec![50]]);
        assert_eq!(runs(&[50, 40], 1), [vec![50], vec![40]]);
    }

    #[test]
    fn a_message_fits_a_packet_and_its_segments_the_link() {
        let of_many = runs(&[1452; 64], 64);
        assert_eq!(of_many.iter().map(Vec::len).collect::<Vec<_>>(), [44, 20]);
        assert_eq!(runs(&[1453, 1453, 100], 64), [vec![1453], vec![1453], vec![100]]);
    }
}
