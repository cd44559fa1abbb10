//! Coordinated omission over connections: if a subject pauses, every query that is due meanwhile waits, and the
//! quantiles must show it.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::super::{Bench, QUERIES, Size};
use super::bounded::sums;
use super::wire::{Kind, echo};
use crate::program::finish;

/// The largest deviation of p95 from the known answer, as a share of it. In the small form the subject may take longer
/// to answer what waited.
const WITHIN: f64 = 0.02;
const WITHIN_SMALL: f64 = 0.05;

/// The share of queries beyond the quantile.
const BEYOND: f64 = 0.05;

/// Stops an echo in the middle of an open-loop trial, over each wire.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    Kind::ALL.into_iter().try_for_each(|kind| over(bench, kind).with_context(|| kind.name()))
}

fn over(bench: &Bench, kind: Kind) -> Result<()> {
    let (trial_s, freeze_s, rate_qps) = bench.choose((2.0, 0.5, "2k"), (10.0, 1.0, "400"));
    let (echo, address, wire) = echo(bench, kind)?;
    let file = bench.queries(QUERIES)?;
    let duration = format!("{trial_s}s");
    // The player sends everything, however late it is itself.
    let flags = ["-c", "4", "-T", "1", "-Q", rate_qps, "-l", &duration, "-t", "10s", "--lag", "10s"];
    let player = bench.kqps.start_load(address, &file, &[wire, &flags].concat())?;

    // Well after its start and well before its end; the exact time does not matter.
    std::thread::sleep(Duration::from_secs_f64(trial_s * 0.4));
    let frozen_s = echo.stand_still(Duration::from_secs_f64(freeze_s))?.as_secs_f64();

    let trial = finish(player)?.measured()?;
    let connections = sums(&trial)?;
    ensure!(
        trial.accounts.correct == trial.accounts.intended && connections.closed.is_empty(),
        "not every query was answered: {:?}, {connections:?}",
        trial.accounts
    );
    let p95_s = trial.latency_us.p95.context("there is a p95")? as f64 / 1e6;
    // A query that is due x seconds before the end of the pause waits x. The slowest 5 % of all queries are those due
    // in the first 5 % of the trial's length within the pause.
    let known_s = frozen_s - BEYOND * trial_s;
    let off = p95_s / known_s - 1.0;
    let name = kind.name();
    eprintln!(
        "{name}: frozen for {frozen_s:.4} s: p95 is {p95_s:.4} s, {:.2} % off {known_s:.4} s",
        off * 100.0
    );
    let within = bench.choose(WITHIN_SMALL, WITHIN);
    ensure!(off >= -within, "p95 hides a part of the pause");
    ensure!(bench.size == Size::Small || off <= within, "p95 is not within {} %", within * 100.0);
    Ok(())
}
