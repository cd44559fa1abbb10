//! Figures of single starts, for the findings of experiments: what a cell shows over all of its starts, start by start.

use std::collections::BTreeMap;

use kqps_observation::question::Figure;
use kqps_observation::{Quantiles, Run};

use super::per_connection::family;
use super::{Figures, measured};
use crate::judge::CellVerdict;

/// The kernel counts memory in pages of so many bytes.
const PAGE_BYTES: f64 = 4096.0;

/// A figure of one start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OfStart {
    /// The block of the start.
    pub(crate) block: u32,
    pub(crate) value: f64,
    /// The step in which the value is known, in its unit; 0 if its digits all count.
    pub(crate) step: f64,
}

/// A figure of every start of a cell that has one. Figures that [`Figures::may_show`] forbids, and those that start by start
/// mean nothing, such as the efficiency, have none. `verdicts` are those of all cells.
pub(crate) fn of_cell(
    run: &Run,
    verdicts: &[CellVerdict],
    verdict: &CellVerdict,
    figures: &Figures,
    figure: Figure,
) -> Vec<OfStart> {
    if !figures.may_show(figure) {
        return Vec::new();
    }
    let records = run.cells[verdict.cell as usize].factors.dataset().records;
    let memory = |per: f64| {
        of_trials(run, verdict, PAGE_BYTES / per, |trials| Some(measured::memory(trials)?.bytes as f64 / per))
    };
    match figure {
        Figure::Median => rates_qps(verdict),
        Figure::Cpu => of_trials(run, verdict, 0.0, measured::cpu_s_per_million),
        Figure::Memory => memory(1.0),
        Figure::MemoryPerRecord => {
            records.filter(|records| *records > 0).map_or_else(Vec::new, |records| memory(records as f64))
        }
        Figure::MemoryPerConnection => per_connection(run, verdicts, verdict),
        Figure::LoadTime => load_times_s(run, verdict),
        Figure::LatencyMean => latencies_us(verdict, 0.0, |of| of.mean),
        Figure::LatencyP99 => latencies_us(verdict, 1.0, |of| of.p99.map(|us| us as f64)),
        _ => Vec::new(),
    }
}

/// The rate of every start. That of a search lies between its bounds.
fn rates_qps(verdict: &CellVerdict) -> Vec<OfStart> {
    let counting = verdict.starts.iter().filter(|start| start.failure.is_none());
    let of_start = |start: &crate::judge::StartVerdict| {
        let bounds = start.bounds.as_ref()?;
        let value = bounds.throughput_qps?;
        let width = bounds.lower_qps.zip(bounds.upper_qps).filter(|_| start.is_searched);
        let step = width.map_or(0.0, |(lower, upper)| (upper / lower - 1.0).max(0.0) * value);
        Some(OfStart { block: start.block, value, step })
    };
    counting.filter_map(of_start).collect()
}

/// A time of every start at its highest load, microseconds, known in so many microseconds.
pub(crate) fn latencies_us(
    verdict: &CellVerdict,
    step: f64,
    of: impl Fn(&Quantiles) -> Option<f64>,
) -> Vec<OfStart> {
    let mut starts: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for point in &verdict.latency {
        let Some(value) = of(&point.latency_us) else { continue };
        if starts.get(&point.block).is_none_or(|(load_qps, _)| *load_qps < point.load_qps) {
            starts.insert(point.block, (point.load_qps, value));
        }
    }
    starts.into_iter().map(|(block, (_, value))| OfStart { block, value, step }).collect()
}

fn of_trials(
    run: &Run,
    verdict: &CellVerdict,
    step: f64,
    of: impl Fn(&[&kqps_observation::Trial]) -> Option<f64>,
) -> Vec<OfStart> {
    let starts = measured::by_start(run, verdict).into_iter();
    starts.filter_map(|(block, trials)| Some(OfStart { block, value: of(&trials)?, step })).collect()
}

/// Memory beyond that of the cell with the fewest open connections in the same block, by connection.
fn per_connection(run: &Run, verdicts: &[CellVerdict], verdict: &CellVerdict) -> Vec<OfStart> {
    let Some(own) = family(run, verdict.cell) else { return Vec::new() };
    let held = |one: &CellVerdict| -> BTreeMap<u32, (u64, u64)> {
        let starts = measured::by_start(run, one).into_iter();
        let with_memory =
            starts.filter_map(|(block, trials)| Some((block, measured::memory_with_connections(&trials)?)));
        with_memory.collect()
    };
    let relatives = verdicts.iter().filter(|one| family(run, one.cell).as_ref() == Some(&own));
    let of_relatives: Vec<BTreeMap<u32, (u64, u64)>> = relatives.map(held).collect();
    let of_start = |(block, (open, bytes)): (u32, (u64, u64))| {
        let (fewest, base) = of_relatives.iter().filter_map(|held| held.get(&block)).min()?;
        let further = open.checked_sub(*fewest).filter(|further| *further > 0)? as f64;
        let value = bytes.checked_sub(*base)? as f64 / further;
        Some(OfStart { block, value, step: PAGE_BYTES / further })
    };
    held(verdict).into_iter().filter_map(of_start).collect()
}

/// The time until each start answered, seconds.
fn load_times_s(run: &Run, verdict: &CellVerdict) -> Vec<OfStart> {
    let mut starts: BTreeMap<u64, (u32, f64)> = BTreeMap::new();
    for one in run.trials_of(verdict.cell as usize) {
        let ready = one.measured().and_then(|trial| trial.subject.as_ref()?.ready_s);
        if let Some(ready_s) = ready {
            starts.insert(one.start, (one.block, ready_s));
        }
    }
    starts.into_values().map(|(block, value)| OfStart { block, value, step: 0.0 }).collect()
}
