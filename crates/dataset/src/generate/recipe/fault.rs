//! What can be wrong with a recipe whose keys are all known.

use kqps_message::NameError;
use kqps_message::name::NAME_BYTES_MAX;

use super::CHAIN_MAX;
use crate::generate::RECORDS_MAX;
use crate::generate::popularity::RANKS_MAX;

/// Why nothing can be generated from a recipe.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RecipeFault {
    /// The origin is no name.
    #[error("bad origin \"{origin}\", column {}: {error}", error.column)]
    Origin {
        /// What was given.
        origin: String,
        /// What is wrong with it.
        error: NameError,
    },
    /// Some names would be longer than a name can be.
    #[error("the names would be up to {found} bytes long; a name has {NAME_BYTES_MAX} at most")]
    NameTooLong {
        /// The length of the longest.
        found: usize,
    },
    /// Labels of a fixed length cannot hold the number.
    #[error("labels of {found} bytes; expected {least} to 63, so that there are enough different ones")]
    LabelBytes {
        /// What was asked for.
        found: u8,
        /// The shortest that will do.
        least: u8,
    },
    /// A number of something is out of its range.
    #[error("{found} {what}; expected {least} to {most}")]
    Range {
        /// The key.
        key: &'static str,
        /// What is counted.
        what: &'static str,
        /// What was given.
        found: u64,
        /// The fewest.
        least: u64,
        /// The most.
        most: u64,
    },
    /// No share.
    #[error("a share of {found} for {key}; expected 0 to 1")]
    Share {
        /// The key.
        key: &'static str,
        /// What was given.
        found: f64,
    },
    /// No weight.
    #[error("a weight of {found} for {name} in {key}; expected a number of 0 or more")]
    Weight {
        /// The table.
        key: &'static str,
        /// Its key.
        name: String,
        /// What was given.
        found: f64,
    },
    /// No type has a weight.
    #[error("expected one type at least, each with a weight above 0")]
    Types,
    /// No Zipf exponent.
    #[error("a Zipf exponent of {0}; expected 0 to 10")]
    Exponent(f64),
    /// More names than are drawn by rank.
    #[error(
        "{0} names are too many to be drawn by rank; expected {RANKS_MAX} at most, or popularity uniform"
    )]
    Ranks(u64),
    /// Something is asked for that the zones do not have.
    #[error("{key} needs {needs}")]
    Lacking {
        /// The key that asks.
        key: &'static str,
        /// What it takes.
        needs: &'static str,
    },
    /// No query is asked for.
    #[error("no queries are asked for; expected 1 at least")]
    NoQueries,
}

impl RecipeFault {
    pub(super) fn records(found: u64) -> Self {
        Self::Range { key: "records", what: "records", found, least: 1, most: RECORDS_MAX }
    }

    pub(super) fn chain(found: u64) -> Self {
        Self::Range { key: "chain", what: "CNAMEs in a chain", found, least: 1, most: CHAIN_MAX }
    }

    /// The key of the recipe that is at fault.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Origin { .. } | Self::NameTooLong { .. } => "origin",
            Self::LabelBytes { .. } => "label_bytes",
            Self::Range { key, .. }
            | Self::Share { key, .. }
            | Self::Weight { key, .. }
            | Self::Lacking { key, .. } => key,
            Self::Types => "types",
            Self::Exponent(_) | Self::Ranks(_) => "popularity",
            Self::NoQueries => "queries",
        }
    }
}
