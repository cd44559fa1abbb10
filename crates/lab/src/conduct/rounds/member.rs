//! A member of a group: its subject, while it runs, and what it wants next.

use kqps_observation::run::Purpose;
use kqps_observation::store::StoreError;
use kqps_observation::{Cell, Run, Trial};
use kqps_verdict::estimate::{self, Speed};

use super::super::{Conductor, Patience, Place, Play};
use crate::load::Load;
use crate::search;
use crate::unit::{self, Ending, Next, Unit};
use crate::warm_up::WarmUp;

/// A cell of a group.
pub(super) struct Member<'a> {
    pub(super) place: Place,
    pub(super) unit: Unit,
    /// Its subject; none when it failed.
    pub(super) play: Option<Play<'a>>,
    pub(super) warm_up: WarmUp,
    /// Its last warm-up.
    pub(super) warmed: Option<Trial>,
    /// In how many trials of others it was not idle.
    pub(super) restless: u32,
    /// Whether it was told how it ended.
    pub(super) is_told: bool,
}

impl Member<'_> {
    pub(super) fn new(place: Place, unit: Unit, cell: &Cell) -> Self {
        Self { place, unit, play: None, warm_up: WarmUp::of(cell), warmed: None, restless: 0, is_told: false }
    }

    /// Whether it searches for a rate with what it wants next, and a trial of its ceiling beside that is worth something.
    pub(super) fn is_searching(&self, wanted: Option<&Load>) -> bool {
        let is_sought = |purpose: Purpose| purpose.is_of_search() || purpose == Purpose::Refine;
        self.unit.is_search() && wanted.is_some_and(|load| is_sought(load.purpose))
    }
}

impl<'a> Conductor<'a> {
    /// What a member wants for its own figures. A search whose time is over wants nothing more; one that is done goes on beside
    /// its bounds while there is time.
    pub(super) fn wants(
        &mut self,
        run: &mut Run,
        member: &mut Member<'a>,
        patience: &Patience,
    ) -> Result<Option<Load>, StoreError> {
        if member.play.is_none() {
            return Ok(None);
        }
        let next = self.next(run, &mut member.unit, member.place.cell)?;
        let is_search =
            member.unit.is_search() && matches!(&next, Next::Trial(load) if load.purpose.is_of_search());
        if is_search && member.unit.trials() > 0 && patience.cuts_search() {
            self.cut(run, member)?;
            return self.wants(run, member, patience);
        }
        let is_late = member.unit.is_search() && member.unit.trials() > 0 && patience.is_over();
        Ok(match next {
            Next::Trial(_) if is_late => {
                // The figure has what it has.
                member.unit.leave_extras();
                None
            }
            Next::Trial(load) => Some(load),
            Next::Over(Ending::Found(bounds)) if patience.may_refine() && bounds.futile.is_none() => {
                self.refined(run, member)
            }
            Next::Over(_) => None,
        })
    }

    /// Ends the search of a member, whose time is over.
    fn cut(&mut self, run: &mut Run, member: &mut Member<'a>) -> Result<(), StoreError> {
        let Place { cell, block, .. } = member.place;
        self.skip(run, &unit::rest_of_search(run, cell, block), TOO_LONG)?;
        member.unit.cut();
        Ok(())
    }

    /// A load beside what a cell is estimated at.
    fn refined(&self, run: &Run, member: &Member<'a>) -> Option<Load> {
        let estimate = estimate::of_cell(run, member.place.cell, &self.goal, Speed::Reference)?;
        search::refined(&self.goal, &estimate, member.unit.refined())
    }
}

/// Why a search was cut short.
const TOO_LONG: &str = "its share of the budget was used up";
