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

use anyhow::Result;

use super::{Bench, Part};

const PARTS: [Part; 5] = [
    ("aliases", aliases::prove),
    ("differential", differential::prove),
    ("poisoning", poisoning::prove),
    ("faults", faults::prove),
    ("memory", memory::prove),
];

pub(super) fn prove(bench: &Bench) -> Result<()> {
    bench.prove_parts(&PARTS, |_| false)
}
