//! The histograms of all players, added by name.

use std::collections::BTreeMap;

use crate::{Histogram, Quantiles, Trial};

use super::{MergeError, Part};

/// Histograms by name.
pub(super) struct Histograms(BTreeMap<String, Histogram>);

/// The figures of a histogram in a record.
type Figures = fn(&Trial) -> &Quantiles;

/// Histograms that a record has if it has their figures.
const OF_EVERY_RECORD: [(&str, Figures); 3] =
    [("latency", |trial| &trial.latency_us), ("lag", |trial| &trial.lag_us), ("gap", |trial| &trial.gap_us)];

impl Histograms {
    /// Adds those of all parts, one record after the other.
    pub(super) fn from_parts(parts: &[Part]) -> Result<Self, MergeError> {
        let mut sums: BTreeMap<String, Histogram> = BTreeMap::new();
        for part in parts {
            let unread =
                |name: &str| MergeError::Histogram { host: part.host.clone(), name: name.to_owned() };
            for (name, figures) in OF_EVERY_RECORD {
                if figures(&part.trial).max.is_some() && !part.trial.histograms.contains_key(name) {
                    return Err(unread(name));
                }
            }
            for (name, text) in &part.trial.histograms {
                let read = Histogram::decode(text).ok_or_else(|| unread(name))?;
                match sums.get_mut(name) {
                    Some(sum) => sum.add(&read),
                    None => drop(sums.insert(name.clone(), read)),
                }
            }
        }
        Ok(Self(sums))
    }

    /// The figures of one of them; empty figures if no player has it.
    pub(super) fn quantiles(&self, name: &str) -> Quantiles {
        self.0.get(name).map(Histogram::quantiles).unwrap_or_default()
    }

    /// All of them as a record has them.
    pub(super) fn encoded(&self) -> BTreeMap<String, String> {
        self.0.iter().map(|(name, times)| (name.clone(), times.encode())).collect()
    }
}
