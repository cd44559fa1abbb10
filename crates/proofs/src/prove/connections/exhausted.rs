//! What runs out: descriptors of the player and of the server, over each wire, and ports of TCP.

use std::fs;
use std::net::Ipv4Addr;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use kqps_faults::streams::ServerSettings;
use kqps_kernel::{namespace, port};
use kqps_skips::{Capability, skip};

use super::super::Bench;
use super::bounded::{self, count, sums};
use super::network;
use super::wire::{Kind, at_an_echo, carrier, echo};
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
    let command = bench.kqps.stream_echo_command(carrier(kind), address);
    let mut server = Command::new("prlimit");
    server.arg(FEW).arg(command.get_program()).args(command.get_args());
    let mut server = Running::start(&mut server)?;
    server.ready()?;
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

/// The ports of a network that has few.
const PORTS: &str = "40000 40003";

/// A connection for each query in a network with 4 ports, by 8 connections at once: those that find none fail by
/// `ports`, each with its query, and all others reach the server.
pub(super) fn ports(bench: &Bench) -> Result<()> {
    let network = match network::private() {
        Ok(network) => network,
        Err(reason) => {
            skip(Capability::Networks, format!("ports that run out: {reason}"));
            return Ok(());
        }
    };
    network
        .within(|| fs::write("/proc/sys/net/ipv4/ip_local_port_range", PORTS))
        .context("a network's ports cannot be limited")?;
    let settings = ServerSettings { cpu: Some(bench.kqps.subject_cpu), ..ServerSettings::default() };
    let server = network::serve(Some(&network), settings)?;
    let file = bench.queries(10_000)?;
    let flags =
        ["-m", "tcp", "-c", "8", "-T", "1", "-q", "8", "--queries-per-connection", "1", "-t", "300ms"];
    let flags = [&flags[..], &["-l", bench.choose("1s", "5s")]].concat();
    let mut command = bounded::command(bench, &[], server.address(), &file, &flags);
    namespace::enter(&mut command, &network)?;
    let trial = finish(Running::start(&mut command)?)?.measured()?;
    let counts = server.stop()?;
    let connections = sums(&trial)?;
    // A pair of ports that is used again before the server has closed its connection may not be answered.
    let failed: u64 = connections.failed.values().sum();
    let no_port = count(&connections.failed, "ports");
    ensure!(no_port > 0, "ports did not run out: {connections:?}");
    ensure!(
        trial.lost_causes == connections.failed,
        "each of {failed} attempts loses a query: {:?}",
        trial.lost_causes
    );
    ensure!(
        connections.attempts - failed == counts.connections && trial.accounts.correct == counts.right,
        "the server accepted {} and answered {}: {connections:?}, {:?}",
        counts.connections,
        counts.right,
        trial.accounts
    );
    let has_advice = trial.players.first.notes.iter().any(|note| note.contains("-a "));
    ensure!(has_advice, "no note says what to do: {:?}", trial.players.first.notes);
    eprintln!("{no_port} of {} attempts found no port, and each lost one query", connections.attempts);
    Ok(())
}
