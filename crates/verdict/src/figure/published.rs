//! Which published figure belongs to which cell.

use kqps_observation::question::{Experiment, Published};
use kqps_observation::{Cell, Run};
use serde::{Deserialize, Serialize};

use super::grid::factor;

/// What others found under the factors of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishedFigure {
    /// Queries a second.
    pub rate_qps: f64,
    /// What is to be known about it; may be empty.
    pub note: String,
}

impl PublishedFigure {
    fn of(published: &Published) -> Self {
        Self { rate_qps: published.rate_qps, note: published.note.clone() }
    }
}

/// The experiment that a cell belongs to.
pub(super) fn experiment_of<'a>(run: &'a Run, cell: &Cell) -> Option<&'a Experiment> {
    let experiments = &run.question.as_ref()?.experiments;
    experiments.iter().find(|experiment| experiment.name == cell.experiment)
}

pub(super) fn of_cell(run: &Run, cell: &Cell) -> Option<PublishedFigure> {
    matching(experiment_of(run, cell)?, &|name| factor(cell, name))
}

/// The published figure all of whose factors have the values that `value` tells; the one that names most
/// factors where there are several.
pub(super) fn matching(
    experiment: &Experiment,
    value: &dyn Fn(&str) -> Option<String>,
) -> Option<PublishedFigure> {
    let agrees = |published: &&Published| {
        published.factors.iter().all(|(name, wanted)| value(name).as_ref() == Some(wanted))
    };
    let found = experiment.published.iter().filter(agrees).max_by_key(|published| published.factors.len());
    found.map(PublishedFigure::of)
}
