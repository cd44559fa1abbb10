//! The caveats of a run's figures: what the run did not examine.

use kqps_observation::Run;
use kqps_observation::run::Purpose;

use crate::judge::RunVerdict;
use crate::steady;

/// Sentences that hold for all figures of a run; empty if it has no figure. A study reports a missing steady
/// state with its question, so it is left out here.
pub fn of_run(run: &Run, verdict: &RunVerdict) -> Vec<String> {
    if verdict.subjects.iter().all(|subject| subject.figure_qps.is_none()) {
        return Vec::new();
    }
    if run.question.is_some() {
        return canary(run).into_iter().collect();
    }
    let effect = verdict.comparisons.is_empty().then(|| {
        "No minimum detectable effect is known, since nothing was measured against itself: `kqps compare` does that."
            .to_owned()
    });
    steady::not_looked_for(run).into_iter().chain(canary(run)).chain(effect).collect()
}

/// The sentence about a run without a canary.
fn canary(run: &Run) -> Option<String> {
    let was_played = run.trials.iter().any(|one| one.purpose == Purpose::Canary && one.measured().is_some());
    (!was_played).then(|| "No canary was played: a host that changed during the run may not show.".into())
}
