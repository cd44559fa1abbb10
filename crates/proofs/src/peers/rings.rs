//! The player's own share of a query: its loop over rings of frames, which a thread of the same program empties and
//! fills in place of a kernel (`crates/player/examples/rings.rs`). How many queries a second one core carries, and how
//! many instructions one query takes.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Bench;
use super::block::Spread;
use super::rows::{Skipped, Target};
use super::single::{Single, Unit};
use crate::shell;

/// The words of these rows.
const RATE: &str = "rings: the player's loop without a kernel";
const INSTRUCTIONS: &str = "rings: instructions of the player's loop for a query and its reply";

/// The least queries a second.
const PER_S_LEAST: f64 = 1e7;

/// Queries of a measurement by clock, and by count of instructions: with a few, and with more. The difference has no
/// start-up in it.
const QUERIES: u64 = 50_000_000;
const QUERIES_SHORT: u64 = 100_000;
const COUNTED: [u64; 2] = [200_000, 1_200_000];
const COUNTED_SHORT: [u64; 2] = [5_000, 25_000];

/// What the program prints.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
struct Turned {
    /// Queries that were sent and answered.
    queries: u64,
    seconds: f64,
}

/// A program that counts instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counter {
    /// The processor's own counter, by perf(1).
    Perf,
    /// An interpreter of instructions, by valgrind(1).
    Callgrind,
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
        match Counter::choose() {
            Ok(counter) => singles.push(by_count(bench, counter)?),
            Err(reason) => skipped.push(Skipped { what: INSTRUCTIONS, reason }),
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
    Ok(Single {
        what: RATE.to_owned(),
        unit: Unit::PerSecond,
        found: Spread::of(turned.iter().map(Turned::per_s)),
        target: Target::AtLeast(PER_S_LEAST),
        every: false,
        beside: json!(turned),
    })
}

fn by_count(bench: &Bench<'_>, counter: Counter) -> Result<Single> {
    let [few, many] = if bench.is_short { COUNTED_SHORT } else { COUNTED };
    let (least, most) = (counter.instructions(bench, few)?, counter.instructions(bench, many)?);
    ensure!(most > least, "{} counts {least} instructions for {few}, and {most} for {many}", counter.name());
    let each = (most - least) as f64 / (many - few) as f64;
    Ok(Single {
        what: format!("{INSTRUCTIONS}, by {}", counter.name()),
        unit: Unit::Instructions,
        found: Spread::of([each].into_iter()),
        target: Target::Reported,
        every: false,
        beside: json!({ "queries": [few, many], "instructions": [least, most] }),
    })
}

impl Turned {
    fn per_s(&self) -> f64 {
        self.queries as f64 / self.seconds
    }
}

impl Counter {
    /// The best counter of this host, or why there is none.
    fn choose() -> Result<Self, String> {
        let of_nothing = || {
            let perf = shell::find("perf")?;
            let mut command = Command::new(perf);
            let counted =
                command.args(["stat", "-x", ",", "-e", EVENT, "true"]).stdin(Stdio::null()).output();
            of_perf(&String::from_utf8_lossy(&counted.ok()?.stderr))
        };
        if of_nothing().is_some() {
            return Ok(Self::Perf);
        }
        match shell::find("valgrind") {
            Some(_) => Ok(Self::Callgrind),
            None => Err("perf counts no instructions here, and valgrind is missing".to_owned()),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Perf => "perf stat",
            Self::Callgrind => "callgrind",
        }
    }

    /// The instructions of the program in user mode, for so many queries.
    fn instructions(self, bench: &Bench<'_>, queries: u64) -> Result<u64> {
        let missing = || format!("{} is missing", self.name());
        let command = match self {
            Self::Perf => {
                let mut command = Command::new(shell::find("perf").with_context(missing)?);
                command.args(["stat", "-x", ",", "-e", EVENT]).arg(bench.rings);
                command
            }
            Self::Callgrind => {
                let mut command = Command::new(shell::find("valgrind").with_context(missing)?);
                command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(bench.rings);
                command
            }
        };
        let (_, said) = turn(bench, &command, queries)?;
        let count = match self {
            Self::Perf => of_perf(&said),
            Self::Callgrind => of_callgrind(&said),
        };
        count.with_context(|| format!("{} counted nothing: {said:?}", self.name()))
    }
}

/// Instructions in user mode.
const EVENT: &str = "instructions:u";

/// The count in a line of perf(1): `123456,,instructions:u,…`; `None` if the processor or the kernel has no counter.
fn of_perf(said: &str) -> Option<u64> {
    let line = said.lines().find(|line| line.contains(EVENT))?;
    line.split(',').next()?.trim().parse().ok()
}

/// The count in a line of callgrind: `==7== Collected : 123456`.
fn of_callgrind(said: &str) -> Option<u64> {
    let line = said.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(' ').find(|word| !word.is_empty())?.parse().ok()
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
    fn counts_are_read_from_either_program() {
        assert_eq!(of_perf("98765,,instructions:u,1000,100.00,,\n"), Some(98_765));
        assert_eq!(of_perf("<not supported>,,instructions:u,0,100.00,,\n"), None);
        assert_eq!(of_callgrind("==7== Events    : Ir\n==7== Collected : 4567890\n==7==\n"), Some(4_567_890));
        assert_eq!(of_callgrind("==7== nothing"), None);
    }
}
