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

/// A factor with its value in a sentence: `workers 4`, `way "TLS, full"`. The value of the subject stands alone, since its name
/// says what it is.
pub fn setting(name: &str, value: &str) -> String {
    match name {
        name::SUBJECT => value.to_owned(),
        _ if value.contains([' ', ',']) => format!("{name} \"{value}\""),
        _ => format!("{name} {value}"),
    }
}

/// Whether an experiment varies a factor.
pub(crate) fn varies(run: &Run, experiment: &str, factor: &str) -> bool {
    let mut factors = run.experiments().filter(|one| one.name == experiment).flat_map(|one| &one.factors);
    factors.any(|one| one.name == factor)
}
