//! A subject and its player that exist only in tests. The subject answers all queries up to its knee and drops
//! the rest.

use std::convert::Infallible;

use kqps_observation::trial::LoadMode;
use kqps_observation::{Accounts, Trial, trial};

use kqps_testbed::trial_request::{RequestedPace, TrialRequest};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Simulated {
    /// The most queries a second that the subject answers.
    pub(crate) knee_qps: f64,
    /// The player drops replies in trials above this rate.
    pub(crate) spoiled_above_qps: f64,
}

impl Default for Simulated {
    fn default() -> Self {
        Self { knee_qps: 100_000.0, spoiled_above_qps: f64::INFINITY }
    }
}

impl Simulated {
    // A `Result`, so that it can replace a player that may fail.
    #[allow(clippy::unnecessary_wraps)]
    pub(crate) fn play(&self, request: &TrialRequest) -> Result<Trial, Infallible> {
        let (mode, rate_qps) = match request.pace {
            RequestedPace::Open { rate_qps } => (LoadMode::Open, rate_qps),
            RequestedPace::Closed => (LoadMode::Closed, self.knee_qps),
        };
        let intended = (rate_qps * request.duration_s).round() as u64;
        let correct = ((rate_qps.min(self.knee_qps)) * request.duration_s).round() as u64;
        let mut played = Trial {
            load: trial::LoadFacts {
                mode,
                intended_qps: (mode == LoadMode::Open).then_some(rate_qps),
                offered_qps: rate_qps,
                answered_qps: correct as f64 / request.duration_s,
                duration_s: request.duration_s,
                ..trial::LoadFacts::default()
            },
            accounts: Accounts {
                intended,
                sent: intended,
                correct,
                lost: intended - correct,
                ..Accounts::default()
            },
            ..Trial::default()
        };
        played.players.first.socket_drops = u64::from(rate_qps > self.spoiled_above_qps);
        Ok(played)
    }
}
