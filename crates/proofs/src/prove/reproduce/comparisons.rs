//! Comparisons of NSD with itself, of six blocks each: how small a difference would show, and that none is
//! claimed.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use kqps_verdict::compare::Comparison;

use super::super::{Bench, search};
use super::apart;

const SERVER: &str = "nsd";
const COMPARISONS: usize = 10;
const BLOCKS: &str = "6";

/// The longest time of a comparison.
const LIMIT: Duration = Duration::from_mins(3);

/// The greatest MDE, a share, and how many comparisons must have no greater one.
const MDE_MOST: f64 = 0.04;
const REACH_LEAST: usize = 9;

/// How many comparisons may claim a difference that does not exist.
const CLAIMED_MOST: usize = 1;

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let (mut reach, mut claimed, mut ratios) = (0, 0, Vec::new());
    for number in 0..COMPARISONS {
        let began = Instant::now();
        let comparison = compare(bench, number)?;
        let took = began.elapsed();
        eprintln!("comparison {}, {:.0} s: {comparison}", number + 1, took.as_secs_f64());
        ensure!(took <= LIMIT, "comparison {} took {} s", number + 1, took.as_secs());
        reach += usize::from(comparison.mde.is_some_and(|mde| mde <= MDE_MOST));
        claimed += usize::from(comparison.outcome.is_different());
        ratios.extend(comparison.ratio.as_ref().map(|ratio| ratio.median));
    }
    println!(
        "{COMPARISONS} comparisons of {SERVER} with itself: the MDE of {reach} is at most {:.0} %, {claimed} claim a \
         difference, ratios {:.3} apart",
        MDE_MOST * 100.0,
        apart(&ratios)
    );
    ensure!(reach >= REACH_LEAST, "{reach} of {COMPARISONS} reach the MDE");
    ensure!(claimed <= CLAIMED_MOST, "{claimed} of {COMPARISONS} claim a difference");
    Ok(())
}

fn compare(bench: &Bench, number: usize) -> Result<Comparison> {
    let out = bench.folder.path().join(format!("comparison-{number}"));
    let mut command = Command::new(&bench.kqps.program);
    command.args(["compare", "--json", "--a", SERVER, "--b", SERVER, "--blocks", BLOCKS, "--budget", "3m"]);
    command.args(["--seed", &(number + 1).to_string(), "--out"]).arg(&out);
    search::compare(&mut command, LIMIT)
}
