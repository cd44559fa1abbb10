//! Figures of single starts, for the findings of experiments: what a cell shows over all of its starts, start by start.

use std::collections::BTreeMap;

use kqps_observation::question::Figure;
use kqps_observation::{Quantiles, Run, Trial};

use super::measured::Trials;
use super::per_connection::{Family, family};
use super::{Figures, measured};
use crate::estimate;
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

/// The starts of a run, from which the figures of its experiments are taken.
pub(crate) struct Starts<'a> {
    run: &'a Run,
    trials: Trials<'a>,
    /// Cell → block → connections that were open and the memory then; only of cells with a number of connections.
    held: BTreeMap<u32, Held>,
    /// Family → block → the fewest open connections of its cells, and the memory then.
    fewest: BTreeMap<Family, Held>,
}

/// Block → open connections and the memory then, bytes.
type Held = BTreeMap<u32, (u64, u64)>;

impl<'a> Starts<'a> {
    /// `verdicts` are those of all cells.
    pub(crate) fn new(run: &'a Run, verdicts: &[CellVerdict]) -> Self {
        let trials = Trials::from_run(run);
        let mut held: BTreeMap<u32, Held> = BTreeMap::new();
        let mut fewest: BTreeMap<Family, Held> = BTreeMap::new();
        for verdict in verdicts {
            let Some(family) = family(run, verdict.cell) else { continue };
            let least = fewest.entry(family).or_default();
            for (block, trials) in measured::by_start(&trials, verdict) {
                let Some(one) = measured::memory_with_connections(&trials) else { continue };
                held.entry(verdict.cell).or_default().insert(block, one);
                let known = least.entry(block).or_insert(one);
                *known = one.min(*known);
            }
        }
        Self { run, trials, held, fewest }
    }

    /// A figure of every start of a cell that has one. Figures that [`Figures::may_show`] forbids, and those that start by
    /// start mean nothing, such as the efficiency, have none. `proportional`: whether memory is PSS, which all cells that
    /// are compared must have, or RSS.
    pub(crate) fn of_cell(
        &self,
        verdict: &CellVerdict,
        figures: &Figures,
        figure: Figure,
        proportional: bool,
    ) -> Vec<OfStart> {
        if !figures.may_show(figure) {
            return Vec::new();
        }
        let records = self.run.cells[verdict.cell as usize].factors.dataset().records;
        let memory = |per: f64| {
            let of = |trials: &[&Trial]| Some(measured::memory_bytes(trials, proportional)? as f64 / per);
            self.of_trials(verdict, PAGE_BYTES / per, of)
        };
        match figure {
            Figure::Median => rates_qps(self.run, verdict),
            Figure::Cpu => self.of_trials(verdict, 0.0, measured::cpu_s_per_million),
            Figure::Memory => memory(1.0),
            Figure::MemoryPerRecord => {
                records.filter(|records| *records > 0).map_or_else(Vec::new, |records| memory(records as f64))
            }
            Figure::MemoryPerConnection => self.per_connection(verdict),
            Figure::LoadTime => load_times_s(self.run, verdict),
            Figure::LatencyMean => {
                self.of_trials(verdict, 0.0, |trials| Some(measured::latency_us(trials)?.mean))
            }
            Figure::LatencyP99 => {
                self.of_trials(verdict, 1.0, |trials| Some(measured::latency_us(trials)?.p99? as f64))
            }
            _ => Vec::new(),
        }
    }

    fn of_trials(
        &self,
        verdict: &CellVerdict,
        step: f64,
        of: impl Fn(&[&Trial]) -> Option<f64>,
    ) -> Vec<OfStart> {
        let starts = measured::by_start(&self.trials, verdict).into_iter();
        starts.filter_map(|(block, trials)| Some(OfStart { block, value: of(&trials)?, step })).collect()
    }

    /// Memory beyond that of the cell with the fewest open connections in the same block, by connection. It is below 0 if
    /// the scatter of that cell is more than the connections take.
    fn per_connection(&self, verdict: &CellVerdict) -> Vec<OfStart> {
        let fewest = family(self.run, verdict.cell).and_then(|own| self.fewest.get(&own));
        let (Some(fewest), Some(held)) = (fewest, self.held.get(&verdict.cell)) else { return Vec::new() };
        let of_start = |(block, (open, bytes)): (&u32, &(u64, u64))| {
            let (fewest, base) = fewest.get(block)?;
            let further = open.checked_sub(*fewest).filter(|further| *further > 0)? as f64;
            let value = (*bytes as f64 - *base as f64) / further;
            Some(OfStart { block: *block, value, step: PAGE_BYTES / further })
        };
        held.iter().filter_map(of_start).collect()
    }
}

/// The rate of every start. That of a search is estimated from its trials. If they do not bound it below the greatest load that
/// could be tried, or the search ended early, it is the greatest load that the start held.
fn rates_qps(run: &Run, verdict: &CellVerdict) -> Vec<OfStart> {
    let bounds = || verdict.measured_starts().filter_map(|start| start.bounds.as_ref());
    let is_estimated = bounds().all(|bounds| bounds.futile.is_none());
    let mut estimates_qps = if is_estimated {
        estimate::rates_of_starts(run, verdict.cell as usize, &verdict.goal)
    } else {
        BTreeMap::new()
    };
    estimates_qps.retain(|_, qps| *qps <= verdict.goal.max_qps);
    let of_start = |start: &crate::judge::StartVerdict| {
        let bounds = start.bounds.as_ref()?;
        let held_qps = bounds.throughput_qps?;
        let estimated_qps = estimates_qps.get(&start.block).filter(|_| start.is_searched);
        let value = estimated_qps.map_or(held_qps, |qps| qps * verdict.usual_speed);
        let width = bounds.lower_qps.zip(bounds.upper_qps).filter(|_| start.is_searched);
        let step = width.map_or(0.0, |(lower, upper)| (upper / lower - 1.0).max(0.0) * value);
        Some(OfStart { block: start.block, value, step })
    };
    verdict.measured_starts().filter_map(of_start).collect()
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
