//! Two network namespaces joined by a veth pair, and the packet filter in each. All of it vanishes with
//! the descriptors that hold it.

use std::net::Ipv4Addr;

use anyhow::{Context as _, Result, bail};
use kqps_kernel::namespace::NetNs;
use kqps_kernel::namespace::veth::{self, End, VethSettings};
use kqps_kernel::probe;
use kqps_programs::shell;
use serde_json::Value;

use crate::path::run_in;

/// Addresses from the benchmarking network (RFC 2544, appendix C.2.2).
const PLAYER: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
pub(super) const SUBJECT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
pub(super) const PORT: u16 = 5300;

pub(super) struct Network {
    pub(super) player: NetNs,
    pub(super) subject: NetNs,
}

/// A filter's hook (nft(8), "ADDRESS FAMILIES").
#[derive(Clone, Copy, Debug)]
pub(super) enum Hook {
    Input,
    Output,
}

/// An error if this host cannot do it, with the reason.
pub(super) fn is_offered() -> Result<()> {
    if let Err(reason) = probe::probe_one("veth") {
        bail!("no veth pair between network namespaces can be made: {reason}");
    }
    shell::find("nft").context("there is no nft: install the package nftables")?;
    shell::find("python3").context("there is no python3")?;
    Ok(())
}

impl Network {
    pub(super) fn lay() -> Result<Self> {
        let network = Self { player: NetNs::new()?, subject: NetNs::new()? };
        let player = End { namespace: &network.player, address: PLAYER };
        let subject = End { namespace: &network.subject, address: SUBJECT };
        veth::join(player, subject, &VethSettings::default())?;
        Ok(network)
    }
}

/// Sets up a filter that drops one datagram in a hundred, at random, and counts the drops.
pub(super) fn drop_one_in_a_hundred(at: &NetNs, hook: Hook, port: &str) -> Result<()> {
    let hook = match hook {
        Hook::Input => "input",
        Hook::Output => "output",
    };
    let rules = format!(
        "add table inet proof; add chain inet proof drops {{ type filter hook {hook} priority 0; }}; \
         add rule inet proof drops udp {port} {PORT} numgen random mod 100 == 0 counter drop"
    );
    nft(at, &[&rules]).map(drop)
}

/// The number of datagrams that the filter has dropped so far.
pub(in crate::prove) fn dropped(at: &NetNs) -> Result<u64> {
    let listed = nft(at, &["-j", "list", "ruleset"])?;
    let listed: Value = serde_json::from_str(&listed)?;
    packets(&listed).with_context(|| format!("no counter is in {listed}"))
}

/// The first counter in nft's JSON (libnftables-json(5), "COUNTER").
fn packets(listed: &Value) -> Option<u64> {
    match listed {
        Value::Object(fields) => match fields.get("counter") {
            Some(counter) => counter["packets"].as_u64(),
            None => fields.values().find_map(packets),
        },
        Value::Array(items) => items.iter().find_map(packets),
        _ => None,
    }
}

/// Runs nft(8) in a network namespace, and returns its output.
pub(in crate::prove) fn nft(at: &NetNs, words: &[&str]) -> Result<String> {
    run_in(at, "nft", words)
}
