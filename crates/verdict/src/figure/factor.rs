//! The factors of a cell, its own properties included.

use kqps_observation::{Cell, cpu_list};

/// The value of a cell's factor. The cell's own properties count as factors too: `subject`, `io`, `workers`,
/// `cores`.
pub fn factor(cell: &Cell, name: &str) -> Option<String> {
    if let Some(word) = cell.factors.word(name) {
        return Some(word.to_owned());
    }
    match name {
        "subject" => Some(cell.subject.clone()),
        "io" => Some(cell.io.clone()),
        "workers" => Some(cell.workers.to_string()),
        "cores" => Some(cpu_list::write(&cell.subject_cpus)),
        _ => None,
    }
}
