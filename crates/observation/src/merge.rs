//! Merges the trials that several players played at the same time into one, with what was seen on the subject's host.
//!
//! Counts are added and histograms are added. Quantiles are read from the added histograms, and never averaged. The
//! drop ledger is computed again from the counters of all hosts, by the caller's function. Bins of time are added by when the players truly
//! began.

mod classes;
mod connections;
mod counts;
mod differences;
mod error;
mod histograms;
mod load;
mod record;
mod same_trial;
mod starts;

use crate::{HostFacts, Ledger, ResidenceFacts, StartFacts, SubjectFacts, Trial};

use classes::merge_each;
pub use classes::together;
pub use error::MergeError;

/// The record of one player, with its host and the timing of its start.
#[derive(Clone, Debug)]
pub struct Part {
    /// The name of its host.
    pub host: String,
    /// Its record, of this one player on its host.
    pub trial: Trial,
    /// How its start was timed.
    pub start: StartFacts,
}

/// The records of the subject's host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerFacts {
    /// The subject, if it was watched.
    pub subject: Option<SubjectFacts>,
    /// Its host, with the CPU time of other programs if the subject was watched.
    pub host: HostFacts,
    /// How long queries stayed on the host, if packets were stamped.
    pub residence: Option<ResidenceFacts>,
}

/// Merges the records of all players of a trial. `server` is what was seen on the subject's host; without it the trial
/// has no facts of the subject. `ledger` makes the drop ledger of the merged trial, which has none yet.
///
/// # Errors
///
/// No part; parts that are not of one trial, such as those with other queries; a part whose accounts do not add up,
/// whose histograms cannot be read, or whose counts are too large to be added.
#[allow(clippy::needless_pass_by_value)] // A part belongs to one trial, and nothing uses it after that.
pub fn merge(
    parts: Vec<Part>,
    server: Option<ServerFacts>,
    ledger: impl FnOnce(&Trial) -> Ledger,
) -> Result<Trial, MergeError> {
    let has_classes = parts.first().is_some_and(|part| !part.trial.classes.is_empty());
    let mut trial = if has_classes {
        merge_each(&parts, server.as_ref())?
    } else {
        same_trial::check(&parts)?;
        record::merge(&parts, server)?
    };
    trial.ledger = ledger(&trial);
    Ok(trial)
}
