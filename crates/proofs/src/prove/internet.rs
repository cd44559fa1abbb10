//! The Internet in a box, `kqps serve internet`: what it plays is what its tree of zones says.

mod answers;
mod delays;
mod resolver;

use anyhow::Result;

use super::{Bench, Part};

const PARTS: [Part; 2] = [("delays", delays::prove), ("resolver", resolver::prove)];

pub(super) fn prove(bench: &Bench) -> Result<()> {
    bench.prove_parts(&PARTS, |_| false)
}
