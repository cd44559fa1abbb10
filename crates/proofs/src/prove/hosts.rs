//! Several hosts: their clocks are known to the stated uncertainty, players on them send what the server receives, a
//! fault anywhere leaves nothing behind, and every setting comes back. The hosts are namespaces on two bridges, with
//! Debian's sshd on each (`lab.rs`).

mod by_ansible;
mod by_ssh;
mod check;
mod clocks;
mod counted;
mod courses;
mod fault;
mod faults;
mod host;
mod host_try;
mod keys;
mod lab;
mod leftovers;
mod losses;
mod network;
mod pods;
mod reach;
mod residence;
mod scale;
mod sshd;
mod study;
mod subject;
mod tuning;
mod void;

use anyhow::Result;
use kqps_skips::skip;

use super::{Bench, Part, Size};

/// The part that needs the agent that plays no load.
pub(super) const SCALE: &str = "scale";

const PARTS: [Part; 11] = [
    ("clocks", clocks::prove),
    ("ssh", by_ssh::prove),
    ("pods", pods::prove),
    ("ansible", by_ansible::prove),
    (SCALE, scale::prove),
    ("residence", residence::prove),
    ("losses", losses::prove),
    ("courses", courses::prove),
    ("faults", faults::prove),
    ("tuning", tuning::prove),
    ("try", host_try::prove),
];

/// The part that installs a program. The small form leaves it out, unless it is asked for by its name.
const INSTALLING: &str = "ansible";

/// Proves the parts one after the other, each in a folder of its own and with hosts of its own.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    if let Err((capability, reason)) = lab::is_offered() {
        skip(capability, format!("hosts of namespaces: {reason}"));
        return Ok(());
    }
    let is_small = bench.size == Size::Small;
    bench.prove_parts(&PARTS, |name| bench.only.is_none() && is_small && name == INSTALLING)
}
