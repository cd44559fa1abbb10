//! Endurance: after a long trial the accounts still add up, in total and over all seconds, and the player's
//! memory does not grow.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::{Bench, QUERIES};
use crate::child::status_kib;
use crate::program::finish;

/// The most that the player's memory may grow, KiB. Time bins grow by a few bytes a second.
const GROWTH_KIB: u64 = 4096;

/// Plays at an echo for an hour, or for seconds.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    let (rate, duration_s) = bench.choose(("20k", 3), ("100k", 3600));
    let (_echo, address) = bench.kqps.echo("mmsg")?;
    let file = bench.queries(QUERIES)?;
    let duration = format!("{duration_s}s");
    let player = bench.kqps.start_load(address, &file, &["-Q", rate, "-l", &duration])?;

    let sixth = Duration::from_secs(duration_s) / 6;
    std::thread::sleep(2 * sixth);
    let early_kib = resident_kib(player.pid())?;
    std::thread::sleep(3 * sixth);
    let late_kib = resident_kib(player.pid())?;

    let trial = finish(player)?.measured()?;
    trial.accounts.check()?;
    let in_intervals: u64 = trial.intervals.iter().map(|interval| interval.sent).sum();
    if in_intervals != trial.accounts.sent {
        bail!("{} queries were sent, and {in_intervals} of them in some interval", trial.accounts.sent);
    }
    if late_kib > early_kib + GROWTH_KIB {
        bail!("the player's memory grew from {early_kib} KiB to {late_kib} KiB");
    }
    eprintln!("{duration_s} s at {rate}: {:?}; memory {early_kib} KiB, then {late_kib} KiB", trial.accounts);
    Ok(())
}

fn resident_kib(pid: u32) -> Result<u64> {
    status_kib(pid, "VmRSS").with_context(|| format!("the process {pid} shows no resident memory"))
}
