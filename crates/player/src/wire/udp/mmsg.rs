//! Batches: one `sendmmsg` sends a burst, and `recvmmsg` reads replies.

use std::io;

use kqps_kernel::batch::{RecvBatch, SendBatch};
use kqps_kernel::udp::DATAGRAM_BYTES;

use super::Stage;
use super::receive::hear;
use crate::books::Due;
use crate::plan::BURST_MOST;

pub(super) fn play(stage: &mut Stage<'_>) -> io::Result<()> {
    let mut replies = RecvBatch::new(BURST_MOST, DATAGRAM_BYTES);
    let mut queries = SendBatch::new(BURST_MOST, BURST_MOST * DATAGRAM_BYTES);
    let mut burst = Vec::with_capacity(BURST_MOST);
    if !stage.begin()? {
        return Ok(());
    }
    loop {
        let (now_ns, more) = stage.turn();
        let sent_first = stage.sends_first() && send_due(stage, &mut queries, &mut burst);
        let heard = hear(stage, &mut replies, now_ns)?;
        if !more {
            break;
        }
        if !send_due(stage, &mut queries, &mut burst) && !sent_first {
            stage.rest(now_ns, heard)?;
        }
    }
    stage.drain(|stage, now_ns| hear(stage, &mut replies, now_ns))
}

/// Sends the due queries. Returns whether it sent any.
#[inline]
fn send_due(stage: &mut Stage<'_>, queries: &mut SendBatch, burst: &mut Vec<Due>) -> bool {
    let mut sent = false;
    while let Some(socket) = stage.next_burst(burst) {
        stage.write_queries(socket, burst, queries);
        stage.send_all(
            socket,
            burst.len(),
            |socket, first| queries.send(socket, first),
            |stage, message, outcome| match outcome {
                Ok(now_ns) => stage.sent(socket, now_ns, &burst[message..=message]),
                Err(errno) => stage.refused(socket, errno, &burst[message..=message]),
            },
        );
        sent = true;
    }
    sent
}
