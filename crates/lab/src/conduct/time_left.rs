//! How long the rest of a run will take, judged by how long its cells really took. Costs are estimates for a host that
//! does nothing else; on a busy host, starts take longer and more trials are repeated.

use std::slice;

use kqps_observation::Run;

use super::{Conductor, Event, seconds};
use crate::budget::cost;

/// The rest is judged by the cells so far once they are this share of the whole, or have taken so many seconds: the first
/// cell of many says little about the others.
const SHARE: f64 = 0.25;
const ENOUGH_S: f64 = 60.0;

/// What the cells that were measured cost by estimate, and how long they took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    cost_s: f64,
    took_s: f64,
}

impl Pace {
    pub(super) fn add(&mut self, cost_s: f64, took_s: f64) {
        self.cost_s += cost_s;
        self.took_s += took_s;
    }

    /// Seconds for the rest of the cells, which cost `rest_s`; `None` if too few were measured, or none are left.
    fn seconds(&self, rest_s: f64) -> Option<f64> {
        let is_known = self.took_s >= ENOUGH_S || self.cost_s >= SHARE * (self.cost_s + rest_s);
        (is_known && self.cost_s > 0.0 && rest_s > 0.0).then(|| rest_s * self.took_s / self.cost_s)
    }
}

impl Conductor<'_> {
    /// Reports how long the rest of the run will take. `rest` are the cells of the block that are still to come.
    pub(super) fn report_left(&mut self, run: &Run, pace: &Pace, block: u32, rest: &[usize]) {
        let all = 0..run.cells.len();
        let later_s: f64 = all.map(|cell| self.likely_s(run, cell, block + 1)).sum();
        let rest_s: f64 = rest.iter().map(|&cell| self.likely_s(run, cell, block)).sum();
        let rest_s = rest_s + later_s * f64::from(run.blocks.saturating_sub(block + 1));
        let in_budget_s = self.clock.map_or(f64::INFINITY, |(clock, began)| clock.left_s(seconds(began)));
        if let Some(left_s) = pace.seconds(rest_s) {
            (self.report)(&Event::Left { left_s: left_s.min(in_budget_s) });
        }
    }

    /// The cost of a cell in a block. Searches that no budget ends take longer.
    pub(super) fn likely_s(&self, run: &Run, cell: usize, block: u32) -> f64 {
        let unhurried_s = match self.clock {
            Some(_) => 0.0,
            None => cost::unhurried_s(slice::from_ref(&run.cells[cell]), &run.goal, block),
        };
        self.cost_s(run, cell, block) + unhurried_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_takes_as_long_for_its_cost_as_what_was_measured() {
        let mut pace = Pace::default();
        assert_eq!(pace.seconds(10.0), None, "nothing was measured");
        pace.add(4.0, 8.0);
        assert_eq!(pace.seconds(10.0), Some(20.0));
        assert_eq!(pace.seconds(13.0), None, "less than a quarter was measured");
        pace.add(4.0, 0.0);
        assert_eq!((pace.seconds(1.0), pace.seconds(0.0)), (Some(1.0), None));
        pace.add(2.0, 52.0);
        assert_eq!(pace.seconds(1000.0), Some(6000.0), "a minute says enough");
    }
}
