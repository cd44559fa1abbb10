//! The goal of a stored run: the numbers that were stored, or what its name stands for in runs of older versions,
//! which stored no more.

use kqps_observation::{GoalFacts, Run};

use crate::search::{Goal, Preset};

/// The goal that a run was searched with; none where only its name is known, and that to another version.
pub fn goal_of(run: &Run) -> Option<Goal> {
    match &run.goal_facts {
        Some(facts) => Some(named(&run.goal, facts)),
        None => run.goal.parse().ok().map(Preset::goal),
    }
}

/// What a run keeps of its goal beside the name.
pub fn facts_of(goal: &Goal) -> GoalFacts {
    // Every field by its name, so that none is forgotten.
    let Goal { name: _, final_s, sum_s, loss, exceed, width, min_qps, max_qps, limit_s, p99_us } = *goal;
    GoalFacts { final_s, sum_s, loss, exceed, width, min_qps, max_qps, limit_s, p99_us }
}

fn named(name: &str, facts: &GoalFacts) -> Goal {
    let GoalFacts { final_s, sum_s, loss, exceed, width, min_qps, max_qps, limit_s, p99_us } = *facts;
    Goal { name: name.into(), final_s, sum_s, loss, exceed, width, min_qps, max_qps, limit_s, p99_us }
}
