//! When the canary is played: before the first cell of a block, every few cells after it, and after the last
//! cell of the run, which no later canary covers. A function of the stored trials, so that a run that was
//! killed neither repeats nor loses a canary.

use kqps_observation::run::{Purpose, Role};
use kqps_observation::{CellLoad, Run};

use kqps_testbed::trial_request::{RequestedPace, TrialRequest};

/// Number of cells between two canaries.
pub const EVERY: usize = 6;

/// The index of the run's canary cell; `None` if the run has none, or one without a fixed rate.
pub fn cell(run: &Run) -> Option<usize> {
    run.cells.iter().position(|cell| cell.role == Role::Canary && matches!(cell.load, CellLoad::Rates { .. }))
}

/// The request for a canary's trial: the first rate of its cell, queries a second.
pub fn request(run: &Run, canary: usize) -> Option<TrialRequest> {
    match &run.cells[canary].load {
        CellLoad::Rates { rates_qps, duration_s } => rates_qps.first().map(|&rate_qps| TrialRequest {
            pace: RequestedPace::Open { rate_qps },
            duration_s: *duration_s,
            purpose: Purpose::Canary,
        }),
        _ => None,
    }
}

/// Whether the canary is due when `done` cells of a block are done, canaries not counted. A canary that could
/// not be played counts as played: the next one comes soon enough.
pub fn is_due(run: &Run, canary: usize, block: u32, done: usize) -> bool {
    played(run, canary, block) <= done / EVERY
}

/// Whether the canary is due at the end of the run, after a last block of `cells` cells.
pub fn is_due_at_end(run: &Run, canary: usize, block: u32, cells: usize) -> bool {
    block + 1 == run.blocks && played(run, canary, block) <= cells.div_ceil(EVERY)
}

/// The cells of a block in the order in which they are played without interruption: `order`, with the canary
/// moved to every place where it is due.
pub fn played_order(order: &[usize], canary: usize, is_last_block: bool) -> Vec<usize> {
    let others: Vec<usize> = order.iter().copied().filter(|cell| *cell != canary).collect();
    let groups = others.chunks(EVERY).flat_map(|group| [&[canary], group].concat());
    groups.chain(is_last_block.then_some(canary)).collect()
}

fn played(run: &Run, canary: usize, block: u32) -> usize {
    run.trials.iter().filter(|trial| trial.cell as usize == canary && trial.block == block).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_before_every_sixth_cell_and_at_the_very_end() {
        let order = [5, 7, 0, 1, 2, 3, 4, 6];
        assert_eq!(played_order(&order, 7, false), [7, 5, 0, 1, 2, 3, 4, 7, 6]);
        assert_eq!(played_order(&order, 7, true), [7, 5, 0, 1, 2, 3, 4, 7, 6, 7]);
    }
}
