//! The history of runs: no alarm without a change, also on hosts with two speeds, a step and a creep found in time, a
//! thousand runs in seconds, and the workflow of docs/ci.md. Series are simulated, with the host of the rule's own tests.

mod many_runs;
mod recipe;
// The host of the rule's own tests, since one model of noise is enough.
#[path = "../../../history/tests/history/simulate.rs"]
mod simulate;

use anyhow::{Result, ensure};

use super::{Bench, Part};
use simulate::{Host, SPEEDS, crept, false_alarms, found_in_time, two_speeds};

/// Series without a change among which one may raise an alarm.
const SERIES_PER_ALARM: u32 = 100;

/// The runs of each series, and those before a step.
const POINTS: usize = 200;
const BEFORE: usize = 20;

/// The share of steps that must be found: that of differences as large as the MDE which a comparison finds.
const FOUND: f64 = 0.95;

/// The runs of a series of a host with two speeds, and of a creep.
const RUNS: usize = 40;

/// The most of 1,000 series on hosts with two speeds that may have a strong change, and that may fail a job.
const STRONG_MOST: f64 = 0.05;
const FAILING_MOST: f64 = 0.005;

const PARTS: [Part; 6] = [
    ("alarms", alarms),
    ("speeds", speeds),
    ("steps", steps),
    ("creeps", creeps),
    ("thousand", many_runs::prove),
    ("recipe", recipe::prove),
];

/// Proves every part, or the one that the user names.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    bench.prove_parts(&PARTS, |_| false)
}

/// As many permutations as a history of few series takes, or as decide at 5 %.
fn permutations(bench: &Bench) -> u32 {
    bench.choose(999, 9_999)
}

/// Looks at stationary series, in the whole form after each of their runs.
fn alarms(bench: &Bench) -> Result<()> {
    let (count, every) = bench.choose((20, 50), (1_000, 1));
    let permutations = permutations(bench);
    for host in Host::ALL {
        let found = false_alarms(host, permutations, count, POINTS, every);
        eprintln!(
            "{} host, {count} series of {POINTS} runs without a change, a look at every {every}: {} with a strong change \
             at any look, {} at the last; {} with a weak one at any look",
            host.name, found.strong, found.at_last, found.weak
        );
        ensure!(
            found.strong * SERIES_PER_ALARM <= found.series,
            "{}: {} false alarms in {count} series, and one in {SERIES_PER_ALARM} is allowed",
            host.name,
            found.strong
        );
    }
    Ok(())
}

/// Steps of 5 % after 20 runs, on hosts whose runs detect less than that.
fn steps(bench: &Bench) -> Result<()> {
    // If 95 % are found, 8 of 10 or more are found in 99 of 100 small forms.
    let (count, least) = bench.choose((10, 0.8), (1_000, FOUND));
    for mde in [0.02, 0.03, 0.04, 0.048] {
        let host = Host { mde: Some(mde), spread: Host::CALM.spread * mde / 0.048, ..Host::CALM };
        for step in [0.95, 1.05] {
            let (found, strong) = found_in_time(host, permutations(bench), count, BEFORE, step);
            eprintln!(
                "MDE {:.1} %, a step to {step:.2} after {BEFORE} runs: found within 3 runs in {found} of {count} series, \
                 as a strong change in {strong}",
                mde * 100.0
            );
            ensure!(
                f64::from(found) >= least * f64::from(count),
                "a step to {step} with an MDE of {mde} was found in {found} of {count} series only"
            );
        }
    }
    Ok(())
}

/// Hosts on which a part of the runs is slower, at random: no change of the server.
fn speeds(bench: &Bench) -> Result<()> {
    // In the small form three may fail: more have a chance of 1 in 10,000 if one in 200 may.
    let (count, failing) = bench.choose((200, 3.0), (2_000, FAILING_MOST * 2_000.0));
    for (part, slower) in SPEEDS {
        let found = two_speeds(part, slower, permutations(bench), count, RUNS);
        eprintln!(
            "{:.0} % of {RUNS} runs slower by {:.0} %, {count} series: {} with a strong change, {} that fail slower:2%",
            part * 100.0,
            slower * 100.0,
            found.strong,
            found.failing
        );
        ensure!(
            f64::from(found.strong) <= STRONG_MOST * f64::from(count) && f64::from(found.failing) <= failing,
            "two speeds: {found:?} of {count} series"
        );
    }
    Ok(())
}

/// Figures that become less by a little with each run.
fn creeps(bench: &Bench) -> Result<()> {
    let (count, least) = bench.choose((20, 0.9), (1_000, FOUND));
    for host in Host::ALL.into_iter().filter(|host| host.name != Host::RESTLESS.name) {
        let found = crept(host, permutations(bench), count, RUNS, 0.88);
        let flat = crept(host, permutations(bench), count, RUNS, 1.0);
        eprintln!(
            "{} host, {count} series of {RUNS} runs: a creep of 12 % fails slower:2% in {found}, none does in {flat}",
            host.name
        );
        ensure!(
            f64::from(found) >= least * f64::from(count),
            "a creep is found in {found} of {count} series only"
        );
        ensure!(flat * SERIES_PER_ALARM <= count, "{flat} of {count} series without one have a creep");
    }
    Ok(())
}
