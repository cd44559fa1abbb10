//! Default runs of all three servers, one after the other, on a quiet host and beside other work. Each run gives every
//! server a share of the echo with a range that should hold the truth, or no figure. The truth is the mean over all runs,
//! each weighed by how closely it knows the share. The runs without other work alone know it too little on a host with
//! changing speed.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use kqps_observation::Store;
use kqps_verdict::grade::Grade;
use kqps_verdict::interval::Interval;
use kqps_verdict::judge::{CellVerdict, judge};
use kqps_verdict::percent;

use super::super::{Bench, work};
use super::apart;
use crate::child::Running;

/// The number of runs at each amount of other work, and the budget of each: the default one.
const RUNS: u64 = 5;
const BUDGET: &str = "2m";

/// The greatest share may be at most this many times the least one of the same server, with as much other work.
const SHARE_APART: f64 = 1.10;

/// Without other work, the greatest rate may be at most this many times the least one of the same server.
const RATE_APART: f64 = 1.15;

/// The least share of ranges that must hold the truth. They claim 95 %; of 60 such ranges, 51 or fewer hold it in 2 of 1,000
/// proofs.
const HELD_LEAST: f64 = 0.86;

/// A figure whose range is wider than this is rough.
const ROUGH: f64 = 0.1;

/// The worst grade of a figure that is not rough.
const CLOSE: Grade = Grade::C;

/// A run may exceed its budget by this time, its page included.
const END_WITHIN: Duration = Duration::from_secs(10);

/// The most lines that a run of three servers prints at its end.
const LINES_MOST: usize = 25;

/// The figures of one server in one run; `None` if they are refused.
struct ServerFigures {
    name: String,
    beside: u32,
    figures: Option<(Interval, f64)>,
}

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let mut found = Vec::new();
    for &beside in &bench.beside {
        for run in 0..RUNS {
            found.extend(play(bench, beside, run)?);
        }
    }
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header([
        "server",
        "beside",
        "shares",
        "apart",
        "rates, thousand q/s",
        "apart",
        "hold the truth",
    ]);
    let mut failures = Vec::new();
    let (mut held, mut of) = (0, 0);
    let mut names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let of_server = || found.iter().filter(|one| one.name == name);
        let truth = truth(of_server()).with_context(|| format!("{name} has no figure"))?;
        for &beside in &bench.beside {
            let figures = || of_server().filter(|one| one.beside == beside).filter_map(|one| one.figures);
            let shares: Vec<f64> = figures().map(|(share, _)| share.median).collect();
            let rates: Vec<f64> = figures().map(|(_, rate_qps)| rate_qps).collect();
            let holding = figures().filter(|(share, _)| (share.low..=share.high).contains(&truth)).count();
            (held, of) = (held + holding, of + shares.len());
            table.add_row([
                name.to_owned(),
                format!("{beside} %"),
                list(&shares, 0.01),
                times(&shares),
                list(&rates, 1e3),
                times(&rates),
                format!("{holding} of {}", shares.len()),
            ]);
            let rates_most = if beside == 0 { RATE_APART } else { f64::INFINITY };
            for (what, values, most) in [("shares", &shares, SHARE_APART), ("rates", &rates, rates_most)] {
                if apart(values) > most {
                    failures.push(format!(
                        "the {what} of {name} beside {beside} % are {:.3} apart",
                        apart(values)
                    ));
                }
            }
        }
    }
    println!("{table}");
    println!("{held} of {of} ranges hold the mean share of their server over all runs.");
    let share = held as f64 / of as f64;
    ensure!(share >= HELD_LEAST, "{held} of {of} ranges hold the truth");
    ensure!(failures.is_empty(), "{}", failures.join("; "));
    Ok(())
}

/// How far values are apart, as a factor; `-` for fewer than two.
fn times(values: &[f64]) -> String {
    if values.len() < 2 { "-".to_owned() } else { format!("{:.3}", apart(values)) }
}

fn list(values: &[f64], unit: f64) -> String {
    values.iter().map(|value| format!("{:.1}", value / unit)).collect::<Vec<_>>().join(" ")
}

/// The geometric mean of the shares, weighed by the inverse square of their ranges' widths.
fn truth<'a>(found: impl Iterator<Item = &'a ServerFigures>) -> Option<f64> {
    let (mut sum, mut weights) = (0.0, 0.0);
    for (share, _) in found.filter_map(|one| one.figures) {
        let weight = (share.high / share.low).ln().powi(-2);
        sum += weight * share.median.ln();
        weights += weight;
    }
    (weights > 0.0).then(|| (sum / weights).exp())
}

/// Makes one default run. Returns the figures of each server.
fn play(bench: &Bench, beside: u32, number: u64) -> Result<Vec<ServerFigures>> {
    let folder = bench.folder.path().join(format!("run-{beside}-{number}"));
    let work = work::start(f64::from(beside) / 100.0, number + 1)?;
    let mut command = Command::new(&bench.kqps.program);
    command.args(["run", "--budget", BUDGET, "--seed", &(number + 1).to_string(), "--out"]).arg(&folder);
    let began = std::time::Instant::now();
    let ended = Running::start(&mut command)?.wait(Duration::from_mins(2) + END_WITHIN)?;
    let took_s = began.elapsed().as_secs_f64();
    drop(work);
    ensure!(matches!(ended.code, Some(0 | 3)), "run {number} ended with {:?}:\n{}", ended.code, ended.output);
    let lines = ended.output.lines().count();
    ensure!(lines <= LINES_MOST, "run {number} prints {lines} lines:\n{}", ended.output);
    let run = Store::read(&folder.join("run.sqlite"))?;
    let found: Vec<ServerFigures> = judge(&run)
        .subjects
        .iter()
        .map(|subject| {
            ensure!(is_between_its_bounds(subject), "{subject:?} is not between its bounds");
            ensure!(has_its_grade(subject, &ended.output), "{subject:?} has another grade:\n{}", ended.output);
            let figures = subject.share.zip(subject.figure_qps);
            match figures {
                Some((share, figure)) => eprintln!(
                    "beside {beside} %, run {number}, {took_s:.0} s: {} {:.1} % ({:.1} to {:.1} %), {:.0} q/s, grade {}",
                    subject.name,
                    share.median * 100.0,
                    share.low * 100.0,
                    share.high * 100.0,
                    figure.median,
                    subject.grade
                ),
                None => eprintln!("beside {beside} %, run {number}: {} {}", subject.name, subject.reasons.join(" ")),
            }
            let figures = figures.map(|(share, figure)| (share, figure.median));
            Ok(ServerFigures { name: subject.name.clone(), beside, figures })
        })
        .collect::<Result<_>>()?;
    ensure!(!found.is_empty(), "run {number} measured no server");
    Ok(found)
}

/// Whether a rough figure has a grade for that, and the width of its range stands beside its grade in the first line.
fn has_its_grade(subject: &CellVerdict, output: &str) -> bool {
    subject.figure_qps.is_none_or(|figure| {
        let half = figure.half_width();
        let first = format!("grade {}, ± {} %\n", subject.grade, percent::short(half));
        (half <= ROUGH || subject.grade > CLOSE) && output.contains(&first)
    })
}

fn is_between_its_bounds(subject: &CellVerdict) -> bool {
    subject.figure_qps.is_none_or(|figure| {
        subject.lower_bound_qps.is_none_or(|lower_qps| lower_qps <= figure.median)
            && subject.upper_bound_qps.is_none_or(|upper_qps| figure.median <= upper_qps)
    })
}
