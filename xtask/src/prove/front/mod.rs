//! A front among back ends that fail and clients that mean no good: it never hangs, every query has one end, the sums
//! are right, and no reply goes to a client that did not ask for it.

mod beside;
mod colliding;
mod dead;
mod ending;
mod faults;
mod honest;
mod hostile;
mod house;
mod pauses;
mod told;

use std::time::Instant;

use anyhow::{Context as _, Result};

use super::Bench;

/// What is proved, and how.
type Part = (&'static str, fn(&Bench) -> Result<()>);

/// One after the other, since some need the host alone.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    let parts: [Part; 4] = [
        ("back ends with faults", faults::prove),
        ("back ends that die", dead::prove),
        ("hostile clients", hostile::prove),
        ("clients with the same IDs", colliding::prove),
    ];
    for (name, prove) in bench.parts(&parts, |(name, _)| name)? {
        let began = Instant::now();
        prove(bench).with_context(|| (*name).to_owned())?;
        eprintln!("{name}: {:.1} s", began.elapsed().as_secs_f64());
    }
    Ok(())
}
