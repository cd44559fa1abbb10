//! Where a search stands, for what shows it while it goes on.

use std::cell::RefCell;
use std::sync::Arc;

use kqps_lab::search;
use kqps_live::{Hub, Standing};
use kqps_observation::Trial;
use kqps_observation::run::{Purpose, Role};
use kqps_testbed::trial_request::{Played, TrialRequest};
use kqps_verdict::search::Goal;

use crate::live::standing_of;

/// The hub that shows a search, and the trials of the search so far.
pub(super) struct SearchView<'a> {
    /// `None` if nothing shows it.
    hub: Option<&'a Hub>,
    goal: &'a Goal,
    targets: String,
    has_connections_alone: bool,
    played: RefCell<Vec<Played>>,
}

impl<'a> SearchView<'a> {
    pub(super) fn new(
        hub: Option<&'a Arc<Hub>>,
        goal: &'a Goal,
        targets: String,
        has_connections_alone: bool,
    ) -> Self {
        let hub = hub.map(|hub| &**hub);
        Self { hub, goal, targets, has_connections_alone, played: RefCell::default() }
    }

    /// A trial of the echo of this cell begins.
    pub(super) fn begin_ceiling(&self, role: Role, cell: String, planned_s: f64) {
        let Some(hub) = self.hub else { return };
        hub.begin_trial(Standing {
            what: cell,
            role,
            trial: 1,
            purpose: Purpose::Ceiling.word().to_owned(),
            planned_s: Some(planned_s),
            has_connections_alone: self.has_connections_alone,
            ..Standing::default()
        });
    }

    /// A trial of the search begins.
    pub(super) fn begin(&self, request: &TrialRequest) {
        let Some(hub) = self.hub else { return };
        let played = self.played.borrow();
        let bounds = (!played.is_empty()).then(|| search::so_far(self.goal, &played));
        hub.begin_trial(Standing {
            what: self.targets.clone(),
            trial: played.len() as u64 + 1,
            lower_qps: bounds.as_ref().and_then(|bounds| bounds.lower_qps),
            upper_qps: bounds.as_ref().and_then(|bounds| bounds.upper_qps),
            has_connections_alone: self.has_connections_alone,
            ..standing_of(request)
        });
    }

    /// A trial of the search is over.
    pub(super) fn add(&self, request: &TrialRequest, trial: &Trial) {
        if self.hub.is_some() {
            let played = Played { number: 0, purpose: request.purpose, trial: trial.clone() };
            self.played.borrow_mut().push(played);
        }
    }
}
