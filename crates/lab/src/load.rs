//! What the lab asks of the player: one load for one duration.

use kqps_observation::run::Purpose;
use kqps_observation::{RunTrial, Trial};
use kqps_verdict::evidence;

/// One load for one duration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Who decides when the next query leaves.
    pub pace: Pace,
    /// Seconds in which queries are sent.
    pub duration_s: f64,
    /// Why it is wanted.
    pub purpose: Purpose,
}

/// Who decides when the next query leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// A schedule, at this many queries a second.
    Open {
        /// Queries a second.
        rate_qps: f64,
    },
    /// The subject's replies.
    Closed,
}

/// A trial and why it was made: all that the search and the plan of a unit need of a stored trial.
#[derive(Clone, Debug, PartialEq)]
pub struct Played {
    /// Its number in the run; 0 outside of one.
    pub number: u64,
    /// Why it was made.
    pub purpose: Purpose,
    /// What was seen.
    pub trial: Trial,
}

impl Played {
    /// What decides whether it counts.
    pub fn facts(&self) -> (Purpose, &Trial) {
        (self.purpose, &self.trial)
    }

    /// The stored trial, if it was measured.
    pub fn of(stored: &RunTrial) -> Option<Self> {
        stored.measured().map(|trial| Self {
            number: stored.number,
            purpose: stored.purpose,
            trial: trial.clone(),
        })
    }
}

/// The trials that count: a trial that the player spoiled does not, so whatever asked for it asks for the same
/// again. Redoing needs no memory but the stored trials.
pub fn counted(played: &[Played]) -> Vec<&Played> {
    evidence::counted(played, Played::facts)
}
