//! How long one start of a subject may take: its fair share of the budget, so that a subject that hangs costs
//! the others no time.

use std::time::{Duration, Instant};

use kqps_observation::Run;
use kqps_observation::run::Role;

use super::group::is_ceiling_of_any;
use super::{Conductor, seconds};
use crate::budget::cost;
use kqps_testbed::patience::Patience;

impl Conductor<'_> {
    /// The time limits of a cell in a block. `rest` are the cells of the block that are still to come, this one
    /// included.
    pub(super) fn patience(&self, run: &Run, cell: usize, block: u32, rest: &[usize]) -> Patience {
        self.patience_of_all(run, &[cell], block, rest)
    }

    /// The time limits of several cells together.
    pub(super) fn patience_of_all(&self, run: &Run, cells: &[usize], block: u32, rest: &[usize]) -> Patience {
        let Some((clock, began)) = self.clock else { return Patience::default() };
        let own_s: f64 = cells.iter().map(|&cell| self.cost_s(run, cell, block)).sum();
        let block_s: f64 = rest.iter().map(|&cell| self.cost_s(run, cell, block)).sum();
        let later = f64::from(run.blocks.saturating_sub(block + 1));
        let later_s: f64 = (0..run.cells.len())
            .filter(|&cell| is_ceiling_of_any(run, cell))
            .map(|_| cost::rounds_s(&run.goal))
            .sum();
        let together_s: f64 = (0..run.cells.len()).map(|cell| together_s(run, cell, 1)).sum();
        let all_s = block_s + later * (cost::block_s(&run.cells, &run.goal, 1) + later_s + together_s);
        let share = clock.share(seconds(began), own_s, block_s, all_s);
        let now = Instant::now();
        let after = |seconds: f64| now + Duration::from_secs_f64(seconds);
        let until = Some((after(share.ready_s), after(share.over_s)));
        let extras_s: f64 = cells.iter().map(|&cell| self.extras_s(run, cell, block)).sum();
        // However little time there is, half of it is for the trials that the figure rests on.
        let search_s = (share.ready_s - extras_s).max(share.ready_s / 2.0);
        Patience { until, search_until: Some(after(search_s)) }
    }

    /// The cost of a cell in a block, seconds.
    pub(super) fn cost_s(&self, run: &Run, cell: usize, block: u32) -> f64 {
        let rounds_s = if is_ceiling_of_any(run, cell) { cost::rounds_s(&run.goal) } else { 0.0 };
        let cell_s = cost::cell_s(&run.cells[cell], &run.goal, block) + together_s(run, cell, block);
        cell_s + rounds_s + self.reasons_s(run, cell, block)
    }

    /// The cost of the trial that is repeated for the reasons of drops, seconds.
    fn reasons_s(&self, run: &Run, cell: usize, block: u32) -> f64 {
        let is_repeated = block == 0 && run.cells[cell].role == Role::Subject && self.reasons.is_ok();
        if is_repeated { cost::REASONS_S } else { 0.0 }
    }

    /// The cost of the trials after a search, seconds.
    fn extras_s(&self, run: &Run, cell: usize, block: u32) -> f64 {
        let facts = &run.cells[cell];
        let once_s = cost::profile_s(facts, block) + cost::residence_s(facts, block);
        cost::latency_s(facts, &run.goal, block) + once_s + self.reasons_s(run, cell, block)
    }
}

/// How much longer a cell takes in a block because its trials are played over several hosts, seconds.
pub(super) fn together_s(run: &Run, cell: usize, block: u32) -> f64 {
    if run.hosts.is_empty() { 0.0 } else { cost::together_s(&run.cells[cell], &run.goal, block) }
}
