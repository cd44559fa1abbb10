//! Latency: a relay that delays every reply by so much moves the median by just that.

use anyhow::{Context as _, Result, bail};

use super::{Bench, QUERIES};
use crate::relay::{Relay, Settings};

/// The delays, microseconds.
const DELAYS_US: [u64; 3] = [1_000, 5_000, 20_000];

/// Compares each delay with none, through the same relay.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    let within_us = bench.choose(200, 50);
    // Before every delay anew: a host's own latency drifts.
    for delay_us in DELAYS_US {
        let none_us = latency_us(bench, 0)?;
        let moved_us = latency_us(bench, delay_us)? - none_us;
        let quantile = bench.choose("the minimum", "p50");
        eprintln!("a delay of {delay_us} µs moves {quantile} by {moved_us} µs, from {none_us} µs");
        if moved_us.abs_diff(delay_us as i64) > within_us {
            bail!("a delay of {delay_us} µs moves {quantile} by {moved_us} µs");
        }
    }
    Ok(())
}

/// The median, or in the small form the minimum, which a busy host does not move.
fn latency_us(bench: &Bench, delay_us: u64) -> Result<i64> {
    let settings =
        Settings { delay_us, spin: true, cpu: Some(bench.kqps.subject_cpu), ..Settings::default() };
    let relay = Relay::start(settings)?;
    let file = bench.queries(QUERIES)?;
    // Few queries, so that they do not wait for one another.
    let flags = ["-Q", "2k", "-l", bench.choose("700ms", "5s"), "-t", "1s"];
    let trial = bench.kqps.trial(relay.address(), &file, &flags)?;
    trial.accounts.check()?;
    let latency_us = bench.choose(trial.latency_us.min, trial.latency_us.p50);
    latency_us.map(|latency_us| latency_us as i64).context("nothing was answered")
}
