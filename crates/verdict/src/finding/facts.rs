//! Takes the cells of an experiment from a run and its verdict.

use kqps_observation::factors::name::SUBJECT;
use kqps_observation::question::Experiment;
use kqps_observation::run::CellLoad;
use kqps_observation::{Cell, Run};

use super::{FactorCell, Finding, Quantity, find};
use crate::figure::{Figures, State, factor};
use crate::judge::{CellVerdict, RunVerdict};

/// The value of a factor that a cell does not have.
const WITHOUT: &str = "none";

/// The finding of one experiment of a run. Its latencies are compared if the study chose the rate of every cell, and its
/// rates otherwise.
pub fn of_experiment(run: &Run, verdict: &RunVerdict, experiment: &Experiment) -> Finding {
    let own: Vec<(&Figures, &CellVerdict)> = verdict
        .figures
        .iter()
        .zip(&verdict.subjects)
        .filter(|(figures, _)| figures.experiment == experiment.name)
        .collect();
    let cell_of = |figures: &Figures| &run.cells[figures.cell as usize];
    let is_chosen =
        |cell: &Cell| matches!(&cell.load, CellLoad::Rates { rates_qps, .. } if rates_qps.len() == 1);
    let all_chosen = !own.is_empty() && own.iter().all(|(figures, _)| is_chosen(cell_of(figures)));
    let quantity = if all_chosen { Quantity::Latency } else { Quantity::Rate };
    let cells: Vec<&Cell> = own.iter().map(|(figures, _)| cell_of(figures)).collect();
    let factors = varying(&cells, experiment);
    let of_cell = |(figures, verdict): &(&Figures, &CellVerdict)| FactorCell {
        values: factors.iter().map(|name| value(cell_of(figures), name)).collect(),
        starts: match quantity {
            Quantity::Rate => figures.starts_qps.clone(),
            Quantity::Latency if figures.state == State::Measured => latencies_us(verdict),
            Quantity::Latency => Vec::new(),
        },
    };
    find(quantity, &factors, &own.iter().map(of_cell).collect::<Vec<_>>())
}

/// The factors that tell the cells apart. One that always changes together with those before it is left out.
fn varying(cells: &[&Cell], experiment: &Experiment) -> Vec<String> {
    let listed = experiment.factors.iter().map(|factor| factor.name.clone());
    let further = cells.iter().flat_map(|cell| cell.factors.words().keys().cloned());
    let mut factors: Vec<String> = Vec::new();
    let places = |factors: &[String]| {
        let mut places: Vec<Vec<String>> =
            cells.iter().map(|cell| factors.iter().map(|name| value(cell, name)).collect()).collect();
        places.sort_unstable();
        places.dedup();
        places.len()
    };
    for name in listed.chain([SUBJECT.to_owned()]).chain(further) {
        let before = places(&factors);
        if before == cells.len() {
            break;
        }
        factors.push(name);
        if places(&factors) == before {
            factors.pop();
        }
    }
    factors
}

fn value(cell: &Cell, name: &str) -> String {
    factor(cell, name).unwrap_or_else(|| WITHOUT.to_owned())
}

/// The median latency of every start at its highest load, microseconds.
fn latencies_us(verdict: &CellVerdict) -> Vec<f64> {
    let mut starts: Vec<(u32, f64, f64)> = Vec::new();
    for point in &verdict.latency {
        let Some(p50) = point.latency_us.p50 else { continue };
        match starts.iter_mut().find(|(block, ..)| *block == point.block) {
            Some(known) if known.1 >= point.load_qps => {}
            Some(known) => *known = (point.block, point.load_qps, p50 as f64),
            None => starts.push((point.block, point.load_qps, p50 as f64)),
        }
    }
    starts.into_iter().map(|(.., p50)| p50).collect()
}
