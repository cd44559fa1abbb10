//! How long one start of a subject may take: its fair share of the budget, so that a subject which hangs takes from
//! nobody else.

use std::time::{Duration, Instant};

use kqps_observation::Run;
use kqps_observation::run::Role;

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

    /// Whether there is time for more than what must be done.
    pub fn has_time_left(&self) -> bool {
        self.until.is_some_and(|(ready, _)| Instant::now() < ready)
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
        let all_s = block_s + later * cost::block_s(&run.cells, &run.goal, 1);
        let share = clock.share(seconds(began), own_s, block_s, all_s);
        let now = Instant::now();
        let after = |seconds: f64| now + Duration::from_secs_f64(seconds);
        Patience { until: Some((after(share.ready_s), after(share.over_s))) }
    }

    /// What a cell costs in a block, with the trial that is repeated for the reasons of its drops.
    fn cost_s(&self, run: &Run, cell: usize, block: u32) -> f64 {
        let facts = &run.cells[cell];
        let has_reasons = block == 0 && facts.role == Role::Subject && self.reasons.is_ok();
        cost::cell_s(facts, &run.goal, block) + if has_reasons { cost::REASONS_S } else { 0.0 }
    }
}
