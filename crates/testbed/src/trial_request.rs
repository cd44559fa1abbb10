//! The request for one trial, and its result: the played trial, or why there is none.

use kqps_observation::run::Purpose;
use kqps_observation::{RunTrial, Trial};
use kqps_verdict::{breaking, evidence};

/// A trial that the lab requests from the player: one load for one duration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrialRequest {
    /// The pace, which decides when the next query leaves.
    pub pace: RequestedPace,
    /// Seconds during which queries are sent.
    pub duration_s: f64,
    /// The purpose of the trial.
    pub purpose: Purpose,
}

/// A pace, by what decides when the next query leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RequestedPace {
    /// A schedule (open loop).
    Open {
        /// Queries a second.
        rate_qps: f64,
    },
    /// The subject's replies (closed loop).
    Closed,
}

/// A trial and its purpose: all that the search and the plan of a unit need of a stored trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Played {
    /// The number of the trial in the run; 0 outside of one.
    pub number: u64,
    /// The purpose of the trial.
    pub purpose: Purpose,
    /// The record of the trial.
    pub trial: Trial,
}

impl Played {
    /// The purpose and the record, which decide whether the trial counts.
    pub fn facts(&self) -> (Purpose, &Trial) {
        (self.purpose, &self.trial)
    }

    /// Converts a stored trial, which a search sees without the attack beside its good clients; `None` if it was not measured.
    pub fn from_stored(stored: &RunTrial) -> Option<Self> {
        stored.measured().map(|trial| Self {
            number: stored.number,
            purpose: stored.purpose,
            trial: breaking::seen(trial).into_owned(),
        })
    }
}

/// The trials that count. A trial that the player spoiled does not, so that whatever requested it requests it
/// again. Repetition needs no state but the stored trials.
pub fn counted(played: &[Played]) -> Vec<&Played> {
    evidence::counted(played, Played::facts)
}

/// Whether the player sent a query, or tried to. On a busy host it may be too late for all of them, and then the trial
/// says nothing about its subject.
pub fn was_tried(trial: &Trial) -> bool {
    trial.accounts.sent + trial.accounts.send_failed > 0
}

/// Why a trial, or the start of a subject, has no result.
#[derive(Debug)]
pub enum NoTrial {
    /// The user ended the run.
    Interrupted,
    /// The subject's host was lost, and the subject with it. That says nothing about the subject, which may be started
    /// again.
    Lost {
        /// The reason in one sentence, without its full stop.
        reason: String,
    },
    /// It could not be measured, which is a result too.
    Failed {
        /// The reason in one sentence, without its full stop.
        reason: String,
        /// The last lines of the subject's or the player's output.
        output: Vec<String>,
    },
}

impl NoTrial {
    /// A failure without output.
    pub fn failed(reason: String) -> Self {
        Self::Failed { reason, output: Vec::new() }
    }

    /// The reason, and the last lines of output; `None` if the user ended the run.
    pub fn failure(self) -> Option<(String, Vec<String>)> {
        match self {
            Self::Interrupted => None,
            Self::Lost { reason } => Some((reason, Vec::new())),
            Self::Failed { reason, output } => Some((reason, output)),
        }
    }
}
