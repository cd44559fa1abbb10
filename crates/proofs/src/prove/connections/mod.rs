//! Connections: the player's accounts of queries and connections agree with a server that makes faults, its latencies
//! with known times, and whatever ends, runs out or hangs gives a result whose sums are right. Each part goes over
//! every wire.

mod bounded;
mod compare;
mod deaf;
mod delay;
mod exhausted;
mod faults;
mod freeze;
mod idle;
mod killed;
mod mix;
mod network;
mod refusals;
pub(super) mod wire;

use anyhow::Result;

use super::{Bench, Part};

const PARTS: [Part; 13] = [
    ("replies", faults::of_replies),
    ("ends", faults::of_ends),
    ("streams", faults::of_streams),
    ("uring", faults::by_uring),
    ("past-kernel", faults::past_kernel),
    ("refusals", refusals::prove),
    ("freeze", freeze::prove),
    ("delay", delay::prove),
    ("killed", killed::prove),
    ("descriptors", exhausted::descriptors),
    ("ports", exhausted::ports),
    ("idle", idle::prove),
    ("deaf", deaf::prove),
];

pub(super) fn prove(bench: &Bench) -> Result<()> {
    bench.prove_parts(&PARTS, |_| false)
}
