//! The key that makes figures of two runs members of one series.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind::Kind;

/// The identity of a series. Figures with equal keys were asked the same and compare between runs of one host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Key {
    /// The study's name.
    pub study: String,
    /// The experiment of the study; empty if it has only one.
    pub experiment: String,
    /// The name of the cell.
    pub cell: String,
    /// The kind of figure.
    pub kind: Kind,
    /// The reference build that the figure is divided by; `None` if it is no ratio of two builds.
    pub reference: Option<String>,
    /// How the subject was set up and what it was asked: name → value.
    pub conditions: BTreeMap<String, String>,
}

impl Key {
    /// Study, experiment and cell: `default: nsd`.
    pub fn subject(&self) -> String {
        let Self { study, experiment, cell, .. } = self;
        if experiment.is_empty() {
            format!("{study}: {cell}")
        } else {
            format!("{study}, {experiment}: {cell}")
        }
    }

    /// The name of the series: `default: nsd, share of the ceiling`.
    pub fn name(&self) -> String {
        match (self.kind, &self.reference) {
            (Kind::Ratio(figure), Some(reference)) => {
                format!("{}, {figure} beside {reference}", self.subject())
            }
            (kind, _) => format!("{}, {kind}", self.subject()),
        }
    }

    /// The hash of the series, in hex. It is the same on every machine.
    pub fn hash(&self) -> String {
        let text = serde_json::to_vec(self).unwrap_or_default();
        blake3::hash(&text).to_hex().to_string()
    }

    /// The seed of the random choices that judge this series.
    pub fn seed(&self) -> u64 {
        u64::from_str_radix(&self.hash()[..16], 16).unwrap_or_default()
    }
}
