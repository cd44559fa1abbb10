//! Limits of `--time-limit`: long enough to verify a load, and at most a day.

use std::time::Duration;

use kqps_verdict::search::Goal;

use crate::exit::bad_input;

const MOST: Duration = Duration::from_hours(24);

/// The limit in seconds. An error if it is longer than [`MOST`], or too short for the goal.
pub(super) fn checked(limit: Duration, goal: &Goal) -> anyhow::Result<f64> {
    let (given_s, least_s) = (limit.as_secs_f64(), goal.least_s());
    if given_s < least_s {
        return Err(bad_input(format!(
            "--time-limit {given_s}s: the goal {} takes {least_s} s at least to make sure of a load (a trial to begin \
             with, trials of {} s, and one more at the end); give it more time, or take a quicker --goal",
            goal.name, goal.final_s
        )));
    }
    if limit > MOST {
        return Err(bad_input(format!("--time-limit {given_s}s: expected a day (24h) at most")));
    }
    Ok(given_s)
}
