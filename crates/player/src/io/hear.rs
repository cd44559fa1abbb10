//! Hearing in batches, for the loops that receive with `recvmmsg`: with segmentation a message may hold many
//! replies.

use std::io;

use kqps_kernel::batch::{RecvBatch, Wait};

use super::Stage;

/// Reads what has arrived by now on the sockets that are awaited. Tells whether anything did.
#[inline]
pub(super) fn hear(stage: &mut Stage<'_>, batch: &mut RecvBatch, now_ns: u64) -> io::Result<bool> {
    let (sockets, targets) = (stage.sockets, &stage.targets);
    let mut outcome = Ok(false);
    stage.deck.for_each_awaited(now_ns, |deck, socket| {
        loop {
            let count = match batch.recv(&sockets[socket], Wait::No) {
                Ok(count) => count,
                Err(error) => {
                    outcome = Err(error);
                    return;
                }
            };
            deck.tally.messages_heard += count as u64;
            for index in 0..count {
                let message = batch.message(index);
                let segments = message.bytes.chunks(message.segment_bytes.max(1));
                // One without a byte is a datagram, too.
                if message.from != targets[socket] || message.bytes.is_empty() {
                    deck.answers_nothing(segments.len().max(1) as u64);
                } else {
                    segments.for_each(|reply| deck.arrived(socket, reply, message.arrived_ns, now_ns));
                }
            }
            if count > 0
                && let Ok(heard) = &mut outcome
            {
                *heard = true;
            }
            if count < batch.capacity() || deck.came_after(batch.message(count - 1).arrived_ns, now_ns) {
                return;
            }
        }
    });
    outcome
}
