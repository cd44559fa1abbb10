//! Several hosts: their clocks are known to the stated uncertainty, players on them send what the server receives, a
//! fault anywhere leaves nothing behind, and every setting comes back. The hosts are namespaces on two bridges, with
//! Debian's sshd on each (`lab.rs`).

mod by_ansible;
mod by_slurm;
mod by_ssh;
mod check;
mod clocks;
mod counted;
mod fault;
mod faults;
mod host;
mod keys;
mod lab;
mod left;
mod network;
mod packages;
mod pods;
mod reach;
mod refused;
mod scale;
mod slurm;
mod study;
mod tries;
mod tuning;

use std::time::Instant;

use anyhow::{Context as _, Result};
use kqps_skips::skip;

use super::Bench;

/// The name of a part, and its proof.
type ProofPart = (&'static str, fn(&Bench) -> Result<()>);

/// The part that needs the agent that plays no load.
pub(super) const SCALE: &str = "scale";

const PARTS: [ProofPart; 8] = [
    ("clocks", clocks::prove),
    ("ssh", by_ssh::prove),
    ("pods", pods::prove),
    ("ansible", by_ansible::prove),
    ("slurm", by_slurm::prove),
    (SCALE, scale::prove),
    ("faults", faults::prove),
    ("tuning", tuning::prove),
];

/// Proves the parts one after the other, each in a folder of its own and with hosts of its own.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    if let Err((capability, reason)) = lab::is_offered() {
        skip(capability, format!("hosts of namespaces: {reason}"));
        return Ok(());
    }
    for (name, prove) in bench.parts(&PARTS, |(name, _)| name)? {
        let began = Instant::now();
        bench.anew().and_then(|bench| prove(&bench)).with_context(|| (*name).to_owned())?;
        eprintln!("{name}: {:.1} s", began.elapsed().as_secs_f64());
    }
    Ok(())
}
