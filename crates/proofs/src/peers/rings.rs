//! The player's own share of a query: its loop over rings of frames, which a thread of the same program empties and
//! fills in place of a kernel (`crates/player/examples/rings.rs`). How many queries a second one core carries, and how
//! many instructions one query takes.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use kqps_programs::shell;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Bench;
use super::rows::{Skipped, Target};
use super::single::{Single, Unit};

/// The words of these rows.
const RATE: &str = "rings: the player's loop without a kernel";
const INSTRUCTIONS: &str = "rings: instructions of both sides for a query and its reply";

/// The least queries a second.
const PER_S_LEAST: f64 = 1e7;

/// Queries of a measurement by clock, and by count of instructions: with a few, and with more. The difference has no
/// start-up in it.
const QUERIES: u64 = 50_000_000;
const QUERIES_SHORT: u64 = 100_000;
const COUNTED: [u64; 2] = [200_000, 1_200_000];
const COUNTED_SHORT: [u64; 2] = [5_000, 25_000];

/// The result that the program prints.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Turned {
    /// Queries that were sent and answered.
    queries: u64,
    seconds: f64,
}

/// The figures, and what this host cannot measure.
pub(super) fn measure(
    bench: &Bench<'_>,
    blocks: u32,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<(Vec<Single>, Vec<Skipped>)> {
    let (mut singles, mut skipped) = (Vec::new(), Vec::new());
    if is_wanted(RATE) {
        singles.push(by_clock(bench, blocks)?);
    }
    if is_wanted(INSTRUCTIONS) {
        if counts_instructions() {
            singles.push(by_count(bench)?);
        } else {
            let reason =
                "perf(1) counts no instructions here: it is missing, or the processor shows no counter";
            skipped.push(Skipped { what: INSTRUCTIONS, reason: reason.into() });
        }
    }
    Ok((singles, skipped))
}

fn by_clock(bench: &Bench<'_>, blocks: u32) -> Result<Single> {
    let queries = if bench.is_short { QUERIES_SHORT } else { QUERIES };
    let mut turned = Vec::new();
    for block in 0..blocks {
        let one = turn(bench, &Command::new(bench.rings), queries)?.0;
        eprintln!("{RATE} {}/{blocks}: {:.3} M/s", block + 1, one.per_s() / 1e6);
        turned.push(one);
    }
    let per_s = turned.iter().map(Turned::per_s);
    let rate = Single::new(RATE.to_owned(), Unit::PerSecond, per_s, Target::AtLeast(PER_S_LEAST));
    Ok(Single { beside: json!(turned), ..rate })
}

fn by_count(bench: &Bench<'_>) -> Result<Single> {
    let [few, many] = if bench.is_short { COUNTED_SHORT } else { COUNTED };
    let (least, most) = (instructions(bench, few)?, instructions(bench, many)?);
    ensure!(most > least, "perf counts {least} instructions for {few}, and {most} for {many}");
    let each = (most - least) as f64 / (many - few) as f64;
    let found = Single::new(INSTRUCTIONS.into(), Unit::Instructions, [each].into_iter(), Target::Reported);
    Ok(Single { beside: json!({ "queries": [few, many], "instructions": [least, most] }), ..found })
}

impl Turned {
    fn per_s(&self) -> f64 {
        self.queries as f64 / self.seconds
    }
}

/// Whether perf(1) is here and has a counter.
fn counts_instructions() -> bool {
    let counted = || {
        let mut command = Command::new(shell::find("perf")?);
        let counted = command.args(["stat", "-x", ",", "-e", EVENT, "true"]).stdin(Stdio::null()).output();
        of_perf(&String::from_utf8_lossy(&counted.ok()?.stderr))
    };
    counted().is_some()
}

/// The instructions of both threads of the program in user mode, for so many queries.
fn instructions(bench: &Bench<'_>, queries: u64) -> Result<u64> {
    let mut command = Command::new(shell::find("perf").context("perf is missing")?);
    command.args(["stat", "-x", ",", "-e", EVENT]).arg(bench.rings);
    let (_, said) = turn(bench, &command, queries)?;
    of_perf(&said).with_context(|| format!("perf counted nothing: {said:?}"))
}

/// Instructions in user mode.
const EVENT: &str = "instructions:u";

/// The count in a line of perf(1): `123456,,instructions:u,…`; `None` if the processor or the kernel has no counter.
fn of_perf(said: &str) -> Option<u64> {
    let line = said.lines().find(|line| line.contains(EVENT))?;
    line.split(',').next()?.trim().parse().ok()
}

/// Runs the program, which `command` starts, with so many queries. Returns what it prints on its two outputs.
fn turn(bench: &Bench<'_>, command: &Command, queries: u64) -> Result<(Turned, String)> {
    let mut pinned = Command::new("taskset");
    // Both threads of the program need a core.
    pinned.args(["--cpu-list", &format!("{},{}", bench.kqps.player_cpu, bench.kqps.subject_cpu)]);
    pinned.arg(command.get_program()).args(command.get_args()).arg(queries.to_string());
    let output = pinned.stdin(Stdio::null()).output().context("cannot start taskset")?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{} failed: {}: {said}", shell::words(&pinned), output.status);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = printed.lines().last().unwrap_or_default();
    let value: Value = serde_json::from_str(line).with_context(|| format!("rings printed {printed:?}"))?;
    Ok((serde_json::from_value(value)?, said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_perf() {
        assert_eq!(of_perf("98765,,instructions:u,1000,100.00,,\n"), Some(98_765));
        assert_eq!(of_perf("<not supported>,,instructions:u,0,100.00,,\n"), None);
    }
}
