//! A private network for server and player, whose counters no other traffic moves.

use std::fs;
use std::io;

use anyhow::{Context as _, Result};
use kqps_faults::streams::{Server, ServerSettings};
use kqps_kernel::namespace::NetNs;
use kqps_kernel::probe;

/// A private network, or why there is none.
pub(super) fn private() -> Result<NetNs, String> {
    probe::probe_one("netns")?;
    NetNs::new().map_err(|error| error.to_string())
}

/// Starts a server in a private network, or in that of this process.
pub(super) fn serve(network: Option<&NetNs>, settings: ServerSettings) -> Result<Server> {
    match network {
        Some(network) => Ok(network.within(|| Server::start(settings).map_err(io::Error::other))?),
        None => Server::start(settings),
    }
}

/// Attempts to connect that failed in this network: `AttemptFails` of RFC 4022.
pub(super) fn attempt_fails(network: &NetNs) -> Result<u64> {
    let text = network.within(|| fs::read_to_string("/proc/thread-self/net/snmp"))?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = lines.next().zip(lines.next()).context("the kernel counts nothing of TCP")?;
    let found = names.split(' ').zip(values.split(' ')).find(|(name, _)| *name == "AttemptFails");
    let (_, value) = found.context("the kernel counts no failed attempts")?;
    value.parse().with_context(|| format!("AttemptFails is {value}"))
}
