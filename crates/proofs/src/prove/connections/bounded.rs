//! Players that must end in time, whatever happens to them, with a record whose sums are right.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use kqps_observation::{ConnectionFacts, Trial};

use super::super::Bench;
use crate::child::Running;
use crate::program::{Played, finish};

/// The longest time of a trial here, seconds. None is meant to last a quarter of it.
const WITHIN_S: &str = "60";

/// A player that is killed if it hangs. `before` are the words of a program that starts it, such as one that limits it.
pub(super) fn command(
    bench: &Bench,
    before: &[&str],
    target: SocketAddr,
    queries: &Path,
    flags: &[&str],
) -> Command {
    command_within(WITHIN_S, bench, before, (target, queries), flags)
}

/// The player of [`command`] with another time, in seconds, after which it counts as hanging.
pub(super) fn command_within(
    within_s: &str,
    bench: &Bench,
    before: &[&str],
    (target, queries): (SocketAddr, &Path),
    flags: &[&str],
) -> Command {
    let cpu = bench.kqps.player_cpu.to_string();
    let mut command = Command::new("timeout");
    command.args(["--kill-after=1", within_s]).args(before).args(["taskset", "--cpu-list", &cpu]);
    command.arg(&bench.kqps.program).args(["load", &target.to_string(), "--json", "--cpus", &cpu]);
    command.arg("--queries").arg(queries).args(flags);
    command
}

/// Plays a trial, which must end in time.
pub(super) fn play(
    bench: &Bench,
    before: &[&str],
    target: SocketAddr,
    queries: &Path,
    flags: &[&str],
) -> Result<Played> {
    finish(Running::start(&mut command(bench, before, target, queries, flags))?)
}

/// The connections of a trial, after all equations were checked.
pub(super) fn sums(trial: &Trial) -> Result<&ConnectionFacts> {
    trial.accounts.check()?;
    let connections = trial.connections.as_ref().context("a trial without connections")?;
    connections.check(trial.sent_on_connections())?;
    Ok(connections)
}

/// Counts by cause as a server sees them. It does not know whether a query that it read after it had closed the
/// connection had left before the player knew of that (`idle-race`).
pub(super) fn as_a_server_sees(counts: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let mut counts = counts.clone();
    merge(&mut counts, &["idle-race", "closed"], "closed");
    counts
}

/// Puts the counts of these causes together, as one.
pub(super) fn merge(counts: &mut BTreeMap<String, u64>, causes: &[&str], one: &str) {
    let sum: u64 = causes.iter().filter_map(|cause| counts.remove(*cause)).sum();
    if sum > 0 {
        *counts.entry(one.to_owned()).or_default() += sum;
    }
}

/// The count of a cause; 0 if it is not there.
pub(super) fn count(counts: &BTreeMap<String, u64>, cause: &str) -> u64 {
    counts.get(cause).copied().unwrap_or(0)
}
