//! The factors of a cell, its own properties included.

use kqps_observation::factors::name;
use kqps_observation::{Cell, Run, cpu_list};

/// The value of a cell's factor. The cell's own properties count as factors too: `subject`, `io`, `workers`,
/// `cores`.
pub fn factor(cell: &Cell, name: &str) -> Option<String> {
    if let Some(word) = cell.factors.word(name) {
        return Some(word.to_owned());
    }
    match name {
        name::SUBJECT => Some(cell.subject.clone()),
        name::IO => Some(cell.io.clone()),
        name::WORKERS => Some(cell.workers.to_string()),
        name::CORES => Some(cpu_list::write(&cell.subject_cpus)),
        _ => None,
    }
}

/// Whether an experiment varies a factor.
pub(crate) fn varies(run: &Run, experiment: &str, factor: &str) -> bool {
    let experiments = run.question.iter().flat_map(|question| &question.experiments);
    let mut factors = experiments.filter(|one| one.name == experiment).flat_map(|one| &one.factors);
    factors.any(|one| one.name == factor)
}
