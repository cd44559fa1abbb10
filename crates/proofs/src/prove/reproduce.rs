//! A repeated measurement gives the same answer: default runs, searches at one server, searches with a greatest rate,
//! and comparisons of a server with itself.

mod comparisons;
mod finds;
mod greatest;
mod runs;

use anyhow::Result;

use super::{Bench, Size};

/// A measurement that is made several times.
struct Measurement {
    name: &'static str,
    prove: fn(&Bench) -> Result<()>,
    is_small: bool,
}

const PARTS: [Measurement; 4] = [
    Measurement { name: "runs", prove: runs::prove, is_small: false },
    Measurement { name: "finds", prove: finds::prove, is_small: true },
    Measurement { name: "greatest", prove: greatest::prove, is_small: true },
    Measurement { name: "comparisons", prove: comparisons::prove, is_small: false },
];

pub(super) fn prove(bench: &Bench) -> Result<()> {
    for part in bench.parts(&PARTS, |part| part.name)? {
        if bench.size == Size::Whole || part.is_small {
            (part.prove)(&bench.anew()?)?;
        }
    }
    Ok(())
}

/// The greatest value as a multiple of the least.
fn apart(values: &[f64]) -> f64 {
    let most = values.iter().copied().fold(f64::MIN, f64::max);
    let least = values.iter().copied().fold(f64::MAX, f64::min);
    most / least
}
