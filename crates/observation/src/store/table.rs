//! The tables of a store.

use strum::Display;

/// The three tables, which have the same columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display)]
#[strum(serialize_all = "lowercase")]
pub(super) enum Table {
    Runs,
    Cells,
    Trials,
}

impl Table {
    pub(super) fn row(self, number: u64) -> String {
        match self {
            Self::Runs => "the run's record".into(),
            Self::Cells => format!("cell {number}"),
            Self::Trials => format!("trial {number}"),
        }
    }
}
