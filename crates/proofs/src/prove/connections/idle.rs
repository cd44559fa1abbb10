//! Many idle connections: all of them are open at the same time, and none ends before the players do.

use std::net::Ipv4Addr;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use kqps_kernel::{limits, port};
use kqps_skips::{Capability, skip};

use super::super::Bench;
use super::bounded::{self, sums};
use super::wire::{Kind, at_an_echo};
use crate::child::Running;
use crate::program::finish;

/// Connections over each wire in the whole form. In the small one those with handshakes are fewer, since an unoptimized
/// program takes ten times as long for one.
const WHOLE: u64 = 50_000;
const SMALL: u64 = 2_000;
const SMALL_SECURE: u64 = 400;

/// The longest time of a player in the whole form, seconds: it opens its connections before its load. A connection over
/// QUIC takes some 65 kB of both sides together, one over HTTPS 45 kB, over TLS 15 kB and over TCP 5 kB.
const WITHIN_S: &str = "300";

/// The most connections of a player. The kernel's table of open files has no more room in its usual size.
const OF_A_PLAYER: u64 = 17_000;

/// Descriptors of a process that are no connections.
const OTHERS: u64 = 1_000;

/// The most players and processes of the server. With more of them the host would be measured.
const PROCESSES_MOST: u64 = 16;

/// A process of the server may get more connections than another, since the kernel spreads them by chance.
const SPREAD: f64 = 1.2;

/// The most connections of a process of the server, in all and of one client.
const SERVED_MOST: &str = "131072";

/// Opens the connections by as many players as the limit of descriptors demands. Each sends few queries.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    Kind::ALL.into_iter().try_for_each(|kind| over(bench, kind).with_context(|| kind.name()))
}

fn over(bench: &Bench, kind: Kind) -> Result<()> {
    let wanted = bench.choose(if kind == Kind::Tcp { SMALL } else { SMALL_SECURE }, WHOLE);
    let limit = limits::raise_open_files().context("the limit of open files cannot be read")?;
    let each = limit.saturating_sub(OTHERS).min(OF_A_PLAYER);
    let (players, processes) = (wanted.div_ceil(each.max(1)), processes(wanted, each));
    if players > PROCESSES_MOST || processes > PROCESSES_MOST {
        skip(
            Capability::Descriptors,
            format!("{wanted} idle connections: a process may have {limit} open files"),
        );
        return Ok(());
    }
    let mut server = Command::new(&bench.kqps.program);
    server.args(["serve", "echo", "--json"]);
    if kind != Kind::Quic {
        server.args(["--listeners", "reuseport"]);
    }
    let address = port::free(Ipv4Addr::LOCALHOST.into(), 1).context("no port is free for an echo")?;
    if kind == Kind::Tcp {
        server.args(["--listen", &address.to_string(), "--tcp"]);
    } else {
        server.args(["--listen", "127.0.0.1:0", "--listen", &format!("{}://{address}", kind.name())]);
    }
    server.args(["--processes", &processes.to_string(), "--tcp-idle", "10m", "--for", "1h"]);
    server.args(["--tcp-connections", SERVED_MOST, "--tcp-per-client", SERVED_MOST]);
    let (server, _) = Running::server(&mut server)?;
    let file = bench.queries(10_000)?;
    let length = bench.choose("1s", "20s");
    let connections = wanted.div_ceil(players);
    let begun = (0..players).map(|player| {
        // Each has source addresses of its own, so that none runs out of ports.
        let (count, local) = (connections.to_string(), format!("127.{}.0.0/16", player + 1));
        let flags = ["-c", &count, "-T", "1", "-Q", "100", "-l", length, "-t", "5s", "-a", &local];
        let flags = [at_an_echo(kind), &flags, &["--lag", "1m"]].concat();
        let within_s = bench.choose("60", WITHIN_S);
        Running::start(&mut bounded::command_within(within_s, bench, &[], (address, &file), &flags))
    });
    let begun = begun.collect::<Result<Vec<_>>>()?;
    let trials = begun.into_iter().map(|player| finish(player)?.measured()).collect::<Result<Vec<_>>>()?;
    for trial in &trials {
        let seen = sums(trial)?;
        ensure!(
            seen.before_load == connections && seen.open == connections && seen.attempts == connections,
            "{connections} connections were wanted: {seen:?}"
        );
        ensure!(trial.accounts.correct == trial.accounts.intended, "{:?}", trial.accounts);
    }
    let begins = trials.iter().map(|trial| trial.sending_ns().start).max();
    let ends = trials.iter().map(|trial| trial.sending_ns().end).min();
    ensure!(begins < ends, "not all connections were open at the same time");
    let ended = server.terminate()?;
    ensure!(ended.code == Some(0), "the server ended with {:?}", ended.code);
    eprintln!(
        "{}: {} idle connections of {players} players were open at the same time at {processes} processes",
        kind.name(),
        connections * players
    );
    Ok(())
}

/// Processes of a server, of which each has room for `each` connections.
fn processes(wanted: u64, each: u64) -> u64 {
    if wanted <= each { 1 } else { (wanted as f64 * SPREAD / each.max(1) as f64).ceil() as u64 }
}
