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
mod wire;

use std::time::Instant;

use anyhow::{Context as _, Result};

use super::Bench;

/// The name of a part, and its proof.
type ProofPart = (&'static str, fn(&Bench) -> Result<()>);

const PARTS: [ProofPart; 13] = [
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

/// Proves the parts one after the other, each in a folder of its own.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    for (name, prove) in bench.parts(&PARTS, |(name, _)| name)? {
        let began = Instant::now();
        bench.anew().and_then(|bench| prove(&bench)).with_context(|| (*name).to_owned())?;
        eprintln!("{name}: {:.1} s", began.elapsed().as_secs_f64());
    }
    Ok(())
}
