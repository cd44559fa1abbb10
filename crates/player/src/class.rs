//! A class of clients, which plays beside others in a trial.

use kqps_dataset::Dataset;

use crate::plan::Plan;

/// A class of clients: its plan and its queries.
#[derive(Clone, Copy, Debug)]
pub struct Class<'a> {
    /// How it plays.
    pub plan: &'a Plan,
    /// Its queries.
    pub dataset: &'a Dataset,
}

impl Class<'_> {
    /// Whether one of its threads may run on a core of another class's threads.
    pub(crate) fn may_share_a_core_with(&self, other: &Self) -> bool {
        let (own, others) = (&self.plan.cpus, &other.plan.cpus);
        // Threads without cores of their own run on any.
        own.is_empty() || others.is_empty() || own.iter().any(|cpu| others.contains(cpu))
    }
}
