//! Batches: one `sendmmsg` sends a burst, and `recvmmsg` reads replies.

use std::io;

use kqps_kernel::batch::{RecvBatch, SendBatch};
use kqps_kernel::udp::DATAGRAM_BYTES;

use super::receive::receive;
use super::thread::UdpThread;
use crate::books::Due;
use crate::plan::BURST_MOST;

pub(super) fn play(thread: &mut UdpThread<'_>) -> io::Result<()> {
    let mut replies = RecvBatch::new(BURST_MOST, DATAGRAM_BYTES);
    let mut queries = SendBatch::new(BURST_MOST, BURST_MOST * DATAGRAM_BYTES);
    let mut burst = Vec::with_capacity(BURST_MOST);
    if !thread.begin()? {
        return Ok(());
    }
    loop {
        let (now_ns, more) = thread.turn();
        let sent_first = thread.sends_first() && send_due(thread, &mut queries, &mut burst);
        let received = receive(thread, &mut replies, now_ns)?;
        if !more {
            break;
        }
        if !send_due(thread, &mut queries, &mut burst) && !sent_first {
            thread.rest(now_ns, received)?;
        }
    }
    thread.drain(|thread, now_ns| receive(thread, &mut replies, now_ns))
}

/// Sends the due queries. Returns whether it sent any.
#[inline]
fn send_due(thread: &mut UdpThread<'_>, queries: &mut SendBatch, burst: &mut Vec<Due>) -> bool {
    let mut sent = false;
    while let Some(socket) = thread.next_burst(burst) {
        thread.write_queries(socket, burst, queries);
        thread.send_all(
            socket,
            burst.len(),
            |socket, first| queries.send(socket, first),
            |thread, message, outcome| match outcome {
                Ok(now_ns) => thread.sent(socket, now_ns, &burst[message..=message]),
                Err(errno) => thread.refused(socket, errno, &burst[message..=message]),
            },
        );
        sent = true;
    }
    sent
}
