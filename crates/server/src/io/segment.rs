//! `segment`: a received message holds up to 64 datagrams of one flow and of equal length (`UDP_GRO`), and
//! replies of equal length leave as one message again (`UDP_SEGMENT`): the kernel's work per packet is done once
//! per run. The datagrams of a message lie back to back, so there are two loops: a reply that is no longer than
//! its query stays in its place, and one that may be longer is written elsewhere.

mod apart;
mod in_place;

use std::io;

use crate::answer::Answer;
use crate::worker::Worker;

/// Messages taken by one call; few, since each may fill 64 KiB of cache.
const MESSAGES: usize = 8;

/// Datagrams taken by one call at most: `UDP_MAX_SEGMENTS` of each message, since Linux 6.9.
pub(super) const DATAGRAMS: usize = MESSAGES * 128;

pub(super) fn run<A: Answer>(worker: &mut Worker<A>) -> io::Result<()> {
    if A::GROWS { apart::run(worker) } else { in_place::run(worker) }
}
