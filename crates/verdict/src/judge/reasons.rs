//! Why the kernel dropped packets of a cell, as counted in a repeated trial. The counts explain losses. They
//! bear on no figure, since the counting disturbed the trial.

use kqps_observation::run::{Purpose, Run, RunTrial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kernel's reasons in one repeated trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DropReasons {
    /// Its number in the run.
    pub trial: u64,
    /// The number of the repeated trial.
    pub repeats: u64,
    /// Queries lost in the repeated trial itself.
    pub lost: u64,
    /// The kernel's name of a reason (`enum skb_drop_reason`), and the number of IP packets dropped for it on
    /// the whole host; the most frequent first.
    pub counts: Vec<(String, u64)>,
    /// Why there are no counts; `None` if there are.
    pub failure: Option<String>,
}

pub(super) fn drop_reasons(run: &Run, cell: usize) -> Option<DropReasons> {
    run.trials.iter().filter(|one| one.cell as usize == cell).find_map(of_trial)
}

fn of_trial(one: &RunTrial) -> Option<DropReasons> {
    let Purpose::Reasons { of } = one.purpose else { return None };
    let reasons = DropReasons { trial: one.number, repeats: of, ..DropReasons::default() };
    let Some(trial) = one.measured() else {
        return Some(DropReasons { failure: one.failure().map(str::to_owned), ..reasons });
    };
    let lost = trial.accounts.lost;
    let Some(counts) = &trial.hosts.first.drop_reasons else {
        let failure = trial.hosts.first.unreadable.get("drop reasons").cloned();
        return Some(DropReasons { lost, failure, ..reasons });
    };
    let mut counts: Vec<(String, u64)> = counts.iter().map(|(name, count)| (name.clone(), *count)).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    Some(DropReasons { lost, counts, ..reasons })
}
