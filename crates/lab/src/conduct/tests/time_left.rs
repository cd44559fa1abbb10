//! The time that is left of a run is reported after each whole block.

use super::failing::comparison;
use super::*;

const PAUSE: Duration = Duration::from_millis(200);

/// Conducts a run, and returns each time that it reports as left, with the number of blocks that had begun by then. The
/// first trial of block `slow`, which counts from 1, takes longer by [`PAUSE`]. The run is interrupted after `most` trials.
fn left(store: &Store, clock: Option<(Clock, Instant)>, slow: u32, most: u32) -> Vec<(u32, f64)> {
    let (begun, paused, trials) = (Cell::new(0), Cell::new(false), Cell::new(0));
    let mut left = Vec::new();
    let before_trial = || {
        if trials.replace(trials.get() + 1) == most {
            return Err(NoTrial::Interrupted);
        }
        if begun.get() == slow && !paused.replace(true) {
            std::thread::sleep(PAUSE);
        }
        Ok(())
    };
    let mut note = |event: &Event<'_>| match event {
        Event::Block { block } => begun.set(block + 1),
        Event::Left { left_s } => left.push((begun.get(), *left_s)),
        _ => {}
    };
    conduct(store, clock, &before_trial, &mut note).unwrap();
    left
}

fn store_of(folder: &tempfile::TempDir, plan: &Run) -> Store {
    Store::create(&folder.path().join("run.sqlite"), plan).unwrap()
}

#[test]
fn the_time_that_is_left_is_reported_after_each_block_but_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_of(&folder, &plan());
    let reported = left(&store, None, 1, u32::MAX);
    assert_eq!(reported.iter().map(|(begun, _)| *begun).collect::<Vec<_>>(), [1, 2]);
    // Later searches take less time than first ones, and latency is measured in the first block only.
    let of_one = reported[0].1 / f64::from(BLOCKS - 1) / PAUSE.as_secs_f64();
    assert!(of_one > 0.4, "{reported:?}");
    assert!(left(&store, None, 1, u32::MAX).is_empty(), "a run that was over measures nothing more");
}

#[test]
fn a_run_that_goes_on_within_a_group_reports_nothing_before_a_whole_block() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_of(&folder, &plan());
    assert!(left(&store, None, 0, 5).is_empty());
    let stored = store.run().unwrap();
    // The first block is measured in two parts, and no block follows the third.
    let reported = left(&store, None, 2, u32::MAX);
    assert_eq!(reported.iter().map(|(begun, _)| *begun).collect::<Vec<_>>(), [2]);
    assert!(reported[0].1 > PAUSE.as_secs_f64() / 2.0, "{reported:?}");
    let groups = group::groups(&stored, &order::of_block(stored.seed, 0, stored.cells.len()));
    let last = stored.trials.last().unwrap().cell as usize;
    let group = groups.into_iter().find(|group| group.contains(&last)).unwrap();
    let is_in_group = |one: &RunTrial| one.block == 0 && group.contains(&(one.cell as usize));
    assert!(store.run().unwrap().trials[stored.trials.len()..].iter().any(is_in_group), "{group:?}");
}

#[test]
fn a_comparison_whose_budget_is_used_up_still_has_the_time_of_the_blocks_that_are_begun_in_any_case() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_of(&folder, &comparison("slow", "swift"));
    let (budget, rest) = (Duration::from_secs(100), PAUSE / 2);
    let began = Instant::now().checked_sub(budget.saturating_sub(rest)).unwrap();
    let clock = Clock::new(budget.as_secs_f64());
    let reported = left(&store, Some((clock, began)), 2, u32::MAX);
    // The last two of its eight blocks are left out before the first one, and the budget is used up in the second.
    assert_eq!(reported.iter().map(|(begun, _)| *begun).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert!(reported[1].1 > 3.9 * PAUSE.as_secs_f64(), "{reported:?}");
}
