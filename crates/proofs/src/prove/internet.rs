//! The Internet in a box, `kqps serve internet`: what it plays is what its tree of zones says.

mod answers;
mod book;
mod delays;
mod load;
mod resolver;

use anyhow::Result;

use super::{Bench, Part};

const PARTS: [Part; 4] = [
    ("delays", delays::prove),
    ("book", book::prove),
    ("load", load::prove),
    ("resolver", resolver::prove),
];

pub(super) fn prove(bench: &Bench) -> Result<()> {
    bench.prove_parts(&PARTS, |_| false)
}
