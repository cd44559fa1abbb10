//! The output of a server: when it can answer, after a reload, and its counts at the end.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;

use kqps_front::{FrontSettings, Policy};
use kqps_observation::visible::visible_line;
use kqps_server::connections::{QuicReport, TcpReport};
use kqps_server::frames::Program;
use kqps_server::report::{BackEndReport, CacheReport, XdpReport};
use kqps_server::services::auth::{Changes, ZonesLoaded};
use kqps_server::sockets::Addresses;
use kqps_server::{Report, Server, ServerSetup};
use kqps_testbed::words::counted;
use schemars::JsonSchema;
use serde::Serialize;

use super::internet::words as internet;
use crate::print::{Versioned, to_json};

#[derive(Serialize, JsonSchema)]
#[serde(tag = "kind", rename = "ready")]
pub(crate) struct Ready<'a> {
    addresses: &'a [SocketAddr],
    /// The addresses for TCP alone.
    #[serde(skip_serializing_if = "has_none")]
    tcp: &'a [SocketAddr],
    /// The addresses for TLS.
    #[serde(skip_serializing_if = "has_none")]
    tls: &'a [SocketAddr],
    /// The addresses for HTTPS.
    #[serde(skip_serializing_if = "has_none")]
    https: &'a [SocketAddr],
    /// The addresses for QUIC.
    #[serde(skip_serializing_if = "has_none")]
    quic: &'a [SocketAddr],
    /// The file with the issuer of the certificate, if that was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    ca: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unix: Vec<Cow<'a, str>>,
    /// The device whose frames bypass the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    xdp: Option<Xdp<'a>>,
    #[serde(flatten)]
    result: Option<&'a ZonesLoaded>,
    #[serde(flatten)]
    front: Option<Front<'a>>,
}

/// A device whose frames bypass the kernel.
#[derive(Serialize, JsonSchema)]
struct Xdp<'a> {
    /// The name of the device.
    device: &'a str,
    /// Whether the program that selects frames runs in the driver, and not later in the stack.
    native: bool,
    /// Whether the device reads and writes the server's memory itself.
    zero_copy: bool,
}

impl<'a> Xdp<'a> {
    fn from_program(program: &'a Program) -> Self {
        Self { device: program.device(), native: program.is_native(), zero_copy: program.is_zero_copy() }
    }
}

/// Whether there are no addresses.
fn has_none(addresses: &&[SocketAddr]) -> bool {
    addresses.is_empty()
}

/// The back ends of a front or a cache, and the places of its counts.
#[derive(Serialize, JsonSchema)]
struct Front<'a> {
    back_ends: BTreeMap<&'a str, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Cow<'a, str>>,
}

/// The line of `--json` after a reload. `result` is a [`ZonesLoaded`] or a [`Front`].
#[derive(Serialize, JsonSchema)]
#[serde(tag = "kind", rename = "reloaded")]
pub(crate) struct Reloaded<'a, T: Serialize> {
    #[serde(flatten)]
    result: &'a T,
}

/// Prints that the server can answer. `ca` is the file with the issuer of its certificate, if that was made. `front`
/// has the settings of back ends if the server has some.
pub(super) fn ready(
    out: &mut impl Write,
    json: bool,
    (setup, ca): (&ServerSetup, Option<&Path>),
    server: &Server,
    front: Option<&FrontSettings>,
) -> io::Result<()> {
    let Addresses { datagrams: addresses, tcp, tls, https, quic } = server.addresses();
    let result = server.loaded();
    if json {
        let unix = server.unix().map(Path::to_string_lossy).collect();
        let front = front.map(|settings| Front {
            back_ends: urls(&settings.policy),
            metrics: server.metrics(),
            status: settings.status.as_deref().map(Path::to_string_lossy),
        });
        let ca = ca.map(Path::to_string_lossy);
        let xdp = server.program().map(Xdp::from_program);
        let ready = Ready { addresses, tcp, tls, https, quic, ca, unix, xdp, result, front };
        return writeln!(out, "{}", to_json(&Versioned::new(&ready))?);
    }
    if let Some(result) = result {
        loaded(out, result)?;
    }
    let workers = counted(setup.workers().into(), "worker");
    for address in addresses {
        writeln!(out, "Listening on {address} ({}, {workers})", setup.io.name())?;
    }
    if let Some(program) = server.program() {
        let place = if program.is_native() { "in the driver" } else { "in the stack" };
        let how = if program.is_zero_copy() { "without a copy" } else { "copied" };
        let device = visible_line(program.device());
        writeln!(out, "Frames pass the kernel at {device}, selected {place}, {how}")?;
    }
    for address in tcp {
        writeln!(out, "Listening on tcp://{address}")?;
    }
    for address in tls {
        writeln!(out, "Listening on tls://{address}")?;
    }
    for address in https {
        writeln!(out, "Listening on https://{address}{}", kqps_http::PATH)?;
    }
    for address in quic {
        writeln!(out, "Listening on quic://{address}")?;
    }
    if let Some(ca) = ca {
        writeln!(out, "Clients must trust {} (--ca)", visible_line(&ca.to_string_lossy()))?;
    }
    for path in server.unix() {
        writeln!(out, "Listening on {} (Unix stream)", visible_line(&path.to_string_lossy()))?;
    }
    let Some(settings) = front else { return Ok(()) };
    back_ends(out, &settings.policy)?;
    // The rules of a cache are its zones, which stand before the addresses of their servers.
    if !settings.cautious {
        rules(out, &settings.policy)?;
    }
    if let Some(address) = server.metrics() {
        writeln!(out, "Counts at http://{address}/metrics")?;
    }
    let path = settings.status.as_deref();
    path.map_or(Ok(()), |path| {
        writeln!(out, "Counts by kqps serve status {}", visible_line(&path.to_string_lossy()))
    })
}

fn back_ends(out: &mut impl Write, policy: &Policy) -> io::Result<()> {
    for (name, url) in urls(policy) {
        writeln!(out, "Back end {}", titled(name, &url))?;
    }
    Ok(())
}

/// The number of rules of a policy.
fn rules(out: &mut impl Write, policy: &Policy) -> io::Result<()> {
    let count = policy.rules.len() as u64;
    if count > 0 {
        writeln!(out, "By {}, and otherwise {}", counted(count, "rule"), policy.choice.name())?;
    }
    Ok(())
}

fn urls(policy: &Policy) -> BTreeMap<&str, String> {
    policy.back_ends.iter().map(|back_end| (back_end.name.as_str(), back_end.target.to_string())).collect()
}

/// The name of a back end with its URL, unless both are the same.
fn titled(name: &str, url: &str) -> String {
    let titled = if name == url { name.to_owned() } else { format!("{name} ({url})") };
    visible_line(&titled).into_owned()
}

/// Prints that a front uses the policy that it loaded again.
pub(super) fn adopted(out: &mut impl Write, json: bool, policy: &Policy) -> io::Result<()> {
    if json {
        let result = Front { back_ends: urls(policy), metrics: None, status: None };
        return writeln!(out, "{}", to_json(&Versioned::new(&Reloaded { result: &result }))?);
    }
    writeln!(out, "Loaded again {}", counted(policy.back_ends.len() as u64, "back end"))?;
    back_ends(out, policy)?;
    rules(out, policy)
}

/// Prints that the server answers from the zones that it loaded again.
pub(super) fn reloaded(out: &mut impl Write, json: bool, result: &ZonesLoaded) -> io::Result<()> {
    if json {
        return writeln!(out, "{}", to_json(&Versioned::new(&Reloaded { result }))?);
    }
    loaded(out, result)
}

/// Prints the number of loaded zones, their changes since the last load, and the zones that did not load.
fn loaded(out: &mut impl Write, result: &ZonesLoaded) -> io::Result<()> {
    let (loaded, named) = (result.zones - result.kept, result.zones + result.broken);
    let of = if loaded == named { String::new() } else { format!("{loaded} of ") };
    let (zones, records) = (counted(named, "zone"), counted(result.records, "record"));
    let again = if result.changes.is_some() { " again" } else { "" };
    let mib = result.memory_bytes as f64 / f64::from(1 << 20);
    write!(out, "Loaded {of}{zones}{again}, {records} in {:.2} s ({mib:.1} MiB)", result.load_s)?;
    if let Some(changes) = &result.changes {
        let Changes { added, changed, unchanged, removed } = changes;
        write!(out, "; {added} added, {changed} changed, {unchanged} unchanged, {removed} removed")?;
    }
    writeln!(out)?;
    for faulty in &result.faulty {
        let what = if faulty.kept { "keeps its old data" } else { "answers SERVFAIL" };
        writeln!(out, "Zone {} {what}: {}", faulty.zone, faulty.error)?;
    }
    let more = (result.kept + result.broken).saturating_sub(result.faulty.len() as u64);
    if more == 0 { Ok(()) } else { writeln!(out, "{more} more did not load") }
}

/// Prints the counts of a server, at its end or on request.
pub(super) fn counts(out: &mut impl Write, json: bool, report: &Report) -> io::Result<()> {
    if json {
        return writeln!(out, "{}", to_json(&Versioned::new(report))?);
    }
    writeln!(out, "Received {}, answered {}", report.received, report.answered)?;
    dropped(out, &report.dropped)?;
    if report.socket_drops > 0 {
        writeln!(
            out,
            "  dropped by the kernel, socket buffer full or checksum wrong: {}",
            report.socket_drops
        )?;
    }
    rcodes(out, &report.response_rcodes)?;
    report.xdp.as_ref().map_or(Ok(()), |xdp| frames(out, xdp))?;
    if report.workers.len() > 1 {
        for (number, worker) in report.workers.iter().enumerate() {
            let core = worker.cpu.map_or(String::new(), |cpu| format!(" on core {cpu}"));
            let dropped = worker.dropped.values().sum::<u64>();
            write!(
                out,
                "  worker {number}{core}: received {}, answered {}, dropped {dropped}",
                worker.received, worker.answered
            )?;
            if worker.later > 0 {
                write!(out, ", left to resolvers {}", worker.later)?;
            }
            writeln!(out)?;
        }
    }
    let connected = report.tcp.as_ref().filter(|tcp| tcp.connections > 0);
    connected.map_or(Ok(()), |tcp| connections(out, "", tcp))?;
    report.quic.as_ref().map_or(Ok(()), |quic| over_quic(out, quic))?;
    report.cache.as_ref().map_or(Ok(()), |counts| cache(out, counts))?;
    report.internet.as_ref().map_or(Ok(()), |counts| internet::counts(out, counts))?;
    report.back_ends.iter().try_for_each(|(name, counts)| back_end(out, name, counts, report.workers.len()))
}

fn cache(out: &mut impl Write, counts: &CacheReport) -> io::Result<()> {
    let (hits, entries) = (counted(counts.hits, "hit"), counts.entries);
    let misses = counted(counts.misses, "miss");
    let mib = counts.memory_bytes as f64 / f64::from(1 << 20);
    writeln!(out, "Cache: {hits}, {misses}, {entries} kept in {mib:.1} MiB")?;
    let rest = [
        (counts.stale + counts.stale_after_failure, "answered stale"),
        (counts.failures, "answered SERVFAIL, since the question had just failed"),
        (counts.refused, "answered by an error of the server's own"),
        (counts.coalesced, "misses waited for an equal question"),
        (counts.overtaken, "misses were answered from the cache after all"),
        (counts.prefetches, "asked before the TTL ran out"),
        (counts.not_kept, "answers could not be kept"),
        (counts.unusable, "answers of servers were failures"),
        (counts.evictions, "removed to make room"),
    ];
    seen(out, &rest)
}

/// Prints the counts that are not 0, each in a line.
fn seen(out: &mut impl Write, counts: &[(u64, &str)]) -> io::Result<()> {
    let mut seen = counts.iter().filter(|(count, _)| *count > 0);
    seen.try_for_each(|(count, what)| writeln!(out, "  {what}: {count}"))
}

fn back_end(out: &mut impl Write, name: &str, counts: &BackEndReport, workers: usize) -> io::Result<()> {
    let BackEndReport { url, sent, answered, checks, .. } = counts;
    let (title, checks) = (titled(name, url), counted(*checks, "check"));
    writeln!(out, "Back end {title}: sent {sent} ({checks}), answered {answered}")?;
    match counts.up {
        0 => writeln!(out, "  not in use")?,
        up if up < workers as u64 => writeln!(out, "  in use by {up} of {workers} workers")?,
        _ => {}
    }
    let rest = [
        (counts.timed_out, "not answered in time"),
        (counts.cut_off, "under way when it went down"),
        (counts.displaced, "displaced by later ones"),
        (counts.unsettled, "under way at the end"),
        (counts.servfails, "answered SERVFAIL"),
        (counts.cut_short, "truncated, though the whole was needed and was asked for again"),
        (counts.doubted, "perhaps forged, and asked again by a connection"),
        (counts.second_tries, "sent were second tries"),
        (counts.send_refused, "refused by the kernel"),
        (counts.unsolicited, "messages that answer no query"),
        (counts.mismatched, "messages that answer another question"),
        (counts.garbled, "invalid messages"),
        (counts.downs, "times down"),
    ];
    seen(out, &rest)
}

fn over_quic(out: &mut impl Write, quic: &QuicReport) -> io::Result<()> {
    let QuicReport { counts, datagrams_received, datagrams_sent, send_failures, socket_drops } = quic;
    connections(out, " over QUIC", counts)?;
    writeln!(out, "  datagrams: received {datagrams_received}, sent {datagrams_sent}")?;
    for (cause, count) in send_failures {
        writeln!(out, "  datagrams, {cause}: {count}")?;
    }
    if *socket_drops > 0 {
        writeln!(out, "  dropped by the kernel, socket buffer full or checksum wrong: {socket_drops}")?;
    }
    Ok(())
}

fn frames(out: &mut impl Write, xdp: &XdpReport) -> io::Result<()> {
    writeln!(out, "  as frames past the kernel: {} of {}", xdp.read, xdp.matched)?;
    for (cause, count) in &xdp.dropped {
        writeln!(out, "  frames dropped, {cause}: {count}")?;
    }
    let rest = [
        (xdp.by_kernel, "by the kernel to a socket"),
        (xdp.unclaimed, "frames by a queue without a worker, which went to the kernel"),
        (xdp.unsettled(), "frames whose fate is not known, since a worker failed"),
    ];
    seen(out, &rest)
}

fn connections(out: &mut impl Write, over: &str, tcp: &TcpReport) -> io::Result<()> {
    writeln!(
        out,
        "By {}{over} received {}, answered {}, transferred {}",
        counted(tcp.connections, "connection"),
        tcp.received,
        tcp.answered,
        tcp.transfers
    )?;
    dropped(out, &tcp.dropped)?;
    rcodes(out, &tcp.response_rcodes)?;
    for (kind, count) in &tcp.handshakes {
        writeln!(out, "  handshakes of TLS, {kind}: {count}")?;
    }
    for (status, count) in &tcp.refused {
        writeln!(out, "  requests by HTTP that are no query, status {status}: {count}")?;
    }
    for (end, count) in &tcp.ended {
        writeln!(out, "  connections ended, {end}: {count}")?;
    }
    Ok(())
}

fn dropped(out: &mut impl Write, dropped: &BTreeMap<String, u64>) -> io::Result<()> {
    dropped.iter().try_for_each(|(cause, count)| writeln!(out, "  dropped, {cause}: {count}"))
}

fn rcodes(out: &mut impl Write, rcodes: &BTreeMap<String, u64>) -> io::Result<()> {
    rcodes.iter().try_for_each(|(rcode, count)| writeln!(out, "  {rcode}: {count}"))
}
