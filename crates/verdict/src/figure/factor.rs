//! The factors of a cell, its own properties included.

use kqps_observation::factors::name;
use kqps_observation::{Cell, cpu_list};

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
