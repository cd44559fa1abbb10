//! The factors of a cell, its own properties included.

use kqps_observation::Cell;

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
        "cores" => {
            let cores: Vec<String> = cell.subject_cpus.iter().map(u32::to_string).collect();
            Some(cores.join(","))
        }
        _ => None,
    }
}
