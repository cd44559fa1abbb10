//! What plays the trials of a search.

use kqps_dataset::Check;
use kqps_host::SubjectWatched;
use kqps_lab::play::{PlayRequest, PlayerProgram, QueryFile};
use kqps_lab::trial_request::NoTrial;
use kqps_observation::Trial;
use kqps_player::Plan;

use super::Ended;
use crate::load::Queries;

/// What plays the trials of a search, each in a process of its own.
pub(super) struct Player<'a> {
    pub(super) program: PlayerProgram<'a>,
    /// Every plan of the search is this plan with another load or target.
    pub(super) plan: &'a Plan,
    pub(super) queries: &'a Queries,
}

impl Player<'_> {
    /// Plays a trial at a subject. `check` is how its answers are checked; `None` for as the user wants it.
    pub(super) fn play(
        &self,
        plan: Plan,
        subject: &SubjectWatched,
        check: Option<Check>,
        shows_bar: bool,
    ) -> Result<Trial, Ended> {
        let file = &self.queries.file;
        let queries = QueryFile { check: check.or(file.check), ..file.clone() };
        // The targets were checked as the flags were read.
        let request = PlayRequest {
            plan,
            queries,
            is_allowed: true,
            subject: subject.clone(),
            shows_bar,
            live_every: None,
        };
        match self.program.play(&request).and_then(|played| played.trial()) {
            Ok(mut trial) => {
                // It may be a copy that was played.
                trial.dataset.path = self.queries.dataset.path().display().to_string();
                Ok(trial)
            }
            Err(_) if self.is_over() => Err(Ended::Interrupted),
            Err(NoTrial::Interrupted) => Err(Ended::Interrupted),
            Err(NoTrial::Failed { reason, .. } | NoTrial::Lost { reason }) => {
                Err(Ended::Failed(anyhow::Error::msg(reason)))
            }
        }
    }

    /// Whether the user has asked to end.
    pub(super) fn is_over(&self) -> bool {
        self.program.interrupts.is_asked()
    }
}
