//! The errors of a recipe whose keys are all known.

use kqps_message::NameError;
use kqps_message::name::NAME_BYTES_MAX;

use super::CHAIN_MAX;
use crate::RECORDS_MAX;

/// The most names that are drawn by rank. Each takes 16 bytes of memory while queries are written.
pub(crate) const RANKS_MAX: u64 = 100_000_000;

/// The reason why nothing can be generated from a recipe.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RecipeFault {
    /// The origin is not a name.
    #[error("bad origin \"{origin}\", column {}: {error}", error.column)]
    Origin {
        /// The origin in the recipe.
        origin: String,
        /// The error in the origin.
        error: NameError,
    },
    /// Some names would be longer than a name can be.
    #[error("the names would be up to {found} bytes long; a name has {NAME_BYTES_MAX} at most")]
    NameTooLong {
        /// The length of the longest name, in bytes.
        found: usize,
    },
    /// Labels of the given length cannot hold the number.
    #[error("labels of {found} bytes; expected {least} to 63, so that there are enough different ones")]
    LabelBytes {
        /// The length in the recipe, in bytes.
        found: u8,
        /// The shortest possible length, in bytes.
        least: u8,
    },
    /// A number is out of its range.
    #[error("{found} {what}; expected {least} to {most}")]
    Range {
        /// The key in the recipe.
        key: &'static str,
        /// The unit that the number counts.
        what: &'static str,
        /// The number in the recipe.
        found: u64,
        /// The smallest allowed number.
        least: u64,
        /// The largest allowed number.
        most: u64,
    },
    /// A share is not from 0 to 1.
    #[error("a share of {found} for {key}; expected 0 to 1")]
    Share {
        /// The key in the recipe.
        key: &'static str,
        /// The value in the recipe.
        found: f64,
    },
    /// A weight is negative or not a number.
    #[error("a weight of {found} for {name} in {key}; expected a number of 0 or more")]
    Weight {
        /// The table in the recipe.
        key: &'static str,
        /// The key within the table.
        name: String,
        /// The value in the recipe.
        found: f64,
    },
    /// No type has a weight.
    #[error("expected at least one type, each with a weight above 0")]
    Types,
    /// A Zipf exponent is not from 0 to 10.
    #[error("a Zipf exponent of {0}; expected 0 to 10")]
    Exponent(f64),
    /// There are more names than can be drawn by rank.
    #[error(
        "{0} names are too many to be drawn by rank; expected {RANKS_MAX} at most, or popularity uniform"
    )]
    Ranks(u64),
    /// The queries ask for something that the zones do not have.
    #[error("{key} needs {needs}")]
    Lacking {
        /// The key that asks for it.
        key: &'static str,
        /// The need of the key, in words.
        needs: &'static str,
    },
    /// The number of queries is 0.
    #[error("the number of queries is 0; expected at least 1")]
    NoQueries,
}

impl RecipeFault {
    pub(super) fn records(found: u64) -> Self {
        Self::Range { key: "records", what: "records", found, least: 1, most: RECORDS_MAX }
    }

    pub(super) fn chain(found: u64) -> Self {
        Self::Range { key: "chain", what: "CNAMEs in a chain", found, least: 1, most: CHAIN_MAX }
    }

    /// The key of the recipe with the error.
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
