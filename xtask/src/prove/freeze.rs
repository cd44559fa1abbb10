//! Coordinated omission: a subject that stands still for a while makes every query due meanwhile wait, and
//! the quantiles must say so.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use kqps_kernel::process::Signal;

use super::{Bench, QUERIES};
use crate::kqps::finish;

/// How far from the known answer p95 may be, as a share of it.
const WITHIN: f64 = 0.02;

/// Stops an echo in the middle of an open-loop trial.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    // A tenth of the time, either way.
    let (trial_s, freeze_s) = bench.choose((4.0, 0.4), (10.0, 1.0));
    let (echo, address) = bench.kqps.echo("mmsg")?;
    let file = bench.queries(QUERIES)?;
    let duration = format!("{trial_s}s");
    // Few queries, so that the echo is soon through with those that gathered. A player that is late itself
    // for a moment still sends everything.
    let flags = ["-Q", "1k", "-l", &duration, "-t", "3s", "--lag", "1s"];
    let player = bench.kqps.start_load(address, &file, &flags)?;

    // Well after its start and well before its end; where exactly does not matter.
    std::thread::sleep(Duration::from_secs_f64(trial_s * 0.4));
    let began = Instant::now();
    echo.signal(Signal::Stop)?;
    std::thread::sleep(Duration::from_secs_f64(freeze_s));
    echo.signal(Signal::Continue)?;
    let frozen_s = began.elapsed().as_secs_f64();

    let trial = finish(player)?.measured()?;
    trial.accounts.check()?;
    if trial.accounts.correct != trial.accounts.intended {
        bail!("a frozen subject answers everything in the end, but: {:?}", trial.accounts);
    }
    // A query that is due x seconds before the end of the freeze waits x. The slowest 5 % of all queries are
    // those due in the first 5 % of the trial's length within the freeze.
    let known_s = frozen_s - 0.05 * trial.load.duration_s;
    let p95_s = trial.latency_us.p95.context("there is a p95")? as f64 / 1e6;
    if (p95_s / known_s - 1.0).abs() > WITHIN {
        bail!("frozen for {frozen_s:.4} s: p95 is {p95_s:.4} s instead of {known_s:.4} s");
    }
    eprintln!("frozen for {frozen_s:.4} s: p95 is {p95_s:.4} s, and {known_s:.4} s is right");
    Ok(())
}
