//! When the rest of a run no longer fits its budget, by the seconds that are gone.

use super::cost::REASONS_S;

/// The clock of a run that has a budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    limit_s: f64,
}

/// What one start may take of the time that is left, in seconds from its beginning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Until it must be ready.
    pub ready_s: f64,
    /// Until it must be over.
    pub over_s: f64,
}

/// A run may take this much longer than its budget.
const GRACE: f64 = 1.12;
/// A block is begun when this much of it fits: searches take what time there is.
const WORTHWHILE: f64 = 0.25;

impl Clock {
    /// A clock for a run that is to take so long.
    pub fn new(budget_s: f64) -> Self {
        Self { limit_s: budget_s }
    }

    /// Seconds that are left.
    pub fn left_s(&self, spent_s: f64) -> f64 {
        (self.limit_s - spent_s).max(0.0)
    }

    /// The share of a start that costs `own_s`, where all that is left to do costs `all_s`, and `block_s` of it in the same
    /// block. When time is short, later blocks go without before this one does.
    pub fn share(&self, spent_s: f64, own_s: f64, block_s: f64, all_s: f64) -> Share {
        let of = |limit_s: f64| {
            let left_s = (limit_s - spent_s).max(0.0);
            (left_s * own_s / all_s).max(own_s.min(left_s * own_s / block_s))
        };
        Share { ready_s: of(self.limit_s), over_s: of(self.limit_s * GRACE) }
    }

    /// Whether another block is begun after `blocks_done`, of which the last took `last_block_s`. The first
    /// block always is.
    pub fn fits_block(&self, spent_s: f64, blocks_done: u32, last_block_s: f64) -> bool {
        blocks_done == 0 || spent_s + last_block_s * WORTHWHILE <= self.limit_s
    }

    /// Whether there is time for a start of a cell that costs so much.
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
        // The same in the first of two blocks that would take too long together: what one start costs is left to it.
        is(clock.share(20.0, 15.0, 60.0, 120.0), 15.0, 15.0);
        // And when even this block takes too long, they all have less alike.
        is(clock.share(70.0, 15.0, 60.0, 120.0), 7.5, 10.5);
        is(clock.share(130.0, 15.0, 60.0, 120.0), 0.0, 0.0);
    }
}
