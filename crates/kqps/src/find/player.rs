//! The player of a search's trials.

use std::cell::{Cell, OnceCell};
use std::time::{Duration, Instant};

use kqps_dataset::Check;
use kqps_host::SubjectWatched;
use kqps_observation::Trial;
use kqps_player::Plan;
use kqps_testbed::play::{PlayClass, PlayRequest, PlayerProgram, QueryFile, SPARE_LEAST};
use kqps_testbed::trial_request::NoTrial;

use super::Ended;
use crate::load::Queries;

/// Plays the trials of a search, each in a process of its own.
pub(super) struct Player<'a> {
    pub(super) program: PlayerProgram<'a>,
    /// Every plan of the search is this plan with another load or target.
    pub(super) plan: &'a Plan,
    pub(super) queries: &'a Queries,
    /// When the search must be over; `None` before it begins.
    pub(super) until: Cell<Option<Instant>>,
    /// Why the player limited a trial so much that there is none. No other trial is played then.
    pub(super) limited: OnceCell<String>,
}

impl<'a> Player<'a> {
    pub(super) fn new(program: PlayerProgram<'a>, plan: &'a Plan, queries: &'a Queries) -> Self {
        Self { program, plan, queries, until: Cell::default(), limited: OnceCell::default() }
    }

    /// Begins the search, which must be over within this time.
    pub(super) fn begin_search(&self, within: Duration) {
        self.until.set(Some(Instant::now() + within));
    }

    /// Plays a trial at a subject, with these classes beside the plan. `check` is how its answers are checked; `None`: the
    /// user's setting.
    pub(super) fn play(
        &self,
        (plan, classes): (Plan, Vec<PlayClass>),
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
            classes,
            scenario: None,
            is_allowed: true,
            subject: subject.clone(),
            shows_bar,
            live_every: None,
        };
        if let Some(why) = self.limited.get() {
            return Err(Ended::Limited(why.clone()));
        }
        let program = PlayerProgram { spare: self.spare(), ..self.program };
        let played = program.play(&request);
        if let Ok(Some(why)) = played.as_ref().map(kqps_testbed::play::Played::player_limited)
            && !self.program.interrupts.is_asked()
        {
            return Err(Ended::Limited(self.limited.get_or_init(|| why).clone()));
        }
        match played.and_then(|played| played.trial()) {
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

    /// The time that a trial may take beyond sending and draining: what is left for the search.
    fn spare(&self) -> Duration {
        let left = self.until.get().map(|until| until.saturating_duration_since(Instant::now()));
        left.map_or(self.program.spare, |left| left.max(SPARE_LEAST).min(self.program.spare))
    }

    /// Whether no further trial is played: the user has asked to end, or the player got no CPU time.
    pub(super) fn is_over(&self) -> bool {
        self.program.interrupts.is_asked() || self.limited.get().is_some()
    }
}
