//! Resources that run out: descriptors of the player and of the server, and ports of the player, over each wire.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kqps_faults::streams::ServerSettings;
use kqps_faults::thread::Background;
use kqps_kernel::{namespace, port};
use kqps_observation::{ConnectionFacts, Trial};
use kqps_skips::{Capability, skip};

use super::super::patience::Patience;
use super::super::{Bench, pauses};
use super::bounded::{self, count, sums};
use super::network;
use super::wire::{Kind, Wired, at_an_echo, echo};
use crate::child::Running;
use crate::program::finish;

/// Connections that are more than a process with few descriptors may have.
const MANY: &str = "200";

/// The descriptors of such a process.
const FEW: &str = "--nofile=100:100";

/// A player with too few descriptors refuses the load. At a server with too few, every query has its fate. A server
/// over QUIC has one socket for all connections.
pub(super) fn descriptors(bench: &Bench) -> Result<()> {
    for kind in Kind::ALL {
        of_player(bench, kind).with_context(|| kind.name())?;
        if kind != Kind::Quic {
            of_server(bench, kind).with_context(|| kind.name())?;
        }
    }
    Ok(())
}

/// The load of `MANY` connections on a wire.
fn many(kind: Kind) -> Vec<&'static str> {
    [at_an_echo(kind), &["-c", MANY, "-T", "1", "-q", MANY, "-l", "1s", "-t", "300ms"]].concat()
}

fn of_player(bench: &Bench, kind: Kind) -> Result<()> {
    let file = bench.queries(10_000)?;
    let (_echo, address, _) = echo(bench, kind)?;
    let played = bounded::play(bench, &["prlimit", FEW], address, &file, &many(kind))?;
    ensure!(
        played.trial.is_none() && !matches!(played.code, Some(0 | 124) | None),
        "a player with too few descriptors ended with {:?}",
        played.code
    );
    Ok(())
}

fn of_server(bench: &Bench, kind: Kind) -> Result<()> {
    let file = bench.queries(10_000)?;
    let address = port::free(Ipv4Addr::LOCALHOST.into(), 1).context("no port is free for an echo")?;
    let command = bench.kqps.stream_echo_command(kind, address);
    let mut server = Command::new("prlimit");
    server.arg(FEW).arg(command.get_program()).args(command.get_args());
    let (server, _) = Running::server(&mut server)?;
    let trial = bounded::play(bench, &[], address, &file, &many(kind))?.measured()?;
    let connections = sums(&trial)?;
    ensure!(
        trial.accounts.correct > 0,
        "a server with few descriptors answers nothing: {:?}",
        trial.accounts
    );
    let ended = server.terminate()?;
    ensure!(ended.code == Some(0), "a server with few descriptors ended with {:?}", ended.code);
    eprintln!(
        "{}: a player with few descriptors is refused; at a server with few, of {} connections {:?} ended and {} \
         queries were correct",
        kind.name(),
        connections.established,
        connections.closed,
        trial.accounts.correct
    );
    Ok(())
}

/// The ports of a network that has few, how many these are, and the number of connections that want one.
const PORTS: &str = "40000 40003";
const PORTS_COUNT: u64 = 4;
const WANTED: &str = "8";

/// Where the server listens: at none of these ports.
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5300);

/// The use of connections.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Each is for one query.
    Each,
    /// They are kept.
    Kept,
}

/// 8 connections at once in a network with 4 ports, for a query each and kept, over each wire: those that find none
/// fail by `ports`, each with its queries, and all others reach the server.
pub(super) fn ports(bench: &Bench) -> Result<()> {
    if let Err(reason) = network::private() {
        skip(Capability::Networks, format!("ports that run out: {reason}"));
        return Ok(());
    }
    // Layers above TCP or QUIC do not change how ports are found.
    let kinds = bench.choose(&[Kind::Tcp, Kind::Quic][..], &Kind::ALL);
    for &kind in kinds {
        let wired = Wired::new(bench, kind)?;
        for of in [Use::Each, Use::Kept] {
            without_ports(bench, &wired, of).with_context(|| kind.name())?;
        }
    }
    Ok(())
}

/// Makes a trial until it holds, or until it fails although server and player were not held up. Servers of other proofs
/// run before this one on the same core.
fn without_ports(bench: &Bench, wired: &Wired, of: Use) -> Result<()> {
    let mut tried = Ok(());
    for patience in Patience::of_attempts() {
        let watched = [pauses::watch(bench.kqps.player_cpu)?, pauses::watch(bench.kqps.subject_cpu)?];
        tried = try_without_ports(bench, wired, of, patience);
        let away: Duration = watched.into_iter().map(Background::stop).sum::<Result<_>>()?;
        if tried.is_ok() || away.as_micros() <= u128::from(patience.away_most_us()) {
            break;
        }
        eprintln!("server and player had no CPU for up to {} ms: made again", away.as_millis());
    }
    tried
}

fn try_without_ports(bench: &Bench, wired: &Wired, of: Use, patience: Patience) -> Result<()> {
    // In a network of its own no port is in TIME_WAIT from another trial.
    let network = network::private().map_err(anyhow::Error::msg)?;
    network
        .within(|| fs::write("/proc/sys/net/ipv4/ip_local_port_range", PORTS))
        .context("a network's ports cannot be limited")?;
    let settings = ServerSettings { listen: SERVER, ..wired.server(bench) };
    let server = network::serve(Some(&network), settings)?;
    let file = bench.queries(10_000)?;
    let one_query: &[&str] = if of == Use::Each { &["--queries-per-connection", "1"] } else { &[] };
    let flags = ["-c", WANTED, "-T", "1", "-q", WANTED, "-l", bench.choose("500ms", "5s")];
    let timeout = patience.timeout();
    let flags = [&flags[..], &["-t", &timeout], one_query].concat();
    let mut command = bounded::command(bench, &[], server.address(), &file, &wired.flags(&flags));
    namespace::enter(&mut command, &network)?;
    let trial = finish(Running::start(&mut command)?)?.measured()?;
    let counts = server.stop()?;
    let connections = sums(&trial)?;
    // A kept connection without a port has none for the whole trial, and over QUIC neither has a place.
    let is_for_good = of == Use::Kept || wired.kind == Kind::Quic;
    fates(&trial, connections, is_for_good)?;
    ensure!(
        of == Use::Each || (connections.before_load == PORTS_COUNT && connections.open == PORTS_COUNT),
        "{PORTS_COUNT} connections have a port: {connections:?}"
    );
    let (failed, no_port): (u64, u64) =
        (connections.failed.values().sum(), count(&connections.failed, "ports"));
    ensure!(
        connections.attempts - failed == counts.connections && trial.accounts.correct == counts.right,
        "the server accepted {} and answered {}: {connections:?}, {:?}",
        counts.connections,
        counts.right,
        trial.accounts
    );
    let notes = &trial.players.first.notes;
    let is_advice =
        |note: &&String| note.contains("source addresses of 4 ports each") && note.contains("-a ");
    let advice =
        notes.iter().find(is_advice).with_context(|| format!("no note says what to do: {notes:?}"))?;
    if is_for_good {
        ensure!(advice.contains("8 connections at once need 2 source addresses"), "{advice}");
    }
    let (name, kept) = (wired.kind.name(), if of == Use::Kept { ", kept" } else { "" });
    eprintln!(
        "{name}{kept}: {no_port} of {} attempts found no port, and lost their queries",
        connections.attempts
    );
    Ok(())
}

/// Checks by which causes attempts failed and queries were lost. `is_for_good` is whether a place without a port has
/// none for the whole trial.
fn fates(trial: &Trial, connections: &ConnectionFacts, is_for_good: bool) -> Result<()> {
    let failed: u64 = connections.failed.values().sum();
    let no_port = count(&connections.failed, "ports");
    ensure!(no_port > 0, "ports did not run out: {connections:?}");
    if is_for_good {
        // Between two attempts queries wait, and some for too long.
        let of = |cause: &str| count(&trial.lost_causes, cause);
        let by_others = trial.accounts.lost - of("ports") - of("time");
        ensure!(
            of("ports") > 0 && by_others == 0 && no_port == failed,
            "queries are lost for want of a port: {:?}, {connections:?}",
            trial.lost_causes
        );
    } else {
        // A pair of ports that is used again before the server has closed its connection may not be answered.
        ensure!(
            trial.lost_causes == connections.failed,
            "each of {failed} attempts loses a query: {:?}",
            trial.lost_causes
        );
    }
    Ok(())
}
