//! Default runs of all three servers, one after the other. Each run gives every server a share of the echo, a
//! rate at the host's usual speed, and an interval that should contain the median of all runs.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use kqps_observation::Store;
use kqps_verdict::interval::{Interval, median_interval};
use kqps_verdict::judge::judge;

use super::super::Bench;
use super::apart;
use crate::child::Running;

/// The number of runs, and the budget of each: the default one.
const RUNS: usize = 5;
const BUDGET: &str = "2m";

/// The greatest share may be at most this many times the least one; the second bound is for rates.
const SHARE_APART: f64 = 1.10;
const RATE_APART: f64 = 1.15;

/// The least share of intervals that must contain the median of their server's runs.
const HELD_LEAST: f64 = 13.0 / 15.0;

/// A run may exceed its budget by this time, its page included.
const END_WITHIN: Duration = Duration::from_mins(1);

/// The figures of one server in one run.
struct Found {
    name: String,
    share: Interval,
    rate_qps: f64,
}

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let found = (0..RUNS).map(|run| play(bench, run)).collect::<Result<Vec<_>>>()?;
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(["server", "shares", "apart", "rates at usual speed", "apart", "hold the median"]);
    let (mut held, mut of, mut failures) = (0, 0, Vec::new());
    for (at, first) in found[0].iter().enumerate() {
        let each: Vec<&Found> = found.iter().map(|run| &run[at]).collect();
        let shares: Vec<f64> = each.iter().map(|one| one.share.median).collect();
        let rates: Vec<f64> = each.iter().map(|one| one.rate_qps).collect();
        let middle = median_interval(&shares).map_or(f64::NAN, |of| of.median);
        let holding = each.iter().filter(|one| (one.share.low..=one.share.high).contains(&middle)).count();
        (held, of) = (held + holding, of + each.len());
        let list = |values: &[f64], unit: f64| {
            values.iter().map(|value| format!("{:.1}", value / unit)).collect::<Vec<_>>().join(" ")
        };
        table.add_row([
            first.name.clone(),
            format!("{} %", list(&shares, 0.01)),
            format!("{:.3}", apart(&shares)),
            format!("{} kq/s", list(&rates, 1e3)),
            format!("{:.3}", apart(&rates)),
            format!("{holding} of {}", each.len()),
        ]);
        for (what, values, most) in [("shares", &shares, SHARE_APART), ("rates", &rates, RATE_APART)] {
            let apart = apart(values);
            if apart > most {
                failures.push(format!("the {what} of {} are {apart:.3} apart, not {most}", first.name));
            }
        }
    }
    println!("{table}");
    let share = f64::from(held as u32) / f64::from(of as u32);
    ensure!(share >= HELD_LEAST, "{held} of {of} intervals hold the median of their server");
    ensure!(failures.is_empty(), "{}", failures.join("; "));
    Ok(())
}

/// Makes one default run. Returns the figures of each server.
fn play(bench: &Bench, number: usize) -> Result<Vec<Found>> {
    let folder = bench.folder.path().join(format!("run-{number}"));
    let mut command = Command::new(&bench.kqps.program);
    command.args(["run", "--budget", BUDGET, "--seed", &(number + 1).to_string(), "--out"]).arg(&folder);
    let ended = Running::start(&mut command)?.wait(END_WITHIN)?;
    ensure!(ended.code == Some(0), "run {number} ended with {:?}:\n{}", ended.code, ended.output);
    let run = Store::read(&folder.join("run.sqlite"))?;
    let found = judge(&run).subjects.into_iter().map(|subject| {
        let figure = subject.figure_qps.with_context(|| {
            format!("run {number} refuses the figure of {}: {}", subject.name, subject.reasons.join(" "))
        })?;
        let share = subject.share.with_context(|| format!("{} is a share of nothing", subject.name))?;
        let held = share.low <= share.median && share.median <= share.high;
        ensure!(held && share.low > 0.0, "{}: {share:?}", subject.name);
        eprintln!(
            "run {number}: {} has {:.1} % ({:.1} to {:.1} %), {:.0} q/s",
            subject.name,
            share.median * 100.0,
            share.low * 100.0,
            share.high * 100.0,
            figure.median
        );
        Ok(Found { name: subject.name, share, rate_qps: figure.median })
    });
    let found = found.collect::<Result<Vec<_>>>()?;
    ensure!(!found.is_empty(), "run {number} measured no server");
    Ok(found)
}
