//! Latency: if a relay delays every reply by a fixed time, the median moves by that time, whatever I/O the
//! player uses.

use anyhow::{Context as _, Result, ensure};

use super::{Bench, QUERIES, Size, player_ios, witnessed};
use kqps_faults::relay::{Relay, RelaySettings};

const DELAYS_US: [u64; 3] = [1_000, 5_000, 20_000];

/// The largest difference between the delay and the move of the median, microseconds.
const WITHIN_US: u64 = 50;

/// Compares every trial with the relay's observations, and in the whole form each delay with none.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    for io in player_ios() {
        for delay_us in DELAYS_US {
            compare(bench, io, delay_us, |delay_us| median_us(bench, io, delay_us))
                .with_context(|| format!("--io {io}, a delay of {delay_us} µs"))?;
        }
    }
    Ok(())
}

/// Compares the median of a trial with this delay with those of trials without it. The small form only makes the trial.
pub(super) fn compare(
    bench: &Bench,
    what: &str,
    delay_us: u64,
    median_us: impl Fn(u64) -> Result<u64>,
) -> Result<()> {
    if bench.size == Size::Small {
        return median_us(delay_us).map(drop);
    }
    // Before and after every delay, since a host's own latency drifts.
    let (before_us, delayed_us, after_us) = (median_us(0)?, median_us(delay_us)?, median_us(0)?);
    let none_us = u64::midpoint(before_us, after_us);
    let moved_us = delayed_us.saturating_sub(none_us);
    eprintln!("{what}: {delay_us} µs moves p50 by {moved_us} µs, from {before_us} and {after_us} µs");
    ensure!(moved_us.abs_diff(delay_us) <= WITHIN_US, "p50 moves by {moved_us} µs");
    Ok(())
}

/// The median of a trial through a relay with this delay. The relay is its witness.
fn median_us(bench: &Bench, io: &str, delay_us: u64) -> Result<u64> {
    let cpu = Some(bench.kqps.subject_cpu);
    let settings = RelaySettings { delay_us, cpu, spin: true, witness: true, ..RelaySettings::default() };
    let relay = Relay::start(settings)?;
    let file = bench.queries(QUERIES)?;
    // Few queries, so that they do not wait for each other. The player sends all of them, however late.
    let duration = bench.choose("500ms", "5s");
    let flags = ["-T", "1", "-Q", "2k", "-l", duration, "-t", "10s", "--lag", "10s", "--io", io];
    let trial = bench.kqps.trial(relay.address(), &file, &flags)?;
    let (_, witness) = relay.stop_with_witness()?;
    let known = witnessed::compare(&trial, &witness)?;
    let p50_us = trial.latency_us.p50.context("there is a p50")?;
    let (least_us, most_us) = known.least.p50.zip(known.most.p50).context("the relay knows it too")?;
    eprintln!("{io}: with {delay_us} µs p50 is {p50_us} µs, and the relay saw {least_us} to {most_us} µs");
    ensure!(least_us >= delay_us, "the relay did not delay");
    Ok(p50_us)
}
