//! resperf, and `kqps resperf` with the same flags, at a server of a known capacity.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kqps_skips::Capability;

use super::super::Bench;
use super::capped::Capped;
use crate::child::{Running, pinned};

/// Debian's resperf.
const THEIRS: &str = "/usr/bin/resperf";

/// The greatest difference of a maximum from the capacity.
const WITHIN: f64 = 0.02;

/// The greatest CPU time of kqps's player, as a share of resperf's.
const CPU_MOST: f64 = 0.6;

const END_WITHIN: Duration = Duration::from_secs(20);

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
    let names = (0..100_000).map(|number| format!("n{number:06}.example.test A\n")).collect::<String>();
    fs::write(&queries, names)?;
    let mut cpu_s = [0.0; 2];
    for _ in 0..bench.choose(1, 3) {
        let programs = [("kqps", bench.kqps.program.as_path()), ("resperf", Path::new(THEIRS))];
        for (cpu_s, (name, program)) in cpu_s.iter_mut().zip(programs) {
            let server = Capped::start(capacity_qps, bench.kqps.subject_cpu)?;
            let port = server.address.port().to_string();
            let mut command = pinned(&bench.kqps.player_cpu.to_string(), program);
            command.args((name == "kqps").then_some("resperf"));
            command.args(["-s", "127.0.0.1", "-p", &port, "-d"]).arg(&queries);
            command.args(["-m", most, "-r", seconds, "-c", "1", "-t", "2", "-L", "100", "-R"]);
            let found = played(command).with_context(|| name.to_owned())?;
            server.stop()?;
            let off = found.most_qps / capacity_qps - 1.0;
            eprintln!("{name}: {:.0} q/s, {:+.2} %, {:.2} s of CPU time", found.most_qps, 100.0 * off, found.cpu_s);
            ensure!(off.abs() <= WITHIN, "{name}: a maximum of {} q/s at {capacity_qps} q/s", found.most_qps);
            *cpu_s += found.cpu_s;
        }
    }
    let share = cpu_s[0] / cpu_s[1];
    eprintln!("kqps takes {share:.2} of resperf's CPU time");
    // A debug build is slower, and a second of a load is soon over.
    ensure!(bench.choose(true, share <= CPU_MOST), "{share:.2} is above {CPU_MOST}");
    Ok(())
}

fn played(mut command: Command) -> Result<Found> {
    let ended = Running::start(&mut command)?.wait(END_WITHIN)?;
    let line = ended.output.lines().find_map(|line| line.trim().strip_prefix("Maximum throughput:"));
    let most = line.and_then(|line| line.split_whitespace().next()).context(ended.output.clone())?;
    Ok(Found { most_qps: most.parse()?, cpu_s: ended.cpu_s })
}
