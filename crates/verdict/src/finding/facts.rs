//! Takes the cells of an experiment from a run and its verdict.

use kqps_observation::factors::name::{CORES, SUBJECT};
use kqps_observation::question::Experiment;
use kqps_observation::run::CellLoad;
use kqps_observation::{Cell, Run};

use super::{FactorCell, FactorStart, Finding, Quantity, find};
use crate::figure::{Figures, State, factor};
use crate::judge::{CellVerdict, RunVerdict, StartVerdict};

/// The value of a factor that a cell does not have.
const WITHOUT: &str = "none";

/// The finding of one experiment of a run.
pub fn of_experiment(run: &Run, verdict: &RunVerdict, experiment: &Experiment) -> Finding {
    let own: Vec<(&Figures, &CellVerdict)> = verdict
        .figures
        .iter()
        .zip(&verdict.subjects)
        .filter(|(figures, _)| figures.experiment == experiment.name)
        .collect();
    let quantity = quantity_of(run, verdict, experiment);
    let cells: Vec<&Cell> = own.iter().map(|(figures, _)| &run.cells[figures.cell as usize]).collect();
    let factors = varying(&cells, experiment);
    let of_cell = |(cell, (figures, verdict)): (&&Cell, &(&Figures, &CellVerdict))| FactorCell {
        values: factors.iter().map(|(first, _)| value(cell, first)).collect(),
        starts: match quantity {
            _ if figures.state != State::Measured => Vec::new(),
            Quantity::Rate => rates_qps(verdict),
            Quantity::Latency => latencies_us(verdict),
        },
    };
    let of_cells: Vec<FactorCell> = cells.iter().zip(&own).map(of_cell).collect();
    let names: Vec<String> = factors.into_iter().map(|(_, name)| name).collect();
    find(quantity, &names, &of_cells)
}

/// What an experiment asks for: latency if the study chose the rate of every cell, and the rate otherwise.
pub fn quantity_of(run: &Run, verdict: &RunVerdict, experiment: &Experiment) -> Quantity {
    let is_chosen = |figures: &Figures| {
        let load = &run.cells[figures.cell as usize].load;
        matches!(load, CellLoad::Rates { rates_qps, .. } if rates_qps.len() == 1)
    };
    let mut own = verdict.figures.iter().filter(|figures| figures.experiment == experiment.name).peekable();
    let is_latency = own.peek().is_some() && own.all(is_chosen);
    if is_latency { Quantity::Latency } else { Quantity::Rate }
}

/// The factors that vary, each with its name in words. Factors that always change together are one, since no cell shows
/// which of them mattered.
fn varying(cells: &[&Cell], experiment: &Experiment) -> Vec<(String, String)> {
    let listed = experiment.factors.iter().map(|factor| factor.name.clone());
    let further = cells.iter().flat_map(|cell| cell.factors.words().keys().cloned());
    let mut names: Vec<String> = Vec::new();
    for name in listed.chain([SUBJECT.to_owned()]).chain(further) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    // For each cell the first cell with the same value: equal lists are factors that change together.
    let pattern = |name: &str| -> Vec<usize> {
        let values: Vec<String> = cells.iter().map(|cell| value(cell, name)).collect();
        let first = |value: &String| values.iter().position(|other| other == value).unwrap_or_default();
        values.iter().map(first).collect()
    };
    let mut groups: Vec<(Vec<usize>, Vec<String>)> = Vec::new();
    for name in names {
        let pattern = pattern(&name);
        if pattern.iter().all(|first| *first == 0) {
            continue;
        }
        match groups.iter_mut().find(|(known, _)| *known == pattern) {
            Some((_, members)) => members.push(name),
            None => groups.push((pattern, vec![name])),
        }
    }
    // Cores follow from other factors, so they are never a factor by themselves unless the study lists them.
    let cores = pattern(CORES);
    for (known, members) in &mut groups {
        if *known == cores && members.iter().all(|name| name != CORES) {
            members.push(CORES.to_owned());
        }
    }
    groups.into_iter().map(|(_, members)| (members[0].clone(), members.join(" with "))).collect()
}

fn value(cell: &Cell, name: &str) -> String {
    factor(cell, name).unwrap_or_else(|| WITHOUT.to_owned())
}

/// The rate of every start. That of a search lies between its bounds.
fn rates_qps(verdict: &CellVerdict) -> Vec<FactorStart> {
    let of_start = |start: &StartVerdict| {
        let bounds = start.bounds.as_ref()?;
        let step = bounds.lower_qps.zip(bounds.upper_qps).filter(|_| start.is_searched);
        let resolution = step.map_or(0.0, |(lower, upper)| (upper / lower - 1.0).max(0.0));
        Some(FactorStart { block: start.block, value: bounds.throughput_qps?, resolution })
    };
    verdict.starts.iter().filter(|start| start.failure.is_none()).filter_map(of_start).collect()
}

/// The median latency of every start at its highest load, in whole microseconds.
fn latencies_us(verdict: &CellVerdict) -> Vec<FactorStart> {
    let mut starts: Vec<(u32, f64, f64)> = Vec::new();
    for point in &verdict.latency {
        let Some(p50) = point.latency_us.p50 else { continue };
        match starts.iter_mut().find(|(block, ..)| *block == point.block) {
            Some(known) if known.1 >= point.load_qps => {}
            Some(known) => *known = (point.block, point.load_qps, p50 as f64),
            None => starts.push((point.block, point.load_qps, p50 as f64)),
        }
    }
    let of_start = |(block, _, value): (u32, f64, f64)| FactorStart { block, value, resolution: 1.0 / value };
    starts.into_iter().map(of_start).collect()
}
