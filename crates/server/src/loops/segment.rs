//! `segment`: a received message holds up to 64 datagrams (128 since Linux 6.9) of one flow and of equal length
//! (`UDP_GRO`). Replies of equal length leave as one message too (`UDP_SEGMENT`). So the kernel does its work
//! once per run instead of once per packet. The datagrams of a message lie back to back, so there are two loops.
//! A reply that is no longer than its query stays in its place; a reply that may be longer is written elsewhere.

mod in_place;
mod separate_buffer;

use std::io;

use crate::answer::Answer;
use crate::worker::Worker;

/// Messages per call; few, since each may fill 64 KiB of cache.
const MESSAGES: usize = 8;

/// The maximum number of datagrams per call: `UDP_MAX_SEGMENTS` of each message, which is 128 since Linux 6.9.
pub(super) const DATAGRAMS: usize = MESSAGES * 128;

pub(super) fn run<A: Answer>(worker: &mut Worker<A>) -> io::Result<()> {
    if A::GROWS { separate_buffer::run(worker) } else { in_place::run(worker) }
}
