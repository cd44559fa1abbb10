//! Receiving in batches, for the loops that use `recvmmsg`. With segmentation a message may hold many
//! replies.

use std::io;

use kqps_kernel::address::Address;
use kqps_kernel::batch::{Received, RecvBatch, Wait};

use super::look::Look;
use super::thread::{UdpSockets, UdpThread};
use crate::state::ThreadState;

/// Reads what has arrived on the sockets that are due for a look. Returns whether anything did.
#[inline]
pub(super) fn receive(thread: &mut UdpThread<'_>, batch: &mut RecvBatch, now_ns: u64) -> io::Result<bool> {
    receive_each(thread, batch, now_ns, |state, (socket, target), message, at_ns| {
        let segments = message.bytes.chunks(message.segment_bytes.max(1));
        // An empty message is a datagram, too.
        if message.from != *target || message.bytes.is_empty() {
            state.books.answers_nothing(segments.len().max(1) as u64);
        } else {
            segments.for_each(|reply| state.books.arrived(socket, reply, at_ns));
        }
    })
}

/// Reads what has arrived on the sockets that are due for a look, and calls `each` for every message with the number of
/// its socket, the target of that socket, and the time of its arrival. Returns whether anything arrived.
#[inline]
pub(super) fn receive_each<'a>(
    thread: &mut UdpThread<'a>,
    batch: &mut RecvBatch,
    now_ns: u64,
    mut each: impl FnMut(&mut ThreadState<'a>, (usize, &Address), &Received<'_>, u64),
) -> io::Result<bool> {
    let UdpSockets { polling, sockets, targets, messages_most, .. } = &mut thread.wire;
    let most = *messages_most;
    let mut outcome = Ok(false);
    polling.each_awaited(&mut thread.state, now_ns, |state, socket| {
        let mut look = Look::begin(now_ns, most);
        loop {
            let count = match batch.recv(&sockets[socket], Wait::No) {
                Ok(0) => return,
                Ok(count) => count,
                Err(error) => {
                    outcome = Err(error);
                    return;
                }
            };
            if let Ok(received) = &mut outcome {
                *received = true;
            }
            state.books.tally.messages_received += count as u64;
            let mut last_ns = 0;
            for index in 0..count {
                let message = batch.message(index);
                last_ns = state.clock.arrival_ns(message.arrived_ns, now_ns);
                each(state, (socket, &targets[socket]), &message, last_ns);
            }
            if count < batch.capacity() || look.has_read_all(count, last_ns) {
                return;
            }
        }
    });
    outcome
}
