//! The breaking point of good clients at a server with one queue and a known capacity: all that they leave of it.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kqps_faults::capped::capped;
use kqps_verdict::judge::SearchVerdict;

use super::super::Bench;
use super::super::patience::{ATTEMPTS, until_proved};
use super::super::stand_in::StandIn;
use super::{NAMED, queries};
use crate::child::{Running, pinned};

/// The share of their answers that the good clients keep. Their queries come evenly, so that a queue that overflows costs
/// them less than an attack that comes in bursts: a share of 99 % is kept some per cent beyond the capacity.
const KEEP: &str = "99.9%";

/// As [`KEEP`], of fewer queries.
const KEEP_SMALL: &str = "99%";

/// The greatest difference of the breaking point from the capacity that is left.
const WITHIN: f64 = 0.03;

/// As [`WITHIN`], of the bounds of a quick search beside programs that take CPU time.
const WITHIN_SMALL: f64 = 0.15;

/// The longest time of a search.
const END_WITHIN: Duration = Duration::from_mins(5);

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let (capacity_qps, good_qps) = bench.choose((4_000.0, 1_000.0), (20_000.0, 5_000.0));
    let (left_qps, within) = (capacity_qps - good_qps, bench.choose(WITHIN_SMALL, WITHIN));
    let found_qps = until_proved(ATTEMPTS, |_| {
        let verdict = searched(bench, capacity_qps, good_qps)?;
        let breaking = verdict.breaking.as_ref().context("the verdict is about no attack")?;
        ensure!(breaking.attack == ["attack"], "{:?}", breaking.attack);
        ensure!((breaking.good_qps - good_qps).abs() < 1e-6, "{} q/s of good clients", breaking.good_qps);
        // On a busy host the figure of the small form may be refused. Its bounds were seen all the same.
        let found = verdict.throughput_qps.or(bench.choose(verdict.seen.lower_qps, None));
        let Some(found_qps) = found else { return Ok(Err(verdict.reasons.join(" "))) };
        let off = found_qps / left_qps - 1.0;
        // More than is left is an answer that no host can give.
        ensure!(off <= within, "an attack of {found_qps:.0} q/s, where {left_qps} q/s are left");
        Ok(if off >= -within { Ok(found_qps) } else { Err(format!("{found_qps:.0} of {left_qps} q/s")) })
    })?;
    eprintln!(
        "good clients at {good_qps} q/s of a server of {capacity_qps} q/s: up to an attack of {found_qps:.0} q/s, \
         {:+.2} % from what is left",
        100.0 * (found_qps / left_qps - 1.0)
    );
    Ok(())
}

/// The verdict of a search beside an attack of random names.
fn searched(bench: &Bench, capacity_qps: f64, good_qps: f64) -> Result<SearchVerdict> {
    let server = StandIn::start(bench.kqps.subject_cpu, capped(capacity_qps))?;
    let (player, subject) = (bench.kqps.player_cpu.to_string(), bench.kqps.subject_cpu.to_string());
    let scenario = bench.folder.path().join("attack.toml");
    let class = format!(
        "[[class]]\nname = \"attack\"\nask = [\"{NAMED} A\"]\nprefix = \"label:12\"\nrate = \"{{rate}}\"\n\
         arrivals = \"poisson\"\ncheck = \"off\"\ncpus = \"{player}\"\n"
    );
    fs::write(&scenario, class)?;
    let mut command = pinned(&format!("{player},{subject}"), &bench.kqps.program);
    command.args(["find", &server.address.to_string(), "--json", "-d"]).arg(queries(bench)?);
    command.args(["--goal", bench.choose("quick", "default"), "--scenario"]).arg(&scenario);
    command.args([
        "--good-rate",
        &good_qps.to_string(),
        "--keep",
        bench.choose(KEEP_SMALL, KEEP),
        "--lag",
        "1m",
    ]);
    // With --max, rates do not follow the speed of the cores. Neither does the capacity.
    command.args(["--max", &(4.0 * capacity_qps).to_string(), "-t", "250ms"]);
    command.args(["--cpus", &player, "--subject-cpus", &subject]);
    let ended = Running::start(&mut command)?.wait(END_WITHIN)?;
    server.stop()?;
    let verdict = ended.output.trim().lines().last().context("kqps find printed nothing")?;
    serde_json::from_str(verdict).context("kqps find printed no verdict")
}
