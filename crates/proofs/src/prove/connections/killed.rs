//! A server that is killed in the middle of a trial: the trial goes on to its end, and every query has its fate.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use kqps_kernel::process::Signal;
use kqps_observation::Trial;

use super::super::Bench;
use super::bounded::{self, count, sums};
use super::wire::{Kind, echo, one_each};
use crate::child::Running;
use crate::program::finish;

/// CPU seconds after which an echo has probably answered queries, since handshakes alone take less.
const ANSWERING_S: f64 = 0.1;

/// How often a trial is made. One whose server was killed too early or too late, on a busy host, proves nothing.
const ATTEMPTS: u32 = 4;

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
    for _ in 0..ATTEMPTS {
        if let Some(trial) = played(bench, kind, more)? {
            return check(kind, &trial);
        }
    }
    bail!("no server of {ATTEMPTS} was killed in the middle of its trial")
}

/// Plays a trial whose server is killed while it answers. `None` if it was killed too early or too late.
fn played(bench: &Bench, kind: Kind, more: &[&str]) -> Result<Option<Trial>> {
    let length = bench.choose("2s", "10s");
    let (echo, address, wire) = echo(bench, kind)?;
    let file = bench.queries(10_000)?;
    let flags = [wire, more, &["-T", "1", "-q", "50", "-l", length, "-t", "300ms"]].concat();
    let player = Running::start(&mut bounded::command(bench, &[], address, &file, &flags))?;
    let is_early = wait_until_answering(&echo, &player)?;
    echo.signal(Signal::Kill)?;
    echo.wait(Duration::from_secs(10))?;
    let trial = finish(player)?.measured()?;
    let is_in_the_middle = is_early && trial.accounts.correct > 0 && trial.accounts.lost > 0;
    Ok(is_in_the_middle.then_some(trial))
}

fn check(kind: Kind, trial: &Trial) -> Result<()> {
    let connections = sums(trial)?;
    let refused = count(&connections.failed, "refused");
    ensure!(refused > 0 && count(&trial.lost_causes, "refused") > 0, "nothing was refused: {connections:?}");
    ensure!(connections.open == 0, "connections of a dead server are open: {connections:?}");
    eprintln!("{}: killed: {} correct, lost {:?}", kind.name(), trial.accounts.correct, trial.lost_causes);
    Ok(())
}

/// Waits until an echo has worked for a while: how soon a player sends its first query depends on what else runs.
/// Returns whether the player still plays.
fn wait_until_answering(echo: &Running, player: &Running) -> Result<bool> {
    let before_s = echo.cpu_s()?;
    while echo.cpu_s()? < before_s + ANSWERING_S {
        if player.has_ended()? {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(true)
}
