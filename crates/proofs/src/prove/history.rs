//! The history of runs: no alarm without a change, a step found in time, agreement with programs by others, and a
//! thousand runs in seconds. Series are simulated, with the host of the rule's own tests.

mod others;
// The host of the rule's own tests, since one model of noise is enough.
#[path = "../../../history/tests/history/simulate.rs"]
mod simulate;
mod thousand;

use anyhow::{Result, ensure};

use super::Bench;
use simulate::{Host, false_alarms, found_in_time};

/// Of this many series without a change, one may raise an alarm.
const SERIES_PER_ALARM: u32 = 100;

/// The runs of each series, and those before a step.
const POINTS: usize = 200;
const BEFORE: usize = 20;

/// The share of steps that must be found: that of differences as large as the MDE which a comparison finds.
const FOUND: f64 = 0.95;

type Part = (&'static str, fn(&Bench) -> Result<()>);

const PARTS: [Part; 4] =
    [("alarms", alarms), ("steps", steps), ("others", others::prove), ("thousand", thousand::prove)];

/// Proves every part, or the one that the user names.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    for (_, part) in bench.parts(&PARTS, |(name, _)| name)? {
        part(bench)?;
    }
    Ok(())
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
