//! How long one start of a subject may take: its fair share of the budget, so that a subject that hangs costs
//! the others no time.

use std::time::{Duration, Instant};

use kqps_observation::Run;
use kqps_observation::run::Role;

use super::group::is_ceiling_of_any;
use super::{Conductor, seconds};
use crate::budget::cost;

/// The least time to become ready, however small the share is.
const START_LEAST: Duration = Duration::from_secs(3);

/// The least time to stop.
const STOP_LEAST: Duration = Duration::from_secs(1);

/// The time limits of one start. Without a budget, only the subject's definition limits it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patience {
    /// When its measurements should end, and when it must have ended.
    until: Option<(Instant, Instant)>,
    /// When its rate search should end, so that there is time for the trials after it.
    search_until: Option<Instant>,
}

impl Patience {
    /// The time that the subject has to become ready; `None` if only its definition limits it.
    pub fn for_start(&self) -> Option<Duration> {
        self.until.map(|(ready, _)| ready.saturating_duration_since(Instant::now()).max(START_LEAST))
    }

    /// The time that the subject has to stop; `None` if only its definition limits it.
    pub fn for_stop(&self) -> Option<Duration> {
        self.until.map(|(_, over)| over.saturating_duration_since(Instant::now()).max(STOP_LEAST))
    }

    /// Whether a completed search may go on to refine its estimate; always false without a budget.
    pub fn may_refine(&self) -> bool {
        self.search_until.is_some_and(|until| Instant::now() < until)
    }

    /// Whether a search is now cut short; always false without a budget.
    pub fn cuts_search(&self) -> bool {
        self.search_until.is_some_and(|until| Instant::now() >= until)
    }

    /// Whether the time of the start is over; always false without a budget.
    pub fn is_over(&self) -> bool {
        self.until.is_some_and(|(_, over)| Instant::now() >= over)
    }
}

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
        let all_s = block_s + later * (cost::block_s(&run.cells, &run.goal, 1) + later_s);
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
    fn cost_s(&self, run: &Run, cell: usize, block: u32) -> f64 {
        let rounds_s = if is_ceiling_of_any(run, cell) { cost::rounds_s(&run.goal) } else { 0.0 };
        cost::cell_s(&run.cells[cell], &run.goal, block) + rounds_s + self.reasons_s(run, cell, block)
    }

    /// The cost of the trial that is repeated for the reasons of drops, seconds.
    fn reasons_s(&self, run: &Run, cell: usize, block: u32) -> f64 {
        let is_repeated = block == 0 && run.cells[cell].role == Role::Subject && self.reasons.is_ok();
        if is_repeated { cost::REASONS_S } else { 0.0 }
    }

    /// The cost of the trials after a search, seconds.
    fn extras_s(&self, run: &Run, cell: usize, block: u32) -> f64 {
        cost::latency_s(&run.cells[cell], &run.goal, block) + self.reasons_s(run, cell, block)
    }
}
