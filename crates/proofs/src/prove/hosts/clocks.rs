//! Clocks: the offset of a host's monotonic clock, from pings over ssh, is right within the uncertainty that is stated,
//! every time. The hosts' clocks are ahead or behind by known amounts. Half of the estimates are made while every core
//! is busy, so that pings wait longer in one direction than in the other.

use anyhow::{Context as _, Result, ensure};
use kqps_faults::thread::Background;
use kqps_kernel::affinity;

use super::super::Bench;
use super::super::work::spinner;
use super::host::LabHost;
use super::lab::Lab;
use super::{check, reach};

const DISK: &str = "16m";

/// Errors and uncertainties of one clock's estimates.
#[derive(Default)]
struct Estimates {
    errors_ns: Vec<u64>,
    uncertainties_ns: Vec<u64>,
}

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let lab = Lab::new(bench, DISK)?;
    let estimates = bench.choose(10, 500);
    for host in &lab.hosts {
        for is_busy in [false, true] {
            let _busy = if is_busy { spinners()? } else { Vec::new() };
            let seen = lab.within(|| estimate(bench, &lab, host, estimates))?;
            seen.print(host, if is_busy { "on busy cores" } else { "on idle cores" });
        }
    }
    Ok(())
}

fn estimate(bench: &Bench, lab: &Lab, host: &LabHost, times: u32) -> Result<Estimates> {
    let mut link = reach::open(lab, host, &bench.kqps.program)?;
    let mut seen = Estimates::default();
    for _ in 0..times {
        let offset = link.offset()?;
        let uncertainty_ns = offset.uncertainty_ns;
        let error_ns = check::offset_error_ns(&host.name, host.ahead_ns, offset.ns, uncertainty_ns)
            .with_context(|| format!("a round trip of {} ns", offset.rtt_ns))?;
        ensure!(uncertainty_ns <= check::UNCERTAINTY_MOST_NS, "{uncertainty_ns} ns say nothing");
        seen.errors_ns.push(error_ns);
        seen.uncertainties_ns.push(uncertainty_ns);
    }
    Ok(seen)
}

/// Threads that keep all cores busy until they are dropped.
fn spinners() -> Result<Vec<Background<()>>> {
    let cores = affinity::allowed()?.into_iter();
    cores.map(|cpu| spinner(("a spinner", "spinner"), cpu)).collect()
}

impl Estimates {
    fn print(mut self, host: &LabHost, how: &str) {
        self.errors_ns.sort_unstable();
        self.uncertainties_ns.sort_unstable();
        let at = |sorted: &[u64], share: usize| {
            sorted.get(sorted.len() * share / 100).copied().unwrap_or_default()
        };
        eprintln!(
            "{} ({} s ahead), {how}: {} estimates are all right within their uncertainty; error median {:.1} µs, most \
             {:.1} µs; uncertainty median {:.1} µs, p95 {:.1} µs",
            host.name,
            host.ahead_ns / 1_000_000_000,
            self.errors_ns.len(),
            at(&self.errors_ns, 50) as f64 / 1e3,
            self.errors_ns.last().copied().unwrap_or_default() as f64 / 1e3,
            at(&self.uncertainties_ns, 50) as f64 / 1e3,
            at(&self.uncertainties_ns, 95) as f64 / 1e3
        );
    }
}
