//! How late players were in the last trials of each cell. The trials that follow give all of them more time to get ready.

use std::collections::BTreeMap;

/// Cell → nanoseconds. A cell that is missing was in time.
#[derive(Debug, Default)]
pub(super) struct Lateness(BTreeMap<String, u64>);

impl Lateness {
    /// How late a player was in the last trials of a cell, nanoseconds.
    pub(super) fn late_ns(&self, cell: &str) -> u64 {
        self.0.get(cell).copied().unwrap_or(0)
    }

    /// Notes a trial that was spoiled since a player was late by so many nanoseconds.
    pub(super) fn add(&mut self, cell: &str, late_ns: u64) {
        let known_ns = self.0.entry(cell.to_owned()).or_default();
        *known_ns = late_ns.max(*known_ns);
    }

    /// Notes a trial in which all players were in time.
    pub(super) fn halve(&mut self, cell: &str) {
        if let Some(known_ns) = self.0.get_mut(cell) {
            *known_ns /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_keeps_its_own_lateness_until_its_trials_are_in_time() {
        let mut lateness = Lateness::default();
        lateness.add("nsd", 8);
        lateness.add("nsd", 3);
        assert_eq!((lateness.late_ns("nsd"), lateness.late_ns("knot")), (8, 0));
        lateness.halve("nsd");
        lateness.halve("knot");
        assert_eq!((lateness.late_ns("nsd"), lateness.late_ns("knot")), (4, 0));
        lateness.add("nsd", 5);
        for _ in 0..3 {
            lateness.halve("nsd");
        }
        assert_eq!(lateness.late_ns("nsd"), 0);
    }
}
