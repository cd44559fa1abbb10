//! Which trial is repeated to learn the kernel's reasons for its drops: once for a cell, the first time that one of
//! its units lost queries. A function of the stored trials, so that a run that was killed neither loses nor doubles
//! it.

use kqps_observation::Run;
use kqps_observation::run::Purpose;
use kqps_observation::trial::LoadMode;
use kqps_verdict::search::{Goal, Probe};

use crate::load::{Load, Pace, Played, counted};

/// Seconds that a repeated trial sends at most: reasons show at once, and all the rest waits.
const LONGEST_S: f64 = 1.0;

/// A trial that lost more than this, and more than one in [`LOST_SHARE`], is worth repeating: what a busy host
/// loses now and then would not be lost again.
const LOST_LEAST: u64 = 10;
const LOST_SHARE: u64 = 100_000;

/// What a run calls the reasons among what it left out.
pub(crate) const NAME: &str = "drop reasons";

/// Whether they were asked for in this cell, whatever came of it.
pub(crate) fn are_asked(run: &Run, cell: usize) -> bool {
    run.trials.iter().any(|one| one.cell as usize == cell && one.purpose.is_for_reasons())
}

/// The load of the trial that lost most, once more. A search crosses its bounds on purpose, so of that only the
/// load of its upper bound is of interest, where it found one.
pub(crate) fn repeated(goal: &Goal, played: &[Played], upper_qps: Option<f64>) -> Option<Load> {
    let is_of_interest = |one: &&&Played| match (one.purpose, upper_qps) {
        (Purpose::Closed | Purpose::Rate, None) => true,
        (Purpose::Search, Some(bound_qps)) => {
            bound_qps.total_cmp(&Probe::of(&one.trial, goal, one.purpose).load_qps).is_eq()
        }
        _ => false,
    };
    let counted = counted(played);
    let lossy = counted.iter().filter(is_of_interest).filter(|one| is_lossy(one));
    lossy.max_by_key(|one| one.trial.accounts.lost).map(|one| again(one))
}

fn is_lossy(one: &Played) -> bool {
    let accounts = &one.trial.accounts;
    accounts.lost > LOST_LEAST.max(accounts.sent / LOST_SHARE)
}

fn again(one: &Played) -> Load {
    let load = &one.trial.load;
    let pace = match (load.mode, load.intended_qps) {
        (LoadMode::Open, Some(rate_qps)) => Pace::Open { rate_qps },
        _ => Pace::Closed,
    };
    // What was measured is a little off what was asked for.
    let duration_s = (load.duration_s.min(LONGEST_S) * 1e3).round() / 1e3;
    Load { pace, duration_s, purpose: Purpose::Reasons { of: one.number } }
}
