//! What the figures of a run leave open, because the run did not look for it.

use kqps_observation::Run;

use crate::judge::RunVerdict;
use crate::steady;

/// Sentences that hold for all figures of a run; none where it has no figure, or is a study's, which says so with its
/// question.
pub fn of_run(run: &Run, verdict: &RunVerdict) -> Vec<String> {
    if run.question.is_some() || verdict.subjects.iter().all(|subject| subject.figure_qps.is_none()) {
        return Vec::new();
    }
    let effect = verdict.comparisons.is_empty().then(|| {
        "No minimum detectable effect is known, since nothing was measured against itself: `kqps compare` does that."
            .to_owned()
    });
    steady::not_looked_for(run).into_iter().chain(effect).collect()
}
