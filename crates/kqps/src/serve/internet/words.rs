//! The output of a box: when a resolver can ask it, and its counts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::PathBuf;

use kqps_kernel::namespace::NetNs;
use kqps_observation::visible::visible_line;
use kqps_server::report::{InternetReport, RankedCounts};
use kqps_server::services::internet::Tree;
use kqps_testbed::words::counted;
use schemars::JsonSchema;
use serde::Serialize;

use super::files::Files;
use super::name::NetworkName;
use super::network::Network;
use crate::print::{Versioned, to_json};

/// The line of `--json` when the servers can answer.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "kind", rename = "ready")]
pub(crate) struct Ready<'a> {
    /// The addresses of the sockets that take datagrams; connections by TCP have the same.
    addresses: &'a [SocketAddr],
    /// The prefixes that hold the addresses of the servers.
    prefixes: Vec<String>,
    /// The port of all servers.
    port: u16,
    /// The file of root hints for a resolver.
    root_hints: Cow<'a, str>,
    /// The file of the root's trust anchors, if the root is signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    trust_anchor: Option<Cow<'a, str>>,
    /// The network of the resolver; missing on loopback.
    #[serde(skip_serializing_if = "Option::is_none")]
    resolver: Option<ResolverNetwork<'a>>,
    /// A path that stands for the network of the servers while they run; missing on loopback.
    #[serde(skip_serializing_if = "Option::is_none")]
    servers_path: Option<String>,
    /// The address at which Prometheus can read counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<SocketAddr>,
}

/// The network of a resolver.
#[derive(Serialize, JsonSchema)]
struct ResolverNetwork<'a> {
    /// The name, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    /// A path that stands for it while the server runs, for `nsenter --net=PATH`.
    path: String,
    /// The resolver's own addresses there, beside those of loopback.
    addresses: [IpAddr; 2],
}

impl<'a> Ready<'a> {
    pub(super) fn new(
        (network, name): (&Network, Option<&'a NetworkName>),
        files: &'a Files,
        tree: &dyn Tree,
        addresses: &'a [SocketAddr],
        metrics: Option<SocketAddr>,
    ) -> Self {
        let text = |path: PathBuf| Cow::from(path.to_string_lossy().into_owned());
        let path_of =
            |network: &NetNs| format!("/proc/{}/fd/{}", std::process::id(), network.as_fd().as_raw_fd());
        let servers_path = network.laid().map(|laid| path_of(laid.world()));
        let resolver = network.laid().map(|laid| {
            let [_, v4] = laid.addresses().v4;
            let [_, v6] = laid.addresses().v6;
            ResolverNetwork {
                name: name.map(NetworkName::as_str),
                path: path_of(laid.home()),
                addresses: [v4.into(), v6.into()],
            }
        });
        Self {
            prefixes: tree.prefixes().iter().map(|(network, bits)| format!("{network}/{bits}")).collect(),
            port: addresses.first().map_or(0, SocketAddr::port),
            addresses,
            root_hints: text(files.root_hints()),
            trust_anchor: files.trust_anchor().map(text),
            resolver,
            servers_path,
            metrics,
        }
    }
}

/// The most prefixes that are printed.
const PREFIXES_SHOWN: usize = 4;

/// Prints that the servers can answer, and how a resolver gets there.
pub(super) fn ready(out: &mut impl Write, json: bool, ready: &Ready<'_>) -> io::Result<()> {
    if json {
        return writeln!(out, "{}", to_json(&Versioned::new(ready))?);
    }
    let Ready { prefixes, port, root_hints, trust_anchor, resolver, metrics, .. } = ready;
    let shown = prefixes.iter().take(PREFIXES_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = match prefixes.len().saturating_sub(PREFIXES_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    writeln!(out, "Answering at {shown}{more}, port {port}, by UDP and TCP")?;
    writeln!(out, "Root hints: {}", visible_line(root_hints))?;
    match trust_anchor {
        Some(path) => writeln!(out, "Trust anchor: {}", visible_line(path))?,
        None => writeln!(out, "Trust anchor: none, since the root is not signed")?,
    }
    match resolver {
        Some(ResolverNetwork { name: Some(name), .. }) => {
            writeln!(out, "Start a resolver with: ip netns exec {name} COMMAND")?;
        }
        Some(ResolverNetwork { name: None, path, .. }) => {
            writeln!(out, "Start a resolver with: nsenter --net={path} COMMAND")?;
        }
        None => writeln!(
            out,
            "On loopback a resolver asks the servers that its configuration names, with their port, and no others; \
             there is no IPv6, and no network between that delays or loses packets"
        )?,
    }
    metrics.map_or(Ok(()), |address| writeln!(out, "Counts at http://{address}/metrics"))
}

/// Prints the counts of a tree.
pub(in crate::serve) fn counts(out: &mut impl Write, report: &InternetReport) -> io::Result<()> {
    for (over, levels) in [("UDP", &report.udp), ("TCP", &report.tcp)] {
        for (level, kinds) in levels {
            let each: Vec<String> = kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
            let sum: u64 = kinds.values().sum();
            writeln!(out, "By {over}, {}: {sum} ({})", words_of(level), each.join(", "))?;
        }
    }
    each(out, "fault", &report.faults)?;
    if report.under_way > 0 {
        writeln!(out, "  answers that wait for their time: {}", report.under_way)?;
    }
    if let (Some(median), Some(high), Some(most)) =
        (report.late_p50_us, report.late_p99_us, report.late_most_us)
    {
        let delayed = counted(report.delayed, "delayed answer");
        writeln!(out, "{delayed} left late by {median} µs (median), {high} µs (99 %), {most} µs (most)")?;
    }
    for (title, counts) in [("Servers", &report.servers), ("Questions", &report.questions)] {
        counts.as_ref().map_or(Ok(()), |counts| ranked(out, title, counts))?;
    }
    Ok(())
}

fn words_of(level: &str) -> &str {
    match level {
        "root" => "the root",
        "tld" => "top-level domains",
        "hosting" => "zones below",
        _ => "no zone",
    }
}

fn each(out: &mut impl Write, what: &str, counts: &BTreeMap<String, u64>) -> io::Result<()> {
    counts.iter().try_for_each(|(name, count)| writeln!(out, "  {what} {name}: {count}"))
}

fn ranked(out: &mut impl Write, title: &str, counts: &RankedCounts) -> io::Result<()> {
    let RankedCounts { top, distinct, others } = counts;
    if top.is_empty() {
        return Ok(());
    }
    writeln!(out, "{title} with most queries, of {distinct}:")?;
    for one in top {
        writeln!(out, "  {}: {}", visible_line(&one.name), one.queries)?;
    }
    if *others > 0 { writeln!(out, "  all others together: {others}") } else { Ok(()) }
}
