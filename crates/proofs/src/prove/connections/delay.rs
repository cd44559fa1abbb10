//! Latency over connections: if a server delays every reply by a fixed time, the median moves by that time. The server
//! notes when it handed each reply to the kernel, and is the witness.

use anyhow::{Context as _, Result, ensure};
use kqps_faults::streams::{Server, ServerSettings};

use super::super::{Bench, QUERIES, delay, witnessed};
use super::bounded::sums;
use super::wire::{Kind, Wired};

const DELAYS_US: [u64; 2] = [1_000, 20_000];

/// Compares every trial with the server's observations, and in the whole form each delay with none.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    for kind in Kind::ALL {
        let wired = Wired::new(bench, kind)?;
        for delay_us in DELAYS_US {
            let name = kind.name();
            delay::compare(bench, name, delay_us, |delay_us| median_us(bench, &wired, delay_us))
                .with_context(|| format!("{name}, a delay of {delay_us} µs"))?;
        }
    }
    Ok(())
}

/// The median of a trial at a server with this delay.
fn median_us(bench: &Bench, wired: &Wired, delay_us: u64) -> Result<u64> {
    let settings = ServerSettings { delay_us, spin: true, witness: true, ..wired.server(bench) };
    let server = Server::start(settings)?;
    let file = bench.queries(QUERIES)?;
    let duration = bench.choose("500ms", "5s");
    // A single connection, so that queries are read in the order of the schedule. The player sends all of them, however
    // late.
    let flags = ["-c", "1", "-T", "1", "-Q", "2k", "-l", duration, "-t", "10s", "--lag", "10s"];
    let trial = bench.kqps.trial(server.address(), &file, &wired.flags(&flags))?;
    let (counts, witness) = server.stop_with_witness()?;
    sums(&trial)?;
    ensure!(counts.doubt().is_none(), "the server's counts are in doubt: {counts:?}");
    // Replies that one read takes have the time of the last of them, so only the median is known well.
    let known = witnessed::compare_median(&trial, &witness)?;
    let p50_us = trial.latency_us.p50.context("there is a p50")?;
    let (least_us, most_us) = known.least.p50.zip(known.most.p50).context("the server knows it too")?;
    let name = wired.kind.name();
    eprintln!("{name}: with {delay_us} µs p50 is {p50_us} µs, and the server saw {least_us} to {most_us} µs");
    ensure!(least_us >= delay_us, "the server did not delay");
    Ok(p50_us)
}
