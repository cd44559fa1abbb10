//! How a budget of time is spent: how many blocks, at which preset of the rate search, with or without
//! latency by load. A pure function of the budget and of what there is to measure.

use kqps_observation::run::Role;
use kqps_observation::{Cell, CellLoad};

/// What a budget must pay for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Cells that are one closed-loop trial each block.
    pub ceilings: u32,
    /// Cells with a rate search each block.
    pub subjects: u32,
    /// Whether a trial of each of those is repeated for the kernel's reasons of its drops.
    pub reasons: bool,
}

/// How a budget is spent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spending {
    /// The preset of the rate search.
    pub goal: &'static str,
    /// How often every cell is started.
    pub blocks: u32,
    /// Whether latency by load is measured, once for each subject.
    pub latency: bool,
    /// Seconds that this will take, about.
    pub estimate_s: f64,
    /// Whether even this takes longer than the budget.
    pub over_budget: bool,
}

/// Seconds before the first trial: generating the dataset and reading the host.
const SETUP_S: f64 = 3.0;
/// Seconds for one closed-loop trial with the start and stop of its echo.
const CEILING_S: f64 = 0.7;

/// Seconds that a trial takes which is repeated for the reasons of drops, with its drain: once for a cell.
const REASONS_S: f64 = 2.4;

/// Seconds that one preset costs.
struct Cost {
    goal: &'static str,
    /// A search that starts from nothing.
    first_s: f64,
    /// A search that starts from the bounds of an earlier one.
    later_s: f64,
    /// The trials of latency by load.
    latency_s: f64,
}

const QUICK: Cost = Cost { goal: "quick", first_s: 12.0, later_s: 9.0, latency_s: 5.0 };
const DEFAULT: Cost = Cost { goal: "default", first_s: 50.0, later_s: 42.0, latency_s: 8.0 };

/// What is wanted most comes first: the finer goal, then more starts, with latency by load or without. Fewer than
/// six starts of the finer goal say less than six of the coarser one, because starts differ more than trials do.
/// Two starts with latency say more than three without, but a single start is first repeated.
const WISHES: [(&Cost, u32, bool); 10] = [
    (&DEFAULT, 10, true),
    (&DEFAULT, 6, true),
    (&QUICK, 10, true),
    (&QUICK, 6, true),
    (&QUICK, 5, true),
    (&QUICK, 4, true),
    (&QUICK, 3, true),
    (&QUICK, 2, true),
    (&QUICK, 2, false),
    (&QUICK, 1, false),
];

/// The best way to spend `budget_s` seconds on `work`. It never does less than one block.
pub fn plan(budget_s: f64, work: Work) -> Spending {
    let mut candidates = WISHES
        .iter()
        .map(|&(cost, blocks, latency)| spending(cost, blocks, latency && work.subjects > 0, work));
    candidates
        .find(|spending| spending.estimate_s <= budget_s)
        .unwrap_or_else(|| Spending { over_budget: true, ..spending(&QUICK, 1, false, work) })
}

/// Seconds that starting, warming up and stopping a subject takes, with the player's own beginning and end.
const START_S: f64 = 1.4;

/// How often a study's cells are started: `repetitions` times, or as often as a budget allows, once at least.
/// Where `reasons` can be counted, every cell that is pushed beyond its limit has a trial repeated for them.
pub fn plan_study(
    budget_s: Option<f64>,
    repetitions: u32,
    goal: &'static str,
    cells: &[Cell],
    reasons: bool,
) -> Spending {
    let block_s: f64 = cells.iter().map(|cell| cell_s(cell, goal)).sum();
    let once_s = SETUP_S + if reasons { reasons_s(cells) } else { 0.0 };
    let fits = |budget_s: f64| ((budget_s - once_s) / block_s).floor().max(1.0) as u32;
    let blocks = budget_s.map_or(repetitions, |budget_s| repetitions.min(fits(budget_s)));
    let estimate_s = once_s + block_s * f64::from(blocks);
    let over_budget = budget_s.is_some_and(|budget_s| estimate_s > budget_s);
    Spending { goal, blocks, latency: false, estimate_s, over_budget }
}

/// Closed loops seldom lose anything.
fn reasons_s(cells: &[Cell]) -> f64 {
    let is_pushed = |cell: &&Cell| cell.role == Role::Subject && !matches!(cell.load, CellLoad::Closed(_));
    cells.iter().filter(is_pushed).count() as f64 * REASONS_S
}

/// Seconds of one start of a cell.
fn cell_s(cell: &Cell, goal: &str) -> f64 {
    let cost = if goal == DEFAULT.goal { &DEFAULT } else { &QUICK };
    match (cell.role, &cell.load) {
        (Role::PlayerCeiling | Role::EchoCeiling, _) => CEILING_S,
        (_, CellLoad::Closed(seconds)) => START_S + seconds,
        (_, CellLoad::Rates { rates_qps, duration_s }) => {
            START_S + rates_qps.len() as f64 * (duration_s + CEILING_S)
        }
        (_, CellLoad::Search) => START_S + cost.first_s,
    }
}

fn spending(cost: &Cost, blocks: u32, latency: bool, work: Work) -> Spending {
    let subjects = f64::from(work.subjects);
    let first = f64::from(work.ceilings) * CEILING_S + subjects * cost.first_s;
    let later = f64::from(work.ceilings) * CEILING_S + subjects * cost.later_s;
    let latency_s = if latency { cost.latency_s } else { 0.0 };
    let reasons_s = if work.reasons { REASONS_S } else { 0.0 };
    let extras = subjects * (latency_s + reasons_s);
    let estimate_s = SETUP_S + first + later * f64::from(blocks - 1) + extras;
    Spending { goal: cost.goal, blocks, latency, estimate_s, over_budget: false }
}

/// Says when the rest of a run no longer fits, by the seconds that are gone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    limit_s: f64,
    search_s: f64,
}

/// A run may take this much longer than its budget.
const GRACE: f64 = 1.12;
/// A block is begun when this much of it fits: what does not is left out cell by cell.
const WORTHWHILE: f64 = 0.5;
/// A search is cut short when it takes this many times as long as one usually does: on a host so noisy that
/// most trials are made anew it would eat up the time of all others.
const SEARCH_GRACE: f64 = 2.0;

impl Clock {
    /// A clock for a run that is planned like this. A plan that takes longer than the budget is kept all the
    /// same, since it was announced.
    pub fn new(budget_s: f64, spending: &Spending) -> Self {
        let cost = if spending.goal == DEFAULT.goal { &DEFAULT } else { &QUICK };
        let extras_s = if spending.latency { cost.latency_s } else { 0.0 };
        Self { limit_s: budget_s.max(spending.estimate_s), search_s: cost.first_s + extras_s }
    }

    /// Whether another block is begun after `blocks_done`, of which the last took `last_block_s`. The first
    /// block always is.
    pub fn fits_block(&self, spent_s: f64, blocks_done: u32, last_block_s: f64) -> bool {
        blocks_done == 0 || spent_s + last_block_s * WORTHWHILE <= self.limit_s
    }

    /// Whether there is time for one more search, or for one more ceiling.
    pub fn fits_cell(&self, spent_s: f64, is_search: bool) -> bool {
        spent_s + if is_search { self.search_s } else { CEILING_S } <= self.limit_s * GRACE
    }

    /// Whether there is time to repeat a trial for the reasons of its drops.
    pub fn fits_reasons(&self, spent_s: f64) -> bool {
        spent_s + REASONS_S <= self.limit_s
    }

    /// Whether a search that has taken `search_s` of `spent_s` is cut short.
    pub fn cuts_search(&self, spent_s: f64, search_s: f64) -> bool {
        search_s > self.search_s * SEARCH_GRACE || spent_s > self.limit_s * GRACE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Work = Work { ceilings: 10, subjects: 3, reasons: true };

    #[test]
    fn two_minutes_measure_three_servers_more_than_once_and_their_latency() {
        let spending = plan(120.0, USUAL);
        assert_eq!(spending.goal, "quick");
        assert!(spending.blocks >= 2 && spending.latency, "{spending:?}");
        assert!(spending.estimate_s <= 120.0 && !spending.over_budget);
    }

    #[test]
    fn more_time_never_gives_less() {
        let mut before = plan(1.0, USUAL);
        for budget_s in (10..4000).step_by(10) {
            let now = plan(f64::from(budget_s), USUAL);
            assert!(now.goal == "default" || now.blocks >= before.blocks, "{before:?} {now:?}");
            assert!(now.over_budget || now.estimate_s <= f64::from(budget_s));
            before = now;
        }
        assert_eq!((before.goal, before.blocks, before.latency), ("default", 10, true));
    }

    #[test]
    fn too_little_time_still_makes_one_block_and_says_so() {
        let spending = plan(1.0, USUAL);
        assert_eq!((spending.blocks, spending.over_budget), (1, true));
    }

    #[test]
    fn without_subjects_only_ceilings_are_paid_for() {
        let spending = plan(120.0, Work { subjects: 0, ..USUAL });
        assert!(!spending.latency);
        assert!(spending.blocks >= 6);
    }

    #[test]
    fn the_clock_drops_what_does_not_fit() {
        let clock = Clock::new(120.0, &plan(120.0, USUAL));
        assert!(clock.fits_block(500.0, 0, 0.0), "the first block is always begun");
        assert!(clock.fits_block(99.0, 2, 40.0) && !clock.fits_block(101.0, 2, 40.0));
        assert!(clock.fits_cell(110.0, true) && !clock.fits_cell(125.0, true));
        assert!(clock.fits_cell(125.0, false) && !clock.fits_cell(134.0, false));
    }

    #[test]
    fn a_study_is_repeated_as_often_as_it_says_or_as_fits() {
        let cells = vec![Cell { load: CellLoad::Closed(0.6), ..Cell::default() }; 10];
        let plan = |budget_s| plan_study(budget_s, 10, "quick", &cells, true);
        assert_eq!((plan(None).blocks, plan(Some(1e6)).blocks), (10, 10));
        assert_eq!((plan(Some(65.0)).blocks, plan(Some(65.0)).over_budget), (3, false));
        assert_eq!((plan(Some(1.0)).blocks, plan(Some(1.0)).over_budget), (1, true));
    }

    #[test]
    fn reasons_are_paid_for_once_a_cell_and_left_out_when_time_is_up() {
        let plan = |reasons| plan(150.0, Work { reasons, ..USUAL });
        assert_eq!(plan(true).blocks, plan(false).blocks);
        let more_s = plan(true).estimate_s - plan(false).estimate_s;
        assert!((more_s - f64::from(USUAL.subjects) * REASONS_S).abs() < 1e-6);
        let clock = Clock::new(120.0, &super::plan(120.0, USUAL));
        assert!(clock.fits_reasons(117.0) && !clock.fits_reasons(118.0));
    }

    #[test]
    fn a_search_that_does_not_end_is_cut() {
        let clock = Clock::new(120.0, &plan(120.0, USUAL));
        assert!(!clock.cuts_search(60.0, 20.0));
        assert!(clock.cuts_search(60.0, 40.0));
        assert!(clock.cuts_search(138.0, 5.0), "a run stays within 15 % of its budget");
    }

    #[test]
    fn a_plan_beyond_the_budget_is_kept() {
        let spending = plan(1.0, USUAL);
        assert!(Clock::new(1.0, &spending).fits_cell(spending.estimate_s - QUICK.first_s, true));
    }
}
