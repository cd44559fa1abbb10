//! A member of a group: its subject, as long as it runs, and its next trial.

use kqps_observation::run::Purpose;
use kqps_observation::store::StoreError;
use kqps_observation::{Cell, Run, Trial};
use kqps_verdict::estimate::{self, Speed};

use super::super::{Conductor, NO_TIME, StartKey};
use crate::search;
use crate::unit::{self, Ending, Next, Unit};
use crate::warm_up::WarmUp;
use kqps_testbed::patience::Patience;
use kqps_testbed::started::Play;
use kqps_testbed::trial_request::TrialRequest;

pub(super) struct Member<'a> {
    pub(super) key: StartKey,
    pub(super) unit: Unit,
    /// The started subject; `None` after a failure.
    pub(super) play: Option<Play<'a>>,
    pub(super) warm_up: WarmUp,
    /// The trial of its last warm-up.
    pub(super) warmed: Option<Trial>,
    /// How often in succession its host was lost.
    pub(super) lost: u32,
    /// The number of trials of others in which it was busy.
    pub(super) restless: u32,
    /// Whether its end was reported.
    pub(super) is_reported: bool,
}

impl Member<'_> {
    /// A member before its subject is started, whose host was lost this often in succession.
    pub(super) fn new(key: StartKey, unit: Unit, cell: &Cell, lost: u32) -> Self {
        Self {
            key,
            unit,
            play: None,
            warm_up: WarmUp::new(cell),
            warmed: None,
            lost,
            restless: 0,
            is_reported: false,
        }
    }

    /// Whether its next trial is one of a search, so that a trial of its ceiling beside it is useful.
    pub(super) fn is_searching(&self, wanted: Option<&TrialRequest>) -> bool {
        let is_sought = |purpose: Purpose| purpose.is_of_search() || purpose == Purpose::Refine;
        self.unit.is_search() && wanted.is_some_and(|request| is_sought(request.purpose))
    }
}

impl<'a> Conductor<'a> {
    /// The next trial for a member's own figures. A search whose time is over has no next one. A completed
    /// search refines its estimate while there is time.
    pub(super) fn wants(
        &mut self,
        run: &mut Run,
        member: &mut Member<'a>,
        patience: &Patience,
    ) -> Result<Option<TrialRequest>, StoreError> {
        if member.play.is_none() {
            return Ok(None);
        }
        let next = self.next(run, &mut member.unit, member.key.cell)?;
        let is_search = member.unit.is_search()
            && matches!(&next, Next::Trial(request) if request.purpose.is_of_search());
        if is_search && member.unit.trials() > 0 && patience.cuts_search() {
            self.cut(run, member)?;
            return self.wants(run, member, patience);
        }
        let is_late = member.unit.is_search() && member.unit.trials() > 0 && patience.is_over();
        Ok(match next {
            Next::Trial(_) if is_late => {
                // The figure rests on the trials so far.
                self.leave_residence(run, &mut member.unit, member.key.cell, NO_TIME)?;
                self.leave_profile(run, &mut member.unit, member.key.cell, NO_TIME)?;
                member.unit.leave_extras();
                None
            }
            Next::Trial(request) => Some(request),
            Next::Over(Ending::Found(bounds)) if patience.may_refine() && bounds.futile.is_none() => {
                self.refined(run, member)
            }
            Next::Over(_) => None,
        })
    }

    /// Ends the search of a member whose time is over.
    fn cut(&mut self, run: &mut Run, member: &mut Member<'a>) -> Result<(), StoreError> {
        let StartKey { cell, block, .. } = member.key;
        self.skip(run, &unit::rest_of_search(run, cell, block), TOO_LONG)?;
        member.unit.cut();
        Ok(())
    }

    /// A trial that refines the estimate of a cell.
    fn refined(&self, run: &Run, member: &Member<'a>) -> Option<TrialRequest> {
        let estimate = estimate::of_cell(run, member.key.cell, &self.goal, Speed::Reference)?;
        search::refined(&self.goal, &estimate, member.unit.refined())
    }
}

/// The reason for a search that was cut short.
const TOO_LONG: &str = "its share of the budget was used up";
