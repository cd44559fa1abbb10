//! Where a run stands, and its page so far, for what shows it while it goes on.

use std::collections::BTreeMap;
use std::sync::Arc;

use kqps_history::Beside;
use kqps_lab::conduct::Event;
use kqps_lab::search;
use kqps_live::{Hub, Place, STARTING, Standing, of_trial};
use kqps_observation::{Cell, Run, RunTrial};
use kqps_testbed::trial_request::{Played, TrialRequest};
use kqps_verdict::judge::RunVerdict;
use kqps_verdict::search::Goal;

use crate::live::{LivePage, standing_of};

/// The view of a run. It follows the run's events.
pub(super) struct RunView {
    hub: Arc<Hub>,
    goal: Goal,
    /// The run so far.
    run: Run,
    /// Cell → the trials of its present start.
    played: BTreeMap<String, Vec<Played>>,
    /// `None` if no page is shown.
    page: Option<LivePage>,
}

impl RunView {
    /// The view of a run that is about to go on.
    pub(super) fn new(hub: Arc<Hub>, goal: &Goal, run: &Run, mut page: Option<LivePage>) -> Self {
        if let Some(page) = &mut page {
            page.make(run);
        }
        Self { hub, goal: goal.clone(), run: run.clone(), played: BTreeMap::new(), page }
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
            Event::Block { .. }
            | Event::Over { .. }
            | Event::SoFar { .. }
            | Event::Added { .. }
            | Event::Left { .. } => {}
        }
    }

    /// Makes the last page.
    pub(super) fn end(&self, run: &Run, verdict: &RunVerdict, beside: Option<&Beside>) {
        if let Some(page) = &self.page {
            page.end(run, verdict, beside);
        }
    }

    fn add(&mut self, cell: &Cell, trial: &RunTrial) {
        if let Some(trial) = trial.measured().filter(|_| self.hub.read(|snapshot| snapshot.now.at_s <= 0.0)) {
            self.hub.count(of_trial::counts(trial));
        }
        self.played.entry(cell.name.clone()).or_default().extend(Played::from_stored(trial));
        if let Some(page) = &mut self.page {
            self.run.trials.push(trial.clone());
            page.make(&self.run);
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
            role: cell.role,
            cell: number.map(|number| Place { number: number as u64 + 1, of }),
            trial: played.len() as u64 + 1,
            lower_qps: bounds.as_ref().and_then(|bounds| bounds.lower_qps),
            upper_qps: bounds.as_ref().and_then(|bounds| bounds.upper_qps),
            has_connections_alone: cell.has_connections_alone(),
            ..request
                .map_or_else(|| Standing { purpose: STARTING.into(), ..Standing::default() }, standing_of)
        }
    }
}
