//! Servers that never read. One accepts connections alone: the trial ends in time, and all queries are lost by time, or
//! over other wires than TCP by the handshake that never comes. Another one completes handshakes: then all queries are
//! lost by time over these wires too.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

use anyhow::{Context as _, Result, ensure};
use kqps_faults::streams::{Server, ServerSettings};
use kqps_observation::Trial;

use super::super::Bench;
use super::bounded::{self, count, sums};
use super::wire::{Kind, Wired};

/// Connections of the player.
const CONNECTIONS: &str = "4";

/// Plays more than the buffers of both sides hold, over each wire.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    Kind::ALL.into_iter().try_for_each(|kind| {
        let wired = Wired::new(bench, kind)?;
        without_handshake(bench, &wired).with_context(|| kind.name())?;
        // Over TCP there is none.
        if kind != Kind::Tcp {
            after_handshake(bench, &wired)
                .with_context(|| format!("{}, after the handshake", kind.name()))?;
        }
        Ok(())
    })
}

fn play(bench: &Bench, wired: &Wired, address: SocketAddr) -> Result<Trial> {
    let file = bench.queries(10_000)?;
    let length = bench.choose("500ms", "5s");
    let flags = ["-c", CONNECTIONS, "-T", "1", "-Q", "100k", "-l", length, "-t", "300ms"];
    let trial = bounded::play(bench, &[], address, &file, &wired.flags(&flags))?.measured()?;
    let accounts = &trial.accounts;
    ensure!(accounts.sent > 0 && accounts.lost == accounts.sent, "nobody answers: {accounts:?}");
    Ok(trial)
}

fn without_handshake(bench: &Bench, wired: &Wired) -> Result<()> {
    let datagrams = UdpSocket::bind("127.0.0.1:0")?;
    let kind = wired.kind;
    let address = if kind == Kind::Quic { datagrams.local_addr()? } else { listen()? };
    let trial = play(bench, wired, address)?;
    let connections = sums(&trial)?;
    let (cause, of_connections) = match kind {
        Kind::Tcp => ("time", connections.open == 4),
        Kind::Tls | Kind::Https | Kind::Quic => {
            ("connect-timeout", count(&connections.failed, "connect-timeout") > 0)
        }
    };
    ensure!(
        count(&trial.lost_causes, cause) > 0 && of_connections,
        "{:?}, {connections:?}",
        trial.lost_causes
    );
    said(kind, "never reads", &trial);
    Ok(())
}

fn after_handshake(bench: &Bench, wired: &Wired) -> Result<()> {
    let server = Server::start(ServerSettings { deaf: true, ..wired.server(bench) })?;
    let trial = play(bench, wired, server.address())?;
    let counts = server.stop()?;
    let connections = sums(&trial)?;
    ensure!(
        count(&trial.lost_causes, "time") == trial.accounts.lost,
        "all queries are lost by time: {:?}",
        trial.lost_causes
    );
    let seen = (connections.attempts, connections.before_load, connections.open, counts.handshakes);
    ensure!(seen == (4, 4, 4, 4) && counts.queries == 0, "{counts:?}, {connections:?}");
    ensure!(counts.doubt().is_none(), "the server's counts are in doubt: {:?}", counts.doubt());
    said(wired.kind, "completes handshakes and never reads", &trial);
    Ok(())
}

fn said(kind: Kind, what: &str, trial: &Trial) {
    let accounts = &trial.accounts;
    eprintln!("{}: a server that {what}: {} lost, {} unsent", kind.name(), accounts.lost, accounts.unsent);
}

/// Accepts connections, and reads nothing from them, until this program ends.
fn listen() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::Builder::new().name("deaf".into()).spawn(move || {
        let accepted: Vec<TcpStream> = listener.incoming().flatten().collect();
        drop(accepted);
    })?;
    Ok(address)
}
