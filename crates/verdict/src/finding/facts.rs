//! Takes the cells of an experiment from a run and its verdict.

use std::collections::BTreeMap;

use kqps_observation::factors::name::{CORES, SUBJECT};
use kqps_observation::question::{Experiment, Figure};
use kqps_observation::run::CellLoad;
use kqps_observation::{Cell, Run};
use strum::VariantArray as _;

use super::{ExperimentFinding, FactorCell, FactorStart, Finding, Quantity, find};
use crate::figure::by_start::{self, OfStart, Starts};
use crate::figure::{Figures, State, factor};
use crate::judge::CellVerdict;

/// The value of a factor that a cell does not have.
const WITHOUT: &str = "none";

/// The findings of all experiments of a run, in the order of its question. `subjects` are the verdicts on its subjects, and
/// `figures` their figures, in the same order.
pub(crate) fn of_run(run: &Run, subjects: &[CellVerdict], figures: &[Figures]) -> Vec<ExperimentFinding> {
    let starts = Starts::new(run, subjects);
    let found = |experiment: &Experiment| {
        let finding = found_in(run, subjects, figures, &starts, experiment);
        ExperimentFinding { experiment: experiment.name.clone(), sentence: finding.to_string(), finding }
    };
    run.experiments().map(found).collect()
}

/// The finding of one experiment of a run.
fn found_in(
    run: &Run,
    subjects: &[CellVerdict],
    figures: &[Figures],
    starts: &Starts<'_>,
    experiment: &Experiment,
) -> Finding {
    let cell = |figures: &Figures| &run.cells[figures.cell as usize];
    let mut own: Vec<(&Figures, &CellVerdict)> =
        figures.iter().zip(subjects).filter(|(figures, _)| figures.experiment == experiment.name).collect();
    let all: Vec<&Cell> = own.iter().map(|(figures, _)| cell(figures)).collect();
    let quantity = quantity_of(&all, experiment);
    if quantity == Quantity::MemoryPerConnection {
        // The cells with the fewest connections are the base of the others. What varies with the base alone is no factor.
        own.retain(|(figures, _)| figures.memory_bytes_per_connection.is_some() || figures.memory.is_none());
    }
    let cells: Vec<&Cell> = own.iter().map(|(figures, _)| cell(figures)).collect();
    let factors = varying(&cells, experiment);
    // All cells show the same kind of memory: a cell whose PSS is not known has RSS alone.
    let proportional = own.iter().filter_map(|(figures, _)| figures.memory).all(|memory| memory.proportional);
    let of_cell = |(cell, (figures, subject)): (&&Cell, &(&Figures, &CellVerdict))| FactorCell {
        values: factors.iter().map(|lead| value(cell, &lead.name)).collect(),
        further: factors.iter().map(|lead| lead.further(cell)).collect(),
        starts: known_starts(starts, figures, subject, quantity, proportional),
    };
    let of_cells: Vec<FactorCell> = cells.iter().zip(&own).map(of_cell).collect();
    let names: Vec<String> = factors.iter().map(|lead| lead.name.clone()).collect();
    let own_rates = matches!(quantity, Quantity::LatencyMean | Quantity::LatencyP99)
        && cells.iter().any(|cell| !is_chosen(cell));
    Finding { own_rates, ..find(quantity, &names, &of_cells) }
}

/// The starts of a cell as the finding compares them. A cell with a start at or below 0 has none: the mean of its other
/// starts would be too great.
fn known_starts(
    starts: &Starts<'_>,
    figures: &Figures,
    subject: &CellVerdict,
    quantity: Quantity,
    proportional: bool,
) -> Vec<FactorStart> {
    let starts = match quantity {
        Quantity::Latency if figures.state != State::Measured => Vec::new(),
        Quantity::Latency => by_start::latencies_us(subject, 1.0, |of| of.p50.map(|us| us as f64)),
        _ => starts.of_cell(subject, figures, quantity.figure(), proportional),
    };
    if starts.iter().any(|start| start.value <= 0.0) {
        return Vec::new();
    }
    let of_start =
        |OfStart { block, value, step }: OfStart| FactorStart { block, value, resolution: step / value };
    starts.into_iter().map(of_start).collect()
}

/// Whether the study chose the load of a cell.
fn is_chosen(cell: &Cell) -> bool {
    matches!(&cell.load, CellLoad::Rates { rates_qps, .. } if rates_qps.len() == 1)
}

/// The quantity that an experiment asks for: the first figure of its tables and charts that can be compared start by
/// start. If the study chose the load of every cell, a rate says nothing, and without another such figure it is the
/// median latency.
fn quantity_of(cells: &[&Cell], experiment: &Experiment) -> Quantity {
    let are_chosen = !cells.is_empty() && cells.iter().all(|cell| is_chosen(cell));
    let tables = experiment.tables.iter().flat_map(|table| &table.show);
    let mut shown = tables.chain(experiment.charts.iter().flat_map(|chart| &chart.show));
    let by_default = if are_chosen { Quantity::Latency } else { Quantity::Rate };
    let quantity = |figure: &Figure| match figure {
        Figure::Median | Figure::MeanMinMax | Figure::Efficiency | Figure::CeilingShare => {
            (!are_chosen).then_some(Quantity::Rate)
        }
        // The median latency is in no table.
        other => {
            let shown = Quantity::VARIANTS.iter().filter(|one| **one != Quantity::Latency);
            shown.copied().find(|one| one.figure() == *other)
        }
    };
    shown.find_map(quantity).unwrap_or(by_default)
}

/// A factor that varies.
struct Lead {
    name: String,
    /// The further factors that change with it.
    with: Vec<String>,
    /// For each cell the first cell with the same value.
    pattern: Vec<usize>,
}

impl Lead {
    fn further(&self, cell: &Cell) -> BTreeMap<String, String> {
        self.with.iter().map(|name| (name.clone(), value(cell, name))).collect()
    }

    /// Whether another factor follows from this one: it has one value for each value of this one.
    fn determines(&self, pattern: &[usize]) -> bool {
        let mut follows: BTreeMap<usize, usize> = BTreeMap::new();
        self.pattern.iter().zip(pattern).all(|(own, other)| follows.entry(*own).or_insert(*other) == other)
    }
}

/// The factors that vary. Factors that always change together are one, since no cell shows which of them mattered: the one
/// that the study lists first leads. What the study does not list belongs to the factor that it follows from, such as the
/// settings of a bundle, or those that only some transports have. A server is never joined to a factor that it follows from.
fn varying(cells: &[&Cell], experiment: &Experiment) -> Vec<Lead> {
    let listed: Vec<String> = experiment.factors.iter().map(|factor| factor.name.clone()).collect();
    let is_listed = |name: &String| listed.contains(name) || name == SUBJECT;
    let further = cells.iter().flat_map(|cell| cell.factors.words().keys().cloned());
    let mut names: Vec<String> = Vec::new();
    for name in listed.iter().cloned().chain([SUBJECT.to_owned()]).chain(further) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let pattern = |name: &str| -> Vec<usize> {
        let mut firsts: BTreeMap<String, usize> = BTreeMap::new();
        let indexed = cells.iter().enumerate();
        indexed.map(|(index, cell)| *firsts.entry(value(cell, name)).or_insert(index)).collect()
    };
    let varies = |pattern: &[usize]| pattern.iter().any(|first| *first != 0);
    let mut leads: Vec<Lead> = Vec::new();
    // A factor joins a lead with the same pattern before one that it follows from.
    let of = |leads: &mut [Lead], name: &String, pattern: &[usize], may_follow: bool| -> bool {
        let equal = leads.iter().position(|lead| lead.pattern == pattern);
        let follows = || leads.iter().position(|lead| is_listed(&lead.name) && lead.determines(pattern));
        let found = equal.or_else(|| may_follow.then(follows).flatten());
        found.map(|index| leads[index].with.push(name.clone())).is_some()
    };
    for name in &names {
        let pattern = pattern(name);
        if varies(&pattern) && !of(&mut leads, name, &pattern, !is_listed(name)) {
            leads.push(Lead { name: name.clone(), with: Vec::new(), pattern });
        }
    }
    // Cores follow from other factors, so they are never a factor by themselves unless the study lists them.
    let cores = CORES.to_owned();
    if !names.contains(&cores) && varies(&pattern(CORES)) {
        of(&mut leads, &cores, &pattern(CORES), true);
    }
    leads
}

fn value(cell: &Cell, name: &str) -> String {
    factor(cell, name).unwrap_or_else(|| WITHOUT.to_owned())
}
