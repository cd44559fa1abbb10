//! resperf, and `kqps resperf` with the same flags, at a server of a known capacity.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kqps_faults::capped::capped;
use kqps_skips::Capability;

use super::super::Bench;
use super::super::stand_in::StandIn;
use crate::child::{Running, pinned};
use crate::program::{Expected, write_queries};

/// Debian's resperf.
const THEIRS: &str = "/usr/bin/resperf";

/// The greatest difference of a maximum from the capacity.
const WITHIN: f64 = 0.02;

/// The greatest CPU time of kqps's player, as a share of resperf's.
const CPU_MOST: f64 = 0.6;

/// Rounds that are made again at most.
const SPARE: usize = 3;

const END_WITHIN: Duration = Duration::from_mins(5);

/// The result of a program.
#[derive(Debug)]
struct Found {
    /// The `Maximum throughput`, queries a second.
    most_qps: f64,
    cpu_s: f64,
}

pub(super) fn prove(bench: &Bench) -> Result<()> {
    if !Path::new(THEIRS).exists() {
        return bench.leave_out(Capability::Programs, format_args!("there is no {THEIRS}"));
    }
    let (capacity_qps, most, seconds) = bench.choose((4_000.0, "8000", "2"), (20_000.0, "40000", "10"));
    let queries = bench.folder.path().join("named");
    write_queries(&queries, 100_000, Expected::Nothing)?;
    let (mut cpu_s, mut left) = ([0.0; 2], bench.choose(1, 3));
    for _ in 0..left + SPARE {
        if left == 0 {
            break;
        }
        let mut of_round = [0.0; 2];
        let mut is_good = true;
        for (cpu_s, own) in of_round.iter_mut().zip([true, false]) {
            let server = StandIn::start(bench.kqps.subject_cpu, capped(capacity_qps))?;
            let found = played(bench, own, (&server, &queries), [most, seconds])?;
            server.stop()?;
            let off = found.most_qps / capacity_qps - 1.0;
            let name = if own { "kqps" } else { "resperf" };
            let (qps, percent, cpu) = (found.most_qps, 100.0 * off, found.cpu_s);
            eprintln!("{name}: {qps:.0} q/s, {percent:+.2} %, {cpu:.2} s of CPU time");
            let is_near = off.abs() <= bench.choose(0.1, WITHIN);
            ensure!(is_near || !own, "kqps finds {qps:.0} q/s at {capacity_qps} q/s");
            // resperf ends early if a standstill of the host makes it fall behind.
            is_good &= is_near;
            *cpu_s = cpu;
        }
        if is_good {
            cpu_s.iter_mut().zip(of_round).for_each(|(sum, cpu_s)| *sum += cpu_s);
            left -= 1;
        }
    }
    ensure!(left == 0, "resperf itself did not find the capacity often enough");
    let share = cpu_s[0] / cpu_s[1];
    eprintln!("kqps takes {share:.2} of resperf's CPU time");
    // A debug build is slower, and a second of a load is soon over.
    ensure!(bench.choose(true, share <= CPU_MOST), "{share:.2} is above {CPU_MOST}");
    Ok(())
}

/// The result of kqps or of resperf at a server.
fn played(
    bench: &Bench,
    own: bool,
    (server, queries): (&StandIn, &Path),
    [most, seconds]: [&str; 2],
) -> Result<Found> {
    let program = if own { bench.kqps.program.as_path() } else { Path::new(THEIRS) };
    let mut command = pinned(&bench.kqps.player_cpu.to_string(), program);
    // Each writes its plot where it runs.
    command.args(own.then_some("resperf")).current_dir(bench.folder.path());
    command.args(["-s", "127.0.0.1", "-p", &server.address.port().to_string(), "-d"]).arg(queries);
    command.args(["-m", most, "-r", seconds, "-c", "1", "-t", "2", "-L", "100", "-R"]);
    let ended = Running::start(&mut command)?.wait(END_WITHIN)?;
    let line = ended.output.lines().find_map(|line| line.trim().strip_prefix("Maximum throughput:"));
    let most = line.and_then(|line| line.split_whitespace().next()).context(ended.output.clone())?;
    Ok(Found { most_qps: most.parse()?, cpu_s: ended.cpu_s })
}
