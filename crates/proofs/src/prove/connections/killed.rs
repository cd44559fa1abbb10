//! A server that is killed in the middle of a trial: the trial goes on to its end, and every query has its fate.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kqps_kernel::process::Signal;

use super::super::Bench;
use super::bounded::{self, count, sums};
use super::wire::{Kind, echo, one_each};
use crate::child::Running;
use crate::program::finish;

/// CPU seconds after which an echo has answered queries, since handshakes alone take far less.
const ANSWERING_S: f64 = 0.2;

/// How long an echo may take for that on a busy host.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

/// Kills an echo under kept connections, and under a connection for each query, over each wire.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    for kind in Kind::ALL {
        for more in [["-c", "8"].to_vec(), [&["-c", "32"][..], one_each(kind)].concat()] {
            killed(bench, kind, &more).with_context(|| format!("{}, {}", kind.name(), more.join(" ")))?;
        }
    }
    Ok(())
}

fn killed(bench: &Bench, kind: Kind, more: &[&str]) -> Result<()> {
    let length = bench.choose("2s", "10s");
    let (echo, address, wire) = echo(bench, kind)?;
    let file = bench.queries(10_000)?;
    let flags = [wire, more, &["-T", "1", "-q", "50", "-l", length, "-t", "300ms"]].concat();
    let player = Running::start(&mut bounded::command(bench, &[], address, &file, &flags))?;
    wait_until_answering(&echo)?;
    echo.signal(Signal::Kill)?;
    echo.wait(Duration::from_secs(10))?;
    let trial = finish(player)?.measured()?;
    let connections = sums(&trial)?;
    let accounts = &trial.accounts;
    ensure!(accounts.correct > 0 && accounts.lost > 0, "it was not killed in the middle: {accounts:?}");
    let refused = count(&connections.failed, "refused");
    ensure!(refused > 0 && count(&trial.lost_causes, "refused") > 0, "nothing was refused: {connections:?}");
    ensure!(connections.open == 0, "connections of a dead server are open: {connections:?}");
    eprintln!("{}: killed: {} correct, lost {:?}", kind.name(), accounts.correct, trial.lost_causes);
    Ok(())
}

/// Waits until an echo has worked for a while. How soon a player sends its first query depends on what else runs.
fn wait_until_answering(echo: &Running) -> Result<()> {
    let (before_s, deadline) = (echo.cpu_s()?, Instant::now() + ANSWERS_WITHIN);
    while echo.cpu_s()? < before_s + ANSWERING_S {
        ensure!(
            Instant::now() < deadline,
            "the echo was asked nothing within {} s",
            ANSWERS_WITHIN.as_secs()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
