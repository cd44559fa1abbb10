//! How long the rest of a run will take, judged by the last whole block since the run began or was resumed. Costs are
//! estimates for a host that does nothing else; on a busy host, starts take longer and more trials are repeated.

use std::slice;

use kqps_observation::Run;
use kqps_verdict::compare::Pairing;

use super::{Conductor, Event, seconds, tryout};
use crate::budget::cost;

impl Conductor<'_> {
    /// Reports how long the rest of the run will take, after a whole block that took `took_s` seconds without outages.
    /// A block whose first trials are stored counts as over. Cells without a trial in this block, since they were left
    /// out, are expected in no later one.
    pub(super) fn report_left(&mut self, run: &Run, pairing: Option<Pairing>, block: u32, took_s: f64) {
        let has_trial = |cell: &usize| run.trials_of(*cell).any(|one| one.block == block);
        let played: Vec<usize> = (0..run.cells.len()).filter(has_trial).collect();
        let cost_s: f64 = played.iter().map(|&cell| self.likely_s(run, cell, block)).sum();
        let later = played.iter().filter(|cell| !tryout::is_hopeless(run, **cell, block + 1));
        let later: Vec<f64> = later.map(|&cell| self.likely_s(run, cell, block + 1)).collect();
        let later_s: f64 = later.iter().sum();
        // A block of which not even this cell fits is over at once.
        let least_s = later.into_iter().fold(f64::INFINITY, f64::min);
        let block_s = if cost_s > 0.0 { took_s * later_s / cost_s } else { 0.0 };
        let (mut left_s, mut last_s) = (0.0, took_s);
        for later in (block + 1..run.blocks).filter(|later| !is_stored(run, *later)) {
            if !self.fits(pairing, later, left_s, last_s) || !self.fits_cell(left_s, least_s) {
                break;
            }
            left_s += block_s;
            last_s = block_s;
        }
        // The searches of a run adapt to the time that is left. Nothing in a block of a comparison can be cut short.
        if pairing.is_none()
            && let Some((clock, began)) = self.clock
        {
            left_s = left_s.min(clock.left_s(seconds(began)));
        }
        if left_s > 0.0 {
            (self.report)(&Event::Left { left_s });
        }
    }

    /// The cost of a cell in a block, seconds. Searches that no budget ends take longer.
    fn likely_s(&self, run: &Run, cell: usize, block: u32) -> f64 {
        let unhurried_s = match self.clock {
            Some(_) => 0.0,
            None => cost::unhurried_s(slice::from_ref(&run.cells[cell]), &run.goal, block),
        };
        self.cost_s(run, cell, block) + unhurried_s
    }
}

/// Whether a block has trials already.
pub(super) fn is_stored(run: &Run, block: u32) -> bool {
    run.trials.iter().any(|one| one.block == block)
}
