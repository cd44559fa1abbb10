//! Decides whether the rest of a run still fits its budget, from the seconds that have passed.

use super::cost::REASONS_S;

/// The clock of a run that has a budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    limit_s: f64,
    /// Whether blocks are added as long as they fit.
    is_filled: bool,
}

/// The share of the remaining time for one start, in seconds from its beginning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Seconds until its measurements should end.
    pub ready_s: f64,
    /// Seconds until it must have ended.
    pub over_s: f64,
}

/// A run may take its budget times this factor.
const GRACE: f64 = 1.12;
/// A block begins if at least this share of it fits, since searches adapt to the time that is left.
const WORTHWHILE: f64 = 0.25;

impl Clock {
    /// A clock for a run with this budget, in seconds.
    pub fn new(budget_s: f64) -> Self {
        Self { limit_s: budget_s, is_filled: false }
    }

    /// A clock for a comparison that has as many blocks as fit its budget, in seconds.
    pub fn of_filled(budget_s: f64) -> Self {
        Self { limit_s: budget_s, is_filled: true }
    }

    /// How many more blocks fit after the last planned one, if a block takes `block_s`; none unless the budget is to be
    /// filled.
    pub fn more_blocks(&self, spent_s: f64, block_s: f64) -> u32 {
        let is_known = self.is_filled && block_s > 0.0;
        if is_known { u32::try_from((self.left_s(spent_s) / block_s) as u64).unwrap_or(u32::MAX) } else { 0 }
    }

    /// Seconds that are left.
    pub fn left_s(&self, spent_s: f64) -> f64 {
        (self.limit_s - spent_s).max(0.0)
    }

    /// The share of a start that costs `own_s`. All that is left to do costs `all_s`, and the part of it in the
    /// same block costs `block_s`. All are in seconds. If time is short, later blocks give way to this one.
    pub fn share(&self, spent_s: f64, own_s: f64, block_s: f64, all_s: f64) -> Share {
        let of = |limit_s: f64| {
            let left_s = (limit_s - spent_s).max(0.0);
            (left_s * own_s / all_s).max(own_s.min(left_s * own_s / block_s))
        };
        Share { ready_s: of(self.limit_s), over_s: of(self.limit_s * GRACE) }
    }

    /// Whether another block begins after `blocks_done` blocks, of which the last took `last_block_s`. The
    /// first block always begins.
    pub fn fits_block(&self, spent_s: f64, blocks_done: u32, last_block_s: f64) -> bool {
        blocks_done == 0 || spent_s + last_block_s * WORTHWHILE <= self.limit_s
    }

    /// Whether there is time for a start of a cell that costs `cell_s`.
    pub fn fits_cell(&self, spent_s: f64, cell_s: f64) -> bool {
        spent_s + cell_s <= self.limit_s * GRACE
    }

    /// Whether there is time to repeat a trial for the reasons of its drops.
    pub fn fits_reasons(&self, spent_s: f64) -> bool {
        spent_s + REASONS_S <= self.limit_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_drops_what_does_not_fit() {
        let clock = Clock::new(120.0);
        assert!(clock.fits_block(500.0, 0, 0.0), "the first block is always begun");
        assert!(clock.fits_block(109.0, 2, 40.0) && !clock.fits_block(111.0, 2, 40.0));
        assert!(clock.fits_cell(110.0, 13.0) && !clock.fits_cell(125.0, 13.0));
        assert!(clock.fits_cell(133.0, 0.7) && !clock.fits_cell(134.0, 0.7));
        assert!(clock.fits_reasons(117.0) && !clock.fits_reasons(118.0));
    }

    #[test]
    fn blocks_are_added_only_to_fill_a_budget_and_only_if_they_fit() {
        let clock = Clock::of_filled(180.0);
        assert_eq!((clock.more_blocks(80.0, 7.3), clock.more_blocks(173.0, 7.3)), (13, 0));
        assert_eq!((clock.more_blocks(200.0, 7.3), clock.more_blocks(80.0, 0.0)), (0, 0));
        assert_eq!(Clock::new(180.0).more_blocks(80.0, 7.3), 0);
    }

    #[test]
    fn every_start_has_its_share_of_what_is_left() {
        let clock = Clock::new(100.0);
        let is = |share: Share, ready_s: f64, over_s: f64| {
            assert!(
                (share.ready_s - ready_s).abs() < 1e-9 && (share.over_s - over_s).abs() < 1e-9,
                "{share:?}"
            );
        };
        // Four equal starts in one block: each has a quarter.
        is(clock.share(20.0, 15.0, 60.0, 60.0), 20.0, 23.0);
        // Four such starts in the first of two blocks that together take too long: a start keeps its full cost.
        is(clock.share(20.0, 15.0, 60.0, 120.0), 15.0, 15.0);
        // If even this block takes too long, all its starts have equally less.
        is(clock.share(70.0, 15.0, 60.0, 120.0), 7.5, 10.5);
        is(clock.share(130.0, 15.0, 60.0, 120.0), 0.0, 0.0);
    }
}
