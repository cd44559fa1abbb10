//! The names of an experiment and of its cells, in words.

use kqps_observation::Run;
use kqps_observation::question::Experiment;
use kqps_verdict::figure::{Figures, factor, setting};

/// The headline of an experiment, or its name if it has none.
pub(super) fn title(experiment: &Experiment) -> String {
    let title = if experiment.title.is_empty() { &experiment.name } else { &experiment.title };
    title.clone()
}

/// The values of the factors that an experiment varies: `io mmsg, workers 2`.
pub(super) fn settings(run: &Run, experiment: &Experiment, figures: &Figures) -> String {
    let cell = &run.cells[figures.cell as usize];
    let varied = experiment.factors.iter().filter(|factor| factor.values.len() > 1);
    let varied: Vec<String> =
        varied.filter_map(|one| Some(setting(&one.name, &factor(cell, &one.name)?))).collect();
    if varied.is_empty() { figures.name.clone() } else { varied.join(", ") }
}
