//! A front among failing back ends and hostile clients: it never hangs, accounts for every query once, its
//! sums are right, and no reply goes to a client that did not ask for it.

mod counts;
mod dead;
mod faults;
mod honest;
mod honest_load;
mod hostile;
mod servers;

use anyhow::Result;

use super::{Bench, Part, Size, side_by_side};

const PARTS: [Part; 3] = [
    ("back ends with faults", faults::prove),
    ("back ends that die", dead::prove),
    ("hostile clients", hostile::prove),
];

/// Proves the parts one after the other in the whole form, since some need the host to themselves. The small
/// form proves them at the same time, since each mostly waits.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    if bench.size == Size::Whole {
        return bench.prove_parts(&PARTS, |_| false);
    }
    let parts = bench.parts(&PARTS, |(name, _)| name)?;
    side_by_side(&parts, parts.len(), |part| bench.prove_one(part)).map(drop)
}
