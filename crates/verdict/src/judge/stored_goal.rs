//! The goal of a stored run: the stored numbers or, in runs of older versions that stored only a name, the goal
//! with this name.

use kqps_observation::{GoalFacts, Run};

use crate::search::{Goal, Preset};

/// The goal that a run was searched with; `None` if the run holds only a name that this version does not know.
pub fn goal_of(run: &Run) -> Option<Goal> {
    match &run.goal_facts {
        Some(facts) => Some(named(&run.goal, facts)),
        None => run.goal.parse().ok().map(Preset::goal),
    }
}

/// The numbers that a run stores of its goal beside the name.
pub fn facts_of(goal: &Goal) -> GoalFacts {
    // Naming every field makes the compiler report a forgotten one.
    let Goal { name: _, final_s, sum_s, loss, exceed, width, min_qps, max_qps, limit_s, p99_us } = *goal;
    GoalFacts { final_s, sum_s, loss, exceed, width, min_qps, max_qps, limit_s, p99_us }
}

fn named(name: &str, facts: &GoalFacts) -> Goal {
    let GoalFacts { final_s, sum_s, loss, exceed, width, min_qps, max_qps, limit_s, p99_us } = *facts;
    Goal { name: name.into(), final_s, sum_s, loss, exceed, width, min_qps, max_qps, limit_s, p99_us }
}
