//! How long one start of a subject may take: its fair share of the budget, so that a subject which hangs takes from
//! nobody else.

use std::time::{Duration, Instant};

use kqps_observation::Run;
use kqps_observation::run::Role;

use super::group::is_ceiling_of_any;
use super::{Conductor, seconds};
use crate::budget::cost;

/// A subject is given this long to become ready, however little its share is.
const START_LEAST: Duration = Duration::from_secs(3);

/// And this long to stop.
const STOP_LEAST: Duration = Duration::from_secs(1);

/// The time of one start. Without a budget a subject has what its definition says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patience {
    /// When it must be ready, and when all that is done with it must be over.
    until: Option<(Instant, Instant)>,
    /// When a search for its rate is to be over, so that there is time for what comes after it.
    search_until: Option<Instant>,
}

impl Patience {
    /// The time that a subject has to become ready; none where only its definition limits it.
    pub fn for_start(&self) -> Option<Duration> {
        self.until.map(|(ready, _)| ready.saturating_duration_since(Instant::now()).max(START_LEAST))
    }

    /// The time that it has to stop; none where only its definition limits it.
    pub fn for_stop(&self) -> Option<Duration> {
        self.until.map(|(_, over)| over.saturating_duration_since(Instant::now()).max(STOP_LEAST))
    }

    /// Whether a search that is over may go on for a closer estimate; never without a budget.
    pub fn may_refine(&self) -> bool {
        self.search_until.is_some_and(|until| Instant::now() < until)
    }

    /// Whether a search is cut short; never without a budget.
    pub fn cuts_search(&self) -> bool {
        self.search_until.is_some_and(|until| Instant::now() >= until)
    }

    /// Whether its time is up.
    pub fn is_over(&self) -> bool {
        self.until.is_some_and(|(_, over)| Instant::now() >= over)
    }
}

impl Conductor<'_> {
    /// The share of a cell in a block, of which the cells in `rest` are still to come, it among them.
    pub(super) fn patience(&self, run: &Run, cell: usize, block: u32, rest: &[usize]) -> Patience {
        self.patience_of_all(run, &[cell], block, rest)
    }

    /// The share of several cells together.
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
        // However little time there is, half of it is for what the figure rests on.
        let search_s = (share.ready_s - extras_s).max(share.ready_s / 2.0);
        Patience { until, search_until: Some(after(search_s)) }
    }

    /// What a cell costs in a block.
    fn cost_s(&self, run: &Run, cell: usize, block: u32) -> f64 {
        let rounds_s = if is_ceiling_of_any(run, cell) { cost::rounds_s(&run.goal) } else { 0.0 };
        cost::cell_s(&run.cells[cell], &run.goal, block) + rounds_s + self.reasons_s(run, cell, block)
    }

    /// The trial that is repeated for the reasons of drops.
    fn reasons_s(&self, run: &Run, cell: usize, block: u32) -> f64 {
        let is_repeated = block == 0 && run.cells[cell].role == Role::Subject && self.reasons.is_ok();
        if is_repeated { cost::REASONS_S } else { 0.0 }
    }

    /// What comes after a search.
    fn extras_s(&self, run: &Run, cell: usize, block: u32) -> f64 {
        cost::latency_s(&run.cells[cell], &run.goal, block) + self.reasons_s(run, cell, block)
    }
}
