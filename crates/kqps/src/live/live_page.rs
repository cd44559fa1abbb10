//! The page of a run that goes on. It is made between trials.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kqps_history::Beside;
use kqps_live::Hub;
use kqps_observation::Run;
use kqps_verdict::judge::{Moment, RunVerdict, judge_at};

use crate::other_run;

/// Pages take at most one part in so many of the run's time.
const PARTS: u32 = 50;

/// Makes the page of the run so far, for what shows it.
pub(crate) struct LivePage {
    hub: Arc<Hub>,
    /// When the page was made last, and how long that took.
    made: Option<(Instant, Duration)>,
}

impl LivePage {
    /// Passes pages on to `hub`.
    pub(crate) fn new(hub: Arc<Hub>) -> Self {
        Self { hub, made: None }
    }

    /// Makes the page of the run so far, unless that would take too much of the run's time. The first trial is shown in any
    /// case.
    pub(crate) fn make(&mut self, run: &Run) {
        if run.trials.len() == 1 || self.made.is_none_or(|(at, took)| at.elapsed() >= took * PARTS) {
            let began = Instant::now();
            self.hub.page(&kqps_report::page_so_far(run, &judge_at(run, Moment::SoFar)));
            self.made = Some((Instant::now(), began.elapsed()));
        }
    }

    /// Makes the last page, whatever time that takes, with the run that stands beside it, if one does. The link to the other
    /// run's page is left out, since it would lead nowhere here.
    pub(crate) fn end(&self, run: &Run, verdict: &RunVerdict, beside: Option<&Beside>) {
        let beside = other_run::without_link(beside);
        self.hub.page(&kqps_report::page_body(run, verdict, beside.as_ref()));
    }
}
