//! The tables of a store.

/// The three tables, which have the same columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Runs,
    Cells,
    Trials,
}

impl Table {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Cells => "cells",
            Self::Trials => "trials",
        }
    }

    pub(super) fn row(self, number: u64) -> String {
        match self {
            Self::Runs => "the run's record".into(),
            Self::Cells => format!("cell {number}"),
            Self::Trials => format!("trial {number}"),
        }
    }
}
