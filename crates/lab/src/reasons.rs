//! Chooses the trial that is repeated for the kernel's reasons of its drops: once for a cell, the first time
//! that one of its units lost queries. A function of the stored trials, so that a run that was killed neither
//! loses nor repeats it.

use kqps_observation::Run;
use kqps_observation::run::Purpose;
use kqps_observation::trial::LoadMode;
use kqps_verdict::search::{Goal, Probe};

use kqps_testbed::trial_request::{Played, RequestedPace, TrialRequest, counted};

/// The most seconds that a repeated trial sends: reasons show at once, and the other cells wait.
const LONGEST_S: f64 = 1.0;

/// A trial is worth repeating if it lost more than this, and more than one query in [`LOST_SHARE`]. A busy host
/// loses fewer now and then, and would not lose them again.
const LOST_LEAST: u64 = 10;
const LOST_SHARE: u64 = 100_000;

/// The name of the reasons among the parts that a run left out.
pub(crate) const NAME: &str = "drop reasons";

/// Whether this cell already had such a trial, whatever its outcome.
pub(crate) fn are_asked(run: &Run, cell: usize) -> bool {
    run.trials.iter().any(|one| one.cell as usize == cell && one.purpose.is_for_reasons())
}

/// The load of the trial that lost most, for a repetition. A search crosses its bounds on purpose, so of its
/// trials only those at its upper bound count, if it found one.
pub(crate) fn repeated(goal: &Goal, played: &[Played], upper_qps: Option<f64>) -> Option<TrialRequest> {
    let is_of_interest = |one: &&&Played| match (one.purpose, upper_qps) {
        (Purpose::Closed | Purpose::Rate, None) => true,
        (Purpose::Search, Some(bound_qps)) => {
            bound_qps.total_cmp(&Probe::from_trial(&one.trial, goal, one.purpose).load_qps).is_eq()
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

fn again(one: &Played) -> TrialRequest {
    let load = &one.trial.load;
    let pace = match (load.mode, load.intended_qps) {
        (LoadMode::Open, Some(rate_qps)) => RequestedPace::Open { rate_qps },
        _ => RequestedPace::Closed,
    };
    // The measured duration differs a little from the requested one.
    let duration_s = (load.duration_s.min(LONGEST_S) * 1e3).round() / 1e3;
    TrialRequest { pace, duration_s, purpose: Purpose::Reasons { of: one.number } }
}
