//! A cache before servers that the proof plays: it keeps no forged answer, gives every query a fate without asking too
//! often, holds its memory, follows aliases to the same end whatever was asked before, and says what other resolvers say.

mod aliases;
mod differential;
mod faults;
mod memory;
mod message;
mod poisoning;
mod server;
mod upstream;

use std::time::Instant;

use anyhow::{Context as _, Result};

use super::Bench;

/// The name of a part, and its proof.
type ProofPart = (&'static str, fn(&Bench) -> Result<()>);

/// Proves the parts one after the other.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    let parts: [ProofPart; 5] = [
        ("aliases", aliases::prove),
        ("differential", differential::prove),
        ("poisoning", poisoning::prove),
        ("faults", faults::prove),
        ("memory", memory::prove),
    ];
    for (name, prove) in bench.parts(&parts, |(name, _)| name)? {
        let began = Instant::now();
        prove(bench).with_context(|| (*name).to_owned())?;
        eprintln!("{name}: {:.1} s", began.elapsed().as_secs_f64());
    }
    Ok(())
}
