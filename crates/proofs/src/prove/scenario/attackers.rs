//! Attackers: every count of the record is that of a server that counts what it gets, to the last connection, handshake,
//! reset, stream, datagram and byte, for each kind over each of its transports.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kqps_faults::counting::{ConnectionCounts, CountingDatagrams, CountingServer, Layer};
use kqps_faults::streams::{Kind, Server};
use kqps_kernel::limits;
use kqps_message::{query, rtype};
use kqps_observation::HostileFacts;
use kqps_skips::Capability;
use kqps_tls::Acceptor;
use kqps_tls::certificate::{KeyType, make};

use crate::child::{Running, pinned};
use crate::program::finish;
use crate::prove::Bench;
use crate::prove::connections::wire::Wired;
use crate::prove::patience::{ATTEMPTS, until_proved};

/// The name in the server's certificate.
const NAME: &str = "dns.test";

/// The name that half and slow queries ask for.
const ASKED: &str = "q.attack.";

/// Attempts of each kind.
const SMALL: u64 = 100;
const WHOLE: u64 = 10_000;

/// Attempts with a slow query, which sends a byte a second.
const SMALL_SLOW: u64 = 20;
const WHOLE_SLOW: u64 = 1_000;

/// Connections that carry streams, and ports of first datagrams.
const CARRIERS: u64 = 8;
const PORTS: u64 = 256;

/// Descriptors of a process that are no connections.
const OTHERS: u64 = 1_000;

/// How long the server may take to see the end of all connections.
const END_WITHIN: Duration = Duration::from_mins(1);

/// Bytes of the frames of a stream, at the least: the headers of HEADERS and `RST_STREAM`, and the error code of the latter
/// (RFC 9113, section 4.1 and 6.4).
const STREAM_BYTES_LEAST: u64 = 2 * 9 + 4;

/// Kinds that a counting server sees, each with its transports.
const OVER_TCP: [(&str, &[Kind]); 6] = [
    ("idle", &[Kind::Tcp, Kind::Tls, Kind::Https]),
    ("half", &[Kind::Tcp, Kind::Tls]),
    ("slow", &[Kind::Tcp, Kind::Tls]),
    ("handshake", &[Kind::Tls, Kind::Https]),
    ("reset", &[Kind::Tcp, Kind::Tls, Kind::Https]),
    ("streams", &[Kind::Https]),
];

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let limit = limits::raise_open_files().context("the limit of open files cannot be read")?;
    if limit < bench.choose(SMALL, WHOLE) + OTHERS {
        return bench.leave_out(
            Capability::Descriptors,
            format_args!("attackers: a process may have {limit} open files"),
        );
    }
    for (kind, transports) in OVER_TCP {
        for &transport in transports {
            let attack = Attack::new(bench, kind, transport);
            attack.over_tcp(bench).with_context(|| format!("{kind} over {}", transport.name()))?;
        }
    }
    handshakes_of_quic(bench).context("handshake over quic")?;
    initials(bench).context("initials over quic")
}

/// Attackers of a kind over a transport.
struct Attack {
    kind: &'static str,
    transport: Kind,
    attempts: u64,
    /// Attempts a second.
    rate: u64,
    /// Connections or ports at a time.
    places: u64,
}

impl Attack {
    fn new(bench: &Bench, kind: &'static str, transport: Kind) -> Self {
        let (attempts, rate) = match (kind, transport) {
            // They last for some seconds, and so for some bytes.
            ("slow", _) => bench.choose((SMALL_SLOW, 20), (WHOLE_SLOW, 100)),
            ("handshake", Kind::Quic) => bench.choose((SMALL, 200), (WHOLE, 250)),
            ("handshake" | "half", Kind::Tls | Kind::Https) => bench.choose((SMALL, 500), (WHOLE, 500)),
            _ => bench.choose((SMALL, 500), (WHOLE, 2_000)),
        };
        let places = match kind {
            "streams" => CARRIERS,
            "initials" => PORTS.min(attempts),
            _ => attempts,
        };
        Self { kind, transport, attempts, rate, places }
    }

    /// Plays them. Returns their part of the record, and the connections that found no room at listening sockets.
    fn played(&self, bench: &Bench, server: SocketAddr, flags: &[&str]) -> Result<(HostileFacts, u64)> {
        let Self { kind, transport, attempts, rate, places } = self;
        let cpu = bench.kqps.player_cpu.to_string();
        let mut command = pinned(&cpu, &bench.kqps.program);
        command.args(["load", &format!("{}://{server}", transport.name()), "--json", "--cpus", &cpu]);
        command.args(["--hostile", kind, "-Q", &rate.to_string(), "-c", &places.to_string()]);
        command.args(["-l", &format!("{}ms", attempts * 1000 / rate), "--lag", "1m", "-t", "2s"]);
        command.args(["--connect-timeout", "10s"]).args(flags);
        if matches!(*kind, "half" | "slow") {
            let queries = bench.folder.path().join("attack.queries");
            fs::write(&queries, format!("{ASKED} A\n"))?;
            command.arg("-d").arg(queries);
        }
        let trial = finish(Running::start(&mut command)?)?.measured()?;
        let tcp = trial.hosts.first.network.tcp.as_ref().context("the record has no counters of TCP")?;
        let overflowed = tcp.listen_overflows;
        let facts = trial.hostile.context("the record has no attackers")?;
        facts.check()?;
        ensure!(facts.due == *attempts, "{} attempts were due, not {attempts}: {facts:?}", facts.due);
        ensure!(trial.accounts == kqps_observation::Accounts::default(), "attempts are no queries");
        Ok((facts, overflowed))
    }

    /// Why the host, and not the player, may have moved the counts.
    fn doubt(&self, facts: &HostileFacts) -> Option<String> {
        let connections = &facts.connections;
        // Streams wait for their first connections, which are then their room.
        let is_held_up = facts.unsent_in_all() > 0 && self.kind != "streams";
        let is_unsettled = connections.timed_out > 0 || connections.connecting > 0;
        (is_held_up || is_unsettled).then(|| format!("the host held attempts up: {facts:?}"))
    }

    /// Compares the record with a server that counts connections.
    fn over_tcp(&self, bench: &Bench) -> Result<()> {
        let (layer, flags) = layer(bench, self.transport)?;
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        until_proved(ATTEMPTS, |_| {
            let server = CountingServer::start(layer.clone())?;
            let (facts, overflowed) = self.played(bench, server.address(), &flags)?;
            if let Some(doubt) = self.doubt(&facts) {
                return Ok(Err(doubt));
            }
            if overflowed > 0 {
                return Ok(Err(format!("{overflowed} connections found no room at a listening socket")));
            }
            let counts = server.after(facts.connections.connected, END_WITHIN)?;
            self.compare(&facts, &counts)?;
            eprintln!("{} over {}: {counts:?}", self.kind, self.transport.name());
            Ok(Ok(()))
        })
    }

    fn compare(&self, facts: &HostileFacts, counts: &ConnectionCounts) -> Result<()> {
        let connections = &facts.connections;
        let mut message = Vec::new();
        query::write(&mut message, ASKED.as_bytes(), rtype::A, None)?;
        let framed = 2 + message.len() as u64;
        let expected = self.expected(facts, counts, framed);
        for (what, count, range) in [
            ("resets", counts.resets, self.resets(facts)),
            ("bytes within TLS", counts.plain, self.plain(facts, framed)),
        ] {
            ensure!(range.contains(&count), "{count} {what} came, and not {range:?}: {facts:?}");
        }
        ensure!(
            *counts == expected,
            "the server counted\n  {counts:?}\nand the record has\n  {expected:?}\n  {facts:?}"
        );
        ensure!(counts.bytes == facts.bytes_sent, "{} bytes came: {facts:?}", counts.bytes);
        if self.kind == "streams" {
            ensure!(connections.connected == CARRIERS && facts.begun > 0, "{facts:?}");
        } else {
            ensure!(connections.connected == self.attempts, "{facts:?}");
        }
        let kept = if self.kind == "reset" { connections.closed_by_player } else { connections.held };
        ensure!(kept == connections.connected, "the server ended none: {facts:?}");
        Ok(())
    }

    /// The counts that the server must have by the record, and by the length of a query with its own length before it.
    /// Resets and bytes within TLS have bounds of their own.
    fn expected(&self, facts: &HostileFacts, counts: &ConnectionCounts, framed: u64) -> ConnectionCounts {
        let connected = facts.connections.connected;
        let is_half = self.kind == "half" && self.transport == Kind::Tcp;
        let streams = facts.streams.map_or(0, |streams| streams.reset);
        ConnectionCounts {
            accepted: connected,
            ended: connected,
            resets: counts.resets,
            bytes: if is_half { connected * half(framed) } else { facts.bytes_sent },
            plain: counts.plain,
            handshakes: handshakes(facts),
            streams,
            stream_resets: streams,
            ..ConnectionCounts::default()
        }
    }

    /// The number of connections that may end by a reset.
    fn resets(&self, facts: &HostileFacts) -> RangeInclusive<u64> {
        let connected = facts.connections.connected;
        match self.kind {
            "reset" => connected..=connected,
            // The player closes connections at the end, and the kernel resets each on which a ticket was not read.
            _ if handshakes(facts) > 0 => 0..=connected,
            _ => 0..=0,
        }
    }

    /// The bytes that may come within TLS. The record does not count them, so the kind decides.
    fn plain(&self, facts: &HostileFacts, framed: u64) -> RangeInclusive<u64> {
        let connected = facts.connections.connected;
        match (self.kind, self.transport) {
            ("half", Kind::Tls) => connected * half(framed)..=connected * half(framed),
            // Each connection sends its first byte when it is made.
            ("slow", Kind::Tls) => connected..=connected * framed,
            ("streams", _) => {
                let streams = facts.streams.map_or(0, |streams| streams.reset);
                streams * STREAM_BYTES_LEAST..=facts.bytes_sent
            }
            _ => 0..=0,
        }
    }
}

/// Bytes of half a query with its length before it.
fn half(framed: u64) -> u64 {
    2 + (framed - 2) / 2
}

/// Handshakes of TLS that were completed.
fn handshakes(facts: &HostileFacts) -> u64 {
    facts.handshakes.as_ref().map_or(0, |handshakes| handshakes.done)
}

/// The layer of a counting server, and the flags of a player that trusts it.
fn layer(bench: &Bench, transport: Kind) -> Result<(Layer, Vec<String>)> {
    if transport == Kind::Tcp {
        return Ok((Layer::Plain, Vec::new()));
    }
    let made = make(KeyType::Ecdsa, &[NAME.to_owned()])?;
    let ca: PathBuf = bench.folder.path().join(format!("counting-{}.pem", transport.name()));
    fs::write(&ca, &made.ca)?;
    let ca = ca.to_str().context("a temporary folder has a name in UTF-8")?;
    let layer = match transport {
        Kind::Https => Layer::Http(Acceptor::speaking(b"h2", &made.identity)?),
        _ => Layer::Tls(Acceptor::new(&made.identity)?),
    };
    Ok((layer, ["--ca", ca, "--server-name", NAME].map(str::to_owned).to_vec()))
}

/// Handshakes of QUIC, at a server with a library of its own.
fn handshakes_of_quic(bench: &Bench) -> Result<()> {
    let attack = Attack::new(bench, "handshake", Kind::Quic);
    let wired = Wired::new(bench, Kind::Quic)?;
    // A target is a URL here, which says the transport.
    let flags = wired.flags(&[]);
    until_proved(ATTEMPTS, |_| {
        let server = Server::start(wired.server(bench))?;
        let (facts, _) = attack.played(bench, server.address(), &flags[2..])?;
        let counts = server.stop()?;
        if let Some(doubt) = attack.doubt(&facts).or_else(|| counts.doubt()) {
            return Ok(Err(doubt));
        }
        let connections = &facts.connections;
        let seen = (counts.connections, counts.handshakes);
        ensure!(seen == (connections.begun, connections.connected), "{seen:?} are not those of {facts:?}");
        ensure!(connections.held == attack.attempts && counts.queries == 0, "{facts:?}, {counts:?}");
        eprintln!("handshake over quic: {} connections, {} handshakes", seen.0, seen.1);
        Ok(Ok(()))
    })
}

/// First datagrams of QUIC, at a socket that answers each with another version.
fn initials(bench: &Bench) -> Result<()> {
    let attack = Attack::new(bench, "initials", Kind::Quic);
    until_proved(ATTEMPTS, |_| {
        let server = CountingDatagrams::start()?;
        let (facts, _) = attack.played(bench, server.address(), &["--insecure"])?;
        let counts = server.stop()?;
        if counts.overflowed > 0 || facts.unsent_in_all() > 0 {
            return Ok(Err(format!("the host held datagrams up: {counts:?}, {facts:?}")));
        }
        let sent = (facts.initials, facts.initials, facts.bytes_sent, attack.places);
        let came = (counts.received, counts.initials, counts.bytes, counts.ports.len() as u64);
        ensure!(came == sent, "{came:?} came, and the record has {sent:?}: {facts:?}");
        let replies = BTreeMap::from([("version-negotiation".to_owned(), counts.answered)]);
        ensure!(
            facts.replies == replies,
            "{} answers left, and the record has {:?}",
            counts.answered,
            facts.replies
        );
        ensure!(facts.begun == attack.attempts && facts.connections.connecting == facts.begun, "{facts:?}");
        eprintln!(
            "initials over quic: {} datagrams, {} bytes, {} answers",
            counts.received, counts.bytes, counts.answered
        );
        Ok(Ok(()))
    })
}
