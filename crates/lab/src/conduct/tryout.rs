//! Subjects that cannot be measured: those of a comparison are tried before it begins, and whatever failed several times
//! in succession is not started again.

use kqps_observation::run::{Outcome, Purpose, RunTrial};
use kqps_observation::store::StoreError;
use kqps_observation::{Cell, Run};
use kqps_verdict::compare::Pairing;

use super::{Conducted, Conductor, Event, NoTrial, Place};
use crate::warm_up::WarmUp;

/// A subject that failed this often in succession is hopeless.
const OFTEN: usize = 3;

/// Why a hopeless subject is left out.
pub(super) const HOPELESS: &str = "its last three starts failed";

/// The number of a start that only tries a subject; starts that are measured count from 1.
const TRYOUT: u64 = 0;

/// Whether a cell is not to be started in a block, for its last starts failed, all of them.
pub(super) fn is_hopeless(run: &Run, cell: usize, block: u32) -> bool {
    let of_cell = || run.trials.iter().rev().filter(move |one| one.cell as usize == cell);
    let last: Vec<&RunTrial> = of_cell().take(OFTEN).collect();
    let failed = last.len() == OFTEN && last.iter().all(|one| one.failure().is_some());
    failed && of_cell().all(|one| one.block != block)
}

impl Conductor<'_> {
    /// Starts both sides of a comparison once and plays at each for a moment. Whether both can be measured; a failure is
    /// stored, as that of the first start that they were to have.
    pub(super) fn can_compare(
        &mut self,
        run: &mut Run,
        pairing: Pairing,
    ) -> Result<Option<Conducted>, StoreError> {
        let firsts = [(pairing.a, 0), (pairing.b, run.blocks / 2)];
        for (cell, block) in firsts {
            if run.trials_of(cell).any(|one| one.measured().is_some()) {
                continue;
            }
            let (reason, output) = match self.tried(run, cell) {
                Ok(()) => continue,
                Err(NoTrial::Interrupted) => return Ok(Some(Conducted::Interrupted)),
                Err(NoTrial::Failed { reason, output }) => (reason, output),
            };
            let start = self.store.next_start()?;
            let place = Place { cell, block, start };
            self.commit(run, place, Purpose::WarmUp, Outcome::Failed { reason, output })?;
            return Ok(Some(Conducted::Whole));
        }
        Ok(None)
    }

    fn tried(&mut self, run: &Run, cell: usize) -> Result<(), NoTrial> {
        (self.tell)(&Event::Start { cell: &run.cells[cell], start: TRYOUT });
        let patience = self.patience(run, cell, 0, &[cell]);
        let mut play = (self.start)(cell, TRYOUT, patience)?;
        let load = WarmUp::of(&Cell::default()).next(None);
        load.map_or(Ok(()), |load| play(&load).map(drop))
    }

    /// Leaves out the rest of a comparison that a hopeless side makes pointless. Whether it did.
    pub(super) fn gives_up(
        &mut self,
        run: &mut Run,
        pairing: Pairing,
        block: u32,
    ) -> Result<bool, StoreError> {
        let hopeless = [pairing.a, pairing.b].into_iter().find(|&cell| is_hopeless(run, cell, block));
        let Some(cell) = hopeless else { return Ok(false) };
        let why = format!("{} cannot be measured: {HOPELESS}", run.cells[cell].name);
        self.drop_blocks(run, block, &why)?;
        Ok(true)
    }
}
