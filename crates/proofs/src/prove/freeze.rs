//! Coordinated omission: if a subject pauses, every query that is due meanwhile waits, and the quantiles must
//! show it. A relay between player and subject is the witness.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::{Bench, QUERIES, Size, witnessed};
use crate::program::finish;
use kqps_faults::relay::{Relay, RelaySettings};

/// The largest deviation of p95 from the known answer, as a share of it.
const WITHIN: f64 = 0.02;

/// Stops an echo in the middle of an open-loop trial.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    // The pause is a tenth of the trial in both forms. The rate is low, so that the echo soon answers the
    // waiting queries: a thousand of them can take a slow host 20 ms, which is 2 % of p95. There are still
    // enough queries for a p95.
    let (trial_s, freeze_s, rate_qps) = bench.choose((4.0, 0.4, "1k"), (10.0, 1.0, "400"));
    let (echo, address) = bench.kqps.echo("mmsg")?;
    let settings = RelaySettings {
        subject: Some(address),
        cpu: Some(bench.kqps.subject_cpu),
        witness: true,
        ..RelaySettings::default()
    };
    let relay = Relay::start(settings)?;
    let file = bench.queries(QUERIES)?;
    let duration = format!("{trial_s}s");
    // The player sends everything, however late it is itself.
    let flags = ["-T", "1", "-Q", rate_qps, "-l", &duration, "-t", "10s", "--lag", "10s"];
    let player = bench.kqps.start_load(relay.address(), &file, &flags)?;

    // Well after its start and well before its end; the exact time does not matter.
    std::thread::sleep(Duration::from_secs_f64(trial_s * 0.4));
    let frozen_s = echo.stand_still(Duration::from_secs_f64(freeze_s))?.as_secs_f64();

    let trial = finish(player)?.measured()?;
    let (_, witness) = relay.stop_with_witness()?;
    let known = witnessed::compare(&trial, &witness)?;
    let p95_us = trial.latency_us.p95.context("there is a p95")?;
    let (least_us, most_us) = known.least.p95.zip(known.most.p95).context("the relay knows it too")?;
    eprintln!("frozen for {frozen_s:.4} s: p95 is {p95_us} µs, and the relay saw {least_us} to {most_us} µs");
    // A query that is due x seconds before the end of the pause waits x. The slowest 5 % of all queries are
    // those due in the first 5 % of the trial's length within the pause.
    let plain_s = frozen_s - 0.05 * trial_s;
    let off = p95_us as f64 / 1e6 / plain_s - 1.0;
    eprintln!("by arithmetic alone it is {plain_s:.4} s, which is {:.2} % off", off * 100.0);
    ensure!(bench.size == Size::Small || off.abs() <= WITHIN, "p95 is not within {} %", WITHIN * 100.0);
    Ok(())
}
