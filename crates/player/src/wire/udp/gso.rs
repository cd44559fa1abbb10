//! Batches with segmentation. The loop orders the queries of a burst by length, the longest first. Queries of equal
//! length, and a shorter one after them, leave in one send that the kernel cuts into datagrams (`UDP_SEGMENT`). Replies
//! that the subject sent in segments arrive as one message (`UDP_GRO`). A socket whose device refuses segmented sends
//! falls back to single sends.

use std::cmp::Reverse;
use std::io;
use std::ops::Range;

use kqps_kernel::batch::{RecvBatch, SEGMENTED_BYTES, SEGMENTS, SendBatch, cannot_cut, run_of};
use kqps_kernel::udp::DATAGRAM_BYTES;

use super::receive::receive;
use super::thread::UdpThread;
use crate::books::Due;
use crate::plan::BURST_MOST;

/// Messages that one receiving call takes at most.
const REPLIES: usize = 32;

pub(super) fn play(thread: &mut UdpThread<'_>) -> io::Result<()> {
    let mut replies = RecvBatch::new(REPLIES, SEGMENTED_BYTES);
    let mut sender = Sender::new(thread.wire.sockets.len());
    if !thread.begin()? {
        return Ok(());
    }
    loop {
        let (now_ns, more) = thread.turn();
        let sent_first = thread.sends_first() && sender.send_due(thread);
        let received = receive(thread, &mut replies, now_ns)?;
        if !more {
            break;
        }
        if !sender.send_due(thread) && !sent_first {
            thread.rest(now_ns, received)?;
        }
    }
    thread.drain(|thread, now_ns| receive(thread, &mut replies, now_ns))
}

struct Sender {
    burst: Vec<Due>,
    runs: Vec<Range<usize>>,
    queries: SendBatch,
    /// Whether each socket's device cuts segmented sends, as far as is known.
    segments: Vec<bool>,
}

impl Sender {
    fn new(sockets: usize) -> Self {
        Self {
            burst: Vec::with_capacity(BURST_MOST),
            runs: Vec::with_capacity(BURST_MOST),
            queries: SendBatch::new(BURST_MOST, BURST_MOST * DATAGRAM_BYTES),
            segments: vec![true; sockets],
        }
    }

    /// Sends the due queries. Returns whether it sent any.
    #[inline]
    fn send_due(&mut self, thread: &mut UdpThread<'_>) -> bool {
        let Self { burst, runs, queries, segments } = self;
        let mut sent = false;
        while let Some(socket) = thread.next_burst(burst) {
            order_by_length(burst);
            let most = if segments[socket] { SEGMENTS } else { 1 };
            cut_into_runs(burst, most, runs);
            send(thread, socket, burst, runs, queries, &mut segments[socket]);
            sent = true;
        }
        sent
    }
}

/// Sends a burst, each run in one message. If the kernel cannot cut a run, its queries are sent again one by one. If
/// that succeeds, the socket sends only single queries from then on.
fn send(
    thread: &mut UdpThread<'_>,
    socket: usize,
    burst: &[Due],
    runs: &[Range<usize>],
    queries: &mut SendBatch,
    segments: &mut bool,
) {
    queries.clear();
    for run in runs {
        let run = &burst[run.clone()];
        let segment = (run.len() > 1).then_some(run[0].bytes);
        let bytes = run.iter().map(|due| usize::from(due.bytes)).sum();
        let message = queries.add(&thread.wire.targets[socket], bytes, segment);
        for (due, query) in run.iter().zip(message.chunks_mut(usize::from(run[0].bytes))) {
            thread.state.supply.write(due.query, due.due_ns, due.key, query);
        }
    }
    let mut uncut = Vec::new();
    thread.send_all(
        socket,
        runs.len(),
        |socket, first| queries.send(socket, first),
        |thread, message, outcome| {
            let run = runs[message].clone();
            match outcome {
                Ok(now_ns) => thread.sent(socket, now_ns, &burst[run]),
                Err(errno) if run.len() > 1 && cannot_cut(errno) => uncut.push(run),
                Err(errno) => thread.refused(socket, errno, &burst[run]),
            }
        },
    );
    for run in uncut {
        let mut singles = Vec::new();
        cut_into_runs(&burst[run.clone()], 1, &mut singles);
        let sent_before = thread.state.books.tally.accounts.sent;
        send(thread, socket, &burst[run], &singles, queries, segments);
        if *segments && thread.state.books.tally.accounts.sent > sent_before {
            *segments = false;
            thread.wire.fallbacks += 1;
        }
    }
}

/// Orders a burst by length, the longest first. Often all lengths are equal, and nothing moves.
#[inline]
fn order_by_length(burst: &mut [Due]) {
    if burst.iter().any(|due| due.bytes != burst[0].bytes) {
        burst.sort_unstable_by_key(|due| Reverse(due.bytes));
    }
}

/// Cuts a burst, ordered from the longest query, into runs of at most `most` queries. Each run makes one message.
#[inline]
fn cut_into_runs(burst: &[Due], most: usize, runs: &mut Vec<Range<usize>>) {
    runs.clear();
    let mut start = 0;
    while start < burst.len() {
        let end = start + run_of(burst[start..].iter().map(|due| usize::from(due.bytes)), most);
        runs.push(start..end);
        start = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Arrivals;
    use crate::state::tests::Fixture;

    /// The lengths of the runs into which queries of these lengths are cut.
    fn cut(lengths: &[u16], most: usize) -> Vec<Vec<u16>> {
        let fixture = Fixture::new();
        let mut burst = Vec::new();
        fixture.state(1, 16, u64::MAX, Arrivals::Even).deal(0, 1, &mut burst);
        burst = lengths.iter().map(|&bytes| Due { bytes, ..burst[0] }).collect();
        order_by_length(&mut burst);
        let mut runs = Vec::new();
        cut_into_runs(&burst, most, &mut runs);
        runs.into_iter().map(|run| burst[run].iter().map(|due| due.bytes).collect()).collect()
    }

    #[test]
    fn a_run_is_of_one_length_but_for_a_shorter_end() {
        assert_eq!(cut(&[40, 41, 40, 43, 40], 64), [vec![43, 41], vec![40, 40, 40]]);
        assert_eq!(cut(&[40, 40, 41, 41, 38, 39], 64), [vec![41, 41, 40], vec![40, 39], vec![38]]);
        assert_eq!(cut(&[41, 40], 1), [[41], [40]]);
        assert_eq!(cut(&[], 64), [[0; 0]; 0]);
    }
}
