//! The Internet in a box, `kqps serve internet`: what it plays is what its tree of zones says.

mod answers;
mod book;
mod captured;
mod delays;
mod load;
mod resolver;

use std::net::SocketAddr;

use anyhow::Result;

use super::{Bench, Part};
use crate::child::Running;

/// Settings of an Internet whose servers answer at once, at addresses of loopback.
const ON_LOOPBACK: [&str; 5] = [
    "addresses.ipv4=127.64.0.0/10",
    "addresses.ipv6=",
    "delay.root_us=[]",
    "delay.tld_us=[]",
    "delay.company_us=[]",
];

const PARTS: [Part; 5] = [
    ("delays", delays::prove),
    ("book", book::prove),
    ("captured", captured::prove),
    ("load", load::prove),
    ("resolver", resolver::prove),
];

/// Starts the servers of such an Internet in one of its sizes, on one port.
fn start_on_loopback(bench: &Bench, size: &str) -> Result<(Running, SocketAddr)> {
    let mut command = bench.kqps.serve("internet");
    command.args(["--size", size, "--loopback", "0", "--for", "1h"]);
    command.args(["--cpus", &bench.kqps.subject_cpu.to_string()]);
    command.args(ON_LOOPBACK.iter().flat_map(|setting| ["--set", setting]));
    Running::server(&mut command)
}

pub(super) fn prove(bench: &Bench) -> Result<()> {
    bench.prove_parts(&PARTS, |_| false)
}
