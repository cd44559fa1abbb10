//! A server that accepts connections and never reads: the trial ends in time, and all queries are lost by time, or over
//! other wires than TCP by the handshake that never comes.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

use anyhow::{Context as _, Result, ensure};

use super::super::Bench;
use super::bounded::{self, count, sums};
use super::wire::{Kind, Wired};

/// Plays more than the buffers of both sides hold, over each wire.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    Kind::ALL.into_iter().try_for_each(|kind| over(bench, kind).with_context(|| kind.name()))
}

fn over(bench: &Bench, kind: Kind) -> Result<()> {
    let datagrams = UdpSocket::bind("127.0.0.1:0")?;
    let address = if kind == Kind::Quic { datagrams.local_addr()? } else { listen()? };
    let file = bench.queries(10_000)?;
    let length = bench.choose("1s", "5s");
    let flags = ["-c", "4", "-T", "1", "-Q", "100k", "-l", length, "-t", "300ms"];
    let wired = Wired::new(bench, kind)?;
    let trial = bounded::play(bench, &[], address, &file, &wired.flags(&flags))?.measured()?;
    let connections = sums(&trial)?;
    let accounts = &trial.accounts;
    ensure!(accounts.sent > 0 && accounts.lost == accounts.sent, "nobody answers: {accounts:?}");
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
    eprintln!(
        "{}: a server that never reads: {} lost, {} unsent",
        kind.name(),
        accounts.lost,
        accounts.unsent
    );
    Ok(())
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
