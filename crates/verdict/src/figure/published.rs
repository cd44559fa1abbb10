//! Matches published figures with cells.

use kqps_observation::question::{Experiment, Published};
use kqps_observation::{Cell, Run};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Figures;
use super::factor::factor;

/// A figure that others published for the factors of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedFigure {
    /// Queries a second.
    pub rate_qps: f64,
    /// A remark on the figure; may be empty.
    pub note: String,
}

impl PublishedFigure {
    fn new(published: &Published) -> Self {
        Self { rate_qps: published.rate_qps, note: published.note.clone() }
    }
}

pub(super) fn experiment_of<'a>(run: &'a Run, cell: &Cell) -> Option<&'a Experiment> {
    run.experiments().find(|experiment| experiment.name == cell.experiment)
}

pub(super) fn of_cell(run: &Run, cell: &Cell) -> Option<PublishedFigure> {
    matching(experiment_of(run, cell)?, &|name| factor(cell, name))
}

/// The published figure all of whose factors have the values that `value` returns. If there are several,
/// the one that names most factors.
pub(super) fn matching(
    experiment: &Experiment,
    value: &dyn Fn(&str) -> Option<String>,
) -> Option<PublishedFigure> {
    let is_of_cell = |published: &&Published| !published.best && agrees(published, value);
    let found =
        experiment.published.iter().filter(is_of_cell).max_by_key(|published| published.factors.len());
    found.map(PublishedFigure::new)
}

/// The published best of several cells, beside the best of them that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Best {
    /// Index into the figures of the run; `None` if none of the cells has a figure.
    pub measured: Option<usize>,
    /// The best published figure.
    pub published: PublishedFigure,
}

/// The figures that were published as the best of an experiment's cells, or of some of them.
pub fn best_of(run: &Run, figures: &[Figures], experiment: &Experiment) -> Vec<Best> {
    let best = |published: &Published| {
        let rate_qps = |one: &Figures| one.median_qps.map(|figure| figure.median);
        let of_it = figures.iter().enumerate().filter(|(_, one)| {
            let cell = &run.cells[one.cell as usize];
            one.experiment == experiment.name && agrees(published, &|name| factor(cell, name))
        });
        let measured = of_it.filter_map(|(index, one)| Some((index, rate_qps(one)?)));
        let highest = measured.max_by(|(_, a), (_, b)| a.total_cmp(b));
        Best { measured: highest.map(|(index, _)| index), published: PublishedFigure::new(published) }
    };
    experiment.published.iter().filter(|published| published.best).map(best).collect()
}

fn agrees(published: &Published, value: &dyn Fn(&str) -> Option<String>) -> bool {
    published.factors.iter().all(|(name, wanted)| value(name).as_ref() == Some(wanted))
}
