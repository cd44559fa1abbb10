//! A repeated measurement gives the same answer: default runs, searches at one server, and comparisons of a server with
//! itself.

mod comparisons;
mod finds;
mod runs;

use anyhow::Result;

use super::{Bench, Part, Size};

const PARTS: [Part; 3] =
    [("runs", runs::prove), ("finds", finds::prove), ("comparisons", comparisons::prove)];

/// The parts that have no small form.
const WHOLE: [&str; 2] = ["runs", "comparisons"];

pub(super) fn prove(bench: &Bench) -> Result<()> {
    bench.prove_parts(&PARTS, |name| bench.size == Size::Small && WHOLE.contains(&name))
}

/// The greatest value as a multiple of the least.
fn apart(values: &[f64]) -> f64 {
    let most = values.iter().copied().fold(f64::MIN, f64::max);
    let least = values.iter().copied().fold(f64::MAX, f64::min);
    most / least
}
