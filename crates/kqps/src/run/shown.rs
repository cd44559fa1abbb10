//! Where a run stands, and its page so far, for what shows it while it goes on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kqps_lab::conduct::Event;
use kqps_lab::search;
use kqps_lab::trial_request::{Played, TrialRequest};
use kqps_live::{Hub, Place, Standing, of_trial};
use kqps_observation::{Cell, Run, RunTrial};
use kqps_verdict::judge::judge;
use kqps_verdict::search::Goal;

use crate::live::asked;

/// The page so far is made between trials. It takes at most this part of the run's time.
const SHARE: u32 = 50;

/// What shows a run. It follows the run's events.
pub(super) struct Shown {
    hub: Arc<Hub>,
    goal: Goal,
    /// The run so far.
    run: Run,
    /// Cell → the trials of its present start.
    played: BTreeMap<String, Vec<Played>>,
    /// Whether the page is shown.
    has_page: bool,
    /// When the page was made last, and how long that took.
    made: Option<(Instant, Duration)>,
}

impl Shown {
    /// What shows a run that is about to go on.
    pub(super) fn new(hub: Arc<Hub>, goal: &Goal, run: &Run, has_page: bool) -> Self {
        let (goal, run) = (goal.clone(), run.clone());
        let mut shown = Self { hub, goal, run, played: BTreeMap::new(), has_page, made: None };
        shown.make_page();
        shown
    }

    /// Follows an event.
    pub(super) fn follow(&mut self, event: &Event<'_>) {
        match event {
            Event::Start { cell, .. } => {
                self.played.remove(&cell.name);
                self.hub.stand(self.standing(cell, None));
            }
            Event::Load { cell, block, request } => {
                let standing =
                    Standing { block: Some(self.block(*block)), ..self.standing(cell, Some(request)) };
                self.hub.begin_trial(standing);
            }
            Event::Trial { cell, trial } => self.add(cell, trial),
            Event::Dropped { what, why } => {
                self.run.skipped.insert((*what).to_owned(), (*why).to_owned());
            }
            Event::Block { .. } | Event::Over { .. } | Event::SoFar { .. } => {}
        }
    }

    fn add(&mut self, cell: &Cell, trial: &RunTrial) {
        if let Some(trial) = trial.measured().filter(|_| self.hub.read(|snapshot| snapshot.now.at_s <= 0.0)) {
            self.hub.count(of_trial::counts(trial));
        }
        self.played.entry(cell.name.clone()).or_default().extend(Played::of(trial));
        if self.has_page {
            self.run.trials.push(trial.clone());
            self.make_page();
        }
    }

    /// Makes the page of the run so far, unless that would take too much of the run's time.
    fn make_page(&mut self) {
        let is_due = self.made.is_none_or(|(at, took)| at.elapsed() >= took * SHARE);
        if self.has_page && is_due {
            let began = Instant::now();
            self.hub.page(&kqps_report::page_body(&self.run, &judge(&self.run), None));
            self.made = Some((Instant::now(), began.elapsed()));
        }
    }

    fn block(&self, block: u32) -> Place {
        Place { number: u64::from(block) + 1, of: self.run.blocks.into() }
    }

    fn standing(&self, cell: &Cell, request: Option<&TrialRequest>) -> Standing {
        let number = self.run.cells.iter().position(|one| one.name == cell.name);
        let of = self.run.cells.len() as u64;
        let played = self.played.get(&cell.name).map(Vec::as_slice).unwrap_or_default();
        let is_searched = played.iter().any(|one| one.purpose.is_of_search());
        let bounds = is_searched.then(|| search::so_far(&self.goal, played));
        Standing {
            what: cell.name.clone(),
            cell: number.map(|number| Place { number: number as u64 + 1, of }),
            trial: played.len() as u64 + 1,
            lower_qps: bounds.as_ref().and_then(|bounds| bounds.lower_qps),
            upper_qps: bounds.as_ref().and_then(|bounds| bounds.upper_qps),
            ..request.map_or_else(|| Standing { purpose: "starting".into(), ..Standing::default() }, asked)
        }
    }
}
