//! Plans how to spend a budget of time: how many blocks, with which preset of the rate search, with or without
//! latency by load. A pure function of the budget and of the work.

mod clock;
pub(crate) mod cost;

use kqps_observation::Cell;

pub use clock::{Clock, Share};
use cost::{CEILING_S, Cost, DEFAULT, QUICK, REASONS_S, RESIDENCE_S, TOGETHER_S};

use crate::profile::PROFILE_S;
use kqps_testbed::materials;

/// The work that a budget must pay for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Cells that have one closed-loop trial in each block.
    pub ceilings: u32,
    /// Cells that have a rate search in each block.
    pub subjects: u32,
    /// How many of the ceilings also have a trial in every round of the searches.
    pub in_rounds: u32,
    /// Whether each subject has a trial that is repeated for the kernel's reasons of its drops.
    pub reasons: bool,
    /// Cells whose subjects are profiled, once.
    pub profiled: u32,
    /// Cells whose residence is measured, once.
    pub stamped: u32,
    /// Number of records in all generated zones together.
    pub records: u64,
    /// Whether trials are played over several hosts, which takes longer.
    pub over_hosts: bool,
}

/// How to spend a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spending {
    /// The name of the rate search's preset.
    pub goal: &'static str,
    /// How many times every cell is started.
    pub blocks: u32,
    /// Whether latency by load is measured, once for each subject.
    pub latency: bool,
    /// Estimated seconds.
    pub estimate_s: f64,
    /// Whether even this takes longer than the budget.
    pub over_budget: bool,
}

/// The choices, the best first: the finer goal, then more starts, with or without latency by load. Fewer than
/// six starts of the finer goal say less than six of the coarser one, because starts differ more than trials
/// do. Two starts with latency say more than three without, but a second start comes before latency.
const CHOICES: [(&Cost, u32, bool); 10] = [
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

/// Trials of latency by load, for each subject.
const LATENCIES: f64 = 4.0;

/// The best way to spend `budget_s` seconds on `work`. It always has at least one block; `over_budget` says if
/// that does not fit.
pub fn plan(budget_s: f64, work: Work) -> Spending {
    let mut candidates = CHOICES
        .iter()
        .map(|&(cost, blocks, latency)| spending(cost, blocks, latency && work.subjects > 0, work));
    candidates
        .find(|spending| spending.estimate_s <= budget_s)
        .unwrap_or_else(|| Spending { over_budget: true, ..spending(&QUICK, 1, false, work) })
}

/// How to spend the time of a study: `repetitions` starts of every cell, or as many as the budget allows, and
/// at least one. If `reasons` is true, every cell that is pushed beyond its limit has a trial repeated for the
/// reasons of its drops. `over_hosts` is whether trials are played over several hosts.
pub fn plan_study(
    budget_s: Option<f64>,
    repetitions: u32,
    goal: &'static str,
    cells: &[Cell],
    reasons: bool,
    over_hosts: bool,
) -> Spending {
    let together_s = |block: u32| -> f64 {
        let each = cells.iter().filter(|_| over_hosts);
        each.map(|cell| cost::together_s(cell, goal, block)).sum()
    };
    let of_block = |block: u32| cost::block_s(cells, goal, block) + together_s(block);
    // Measurements that are made only once are in the first block.
    let block_s = of_block(1);
    let reasons_s = if reasons { cost::reasons_s(cells) } else { 0.0 };
    let once_s = cost::setup_s(materials::records_of(cells)) + reasons_s + of_block(0) - block_s;
    let fits = |budget_s: f64| {
        let blocks = ((budget_s - once_s) / block_s).floor().max(1.0);
        u32::try_from(blocks as u64).unwrap_or(u32::MAX)
    };
    let blocks = budget_s.map_or(repetitions, |budget_s| repetitions.min(fits(budget_s)));
    let unhurried_s = match budget_s {
        Some(_) => 0.0,
        None => (0..blocks).map(|block| cost::unhurried_s(cells, goal, block)).sum(),
    };
    let estimate_s = once_s + block_s * f64::from(blocks) + unhurried_s;
    let over_budget = budget_s.is_some_and(|budget_s| estimate_s > budget_s);
    Spending { goal, blocks, latency: false, estimate_s, over_budget }
}

fn spending(cost: &Cost, blocks: u32, latency: bool, work: Work) -> Spending {
    let subjects = f64::from(work.subjects);
    let more_s = if work.over_hosts { TOGETHER_S } else { 0.0 };
    let rounds_s = cost.rounds_s + cost::trials_of_rounds(cost.rounds_s) * more_s;
    let ceilings_s = f64::from(work.ceilings) * (CEILING_S + more_s) + f64::from(work.in_rounds) * rounds_s;
    let search_s = |seconds: f64| seconds + (1.0 + cost::trials_of_search(cost.goal, seconds)) * more_s;
    let first = ceilings_s + subjects * search_s(cost.first_s);
    let later = ceilings_s + subjects * search_s(cost.later_s);
    let latency_s = if latency { cost.latency_s + LATENCIES * more_s } else { 0.0 };
    let reasons_s = if work.reasons { REASONS_S } else { 0.0 };
    let once_s = f64::from(work.profiled) * PROFILE_S + f64::from(work.stamped) * (RESIDENCE_S + more_s);
    let extras = subjects * (latency_s + reasons_s) + once_s;
    let estimate_s = cost::setup_s(work.records) + first + later * f64::from(blocks - 1) + extras;
    Spending { goal: cost.goal, blocks, latency, estimate_s, over_budget: false }
}

#[cfg(test)]
mod tests {
    use kqps_observation::CellLoad;

    use super::*;

    const USUAL: Work = Work {
        ceilings: 10,
        subjects: 3,
        in_rounds: 2,
        reasons: true,
        profiled: 0,
        stamped: 0,
        records: 100_000,
        over_hosts: false,
    };

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
        let spending = plan(120.0, Work { subjects: 0, in_rounds: 0, ..USUAL });
        assert!(!spending.latency);
        assert!(spending.blocks >= 6);
    }

    #[test]
    fn a_study_is_repeated_as_often_as_it_says_or_as_fits() {
        let cells = vec![Cell { load: CellLoad::Closed(0.6), ..Cell::default() }; 10];
        let plan = |budget_s| plan_study(budget_s, 10, "quick", &cells, true, false);
        assert_eq!((plan(None).blocks, plan(Some(1e6)).blocks), (10, 10));
        assert_eq!((plan(Some(65.0)).blocks, plan(Some(65.0)).over_budget), (3, false));
        assert_eq!((plan(Some(1.0)).blocks, plan(Some(1.0)).over_budget), (1, true));
    }

    #[test]
    fn searches_without_a_budget_may_take_longer() {
        let cells = vec![Cell::default(); 10];
        let estimate_s = |budget_s| plan_study(budget_s, 2, "quick", &cells, false, false).estimate_s;
        let searches_s = 10.0 * (QUICK.first_s + QUICK.later_s);
        assert!((estimate_s(None) - estimate_s(Some(1e6)) - 0.6 * searches_s).abs() < 1e-6);
    }

    #[test]
    fn the_start_of_each_trial_over_hosts_is_paid_for() {
        let estimate_s =
            |over_hosts| plan(1.0, Work { subjects: 0, in_rounds: 0, over_hosts, ..USUAL }).estimate_s;
        assert!((estimate_s(true) - estimate_s(false) - 10.0 * TOGETHER_S).abs() < 1e-9);
        let searched_s = |over_hosts| plan(1.0, Work { over_hosts, ..USUAL }).estimate_s;
        assert!(searched_s(true) > searched_s(false) + 15.0, "searches and rounds have many trials");
        let cells = vec![Cell { load: CellLoad::Closed(0.6), ..Cell::default() }; 10];
        let study_s = |over_hosts| plan_study(None, 10, "quick", &cells, true, over_hosts).estimate_s;
        // Ten starts of ten cells, each with a warm-up and a trial.
        assert!((study_s(true) - study_s(false) - 200.0 * TOGETHER_S).abs() < 1e-6);
    }

    #[test]
    fn large_zones_are_paid_for() {
        let least_s = |records| plan(1.0, Work { records, ..USUAL }).estimate_s;
        assert!(least_s(10_000_000) > least_s(100_000) + 10.0);
    }

    #[test]
    fn residence_is_paid_for_once_a_cell() {
        let least_s = |stamped| plan(1.0, Work { stamped, over_hosts: true, ..USUAL }).estimate_s;
        assert!((least_s(3) - least_s(0) - 3.0 * (RESIDENCE_S + TOGETHER_S)).abs() < 1e-6);
    }

    #[test]
    fn reasons_are_paid_for_once_a_cell() {
        let plan = |reasons| plan(150.0, Work { reasons, ..USUAL });
        assert_eq!(plan(true).blocks, plan(false).blocks);
        let more_s = plan(true).estimate_s - plan(false).estimate_s;
        assert!((more_s - f64::from(USUAL.subjects) * REASONS_S).abs() < 1e-6);
    }
}
