//! A front among failing back ends and hostile clients: it never hangs, accounts for every query once, its
//! sums are right, and no reply goes to a client that did not ask for it.

mod colliding;
mod counts;
mod dead;
mod ending;
mod faults;
mod honest;
mod honest_load;
mod hostile;
mod pauses;
mod servers;

use std::time::Instant;

use anyhow::{Context as _, Result, anyhow};

use super::{Bench, Size};

/// The name of a part, and its proof.
type ProofPart = (&'static str, fn(&Bench) -> Result<()>);

/// Proves the parts one after the other in the whole form, since some need the host to themselves. The small
/// form proves them at the same time, since each mostly waits.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    let parts: [ProofPart; 4] = [
        ("back ends with faults", faults::prove),
        ("back ends that die", dead::prove),
        ("hostile clients", hostile::prove),
        ("clients with the same IDs", colliding::prove),
    ];
    let parts = bench.parts(&parts, |(name, _)| name)?;
    if bench.size == Size::Whole {
        return parts.into_iter().try_for_each(|part| prove_part(bench, part));
    }
    std::thread::scope(|scope| {
        let proofs: Vec<_> = parts.into_iter().map(|part| scope.spawn(|| prove_part(bench, part))).collect();
        proofs.into_iter().try_for_each(|proof| proof.join().map_err(|_| anyhow!("a part panicked"))?)
    })
}

/// Proves a part in a folder of its own.
fn prove_part(bench: &Bench, (name, prove): &ProofPart) -> Result<()> {
    let began = Instant::now();
    bench.anew().and_then(|bench| prove(&bench)).with_context(|| (*name).to_owned())?;
    eprintln!("{name}: {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}
