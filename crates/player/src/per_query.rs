//! Changes to each query as it is sent, after it was copied from the dataset. Without a plan for it there is none
//! of this, and a query is only copied.

mod labels;
mod signer;

use crate::plan::PerQueryPlan;
pub(crate) use labels::Labels;
use signer::Signer;

/// Fills in what the dataset left open in each query.
pub(crate) struct PerQuery {
    labels: Option<Labels>,
    signer: Option<Signer>,
}

impl PerQuery {
    /// The changes that a plan asks for; `None` if it asks for none. Random labels depend on `seed`.
    pub(crate) fn new(plan: &PerQueryPlan, seed: u64) -> Option<Box<Self>> {
        let PerQueryPlan { prefix, tsig } = plan;
        if prefix.is_none() && tsig.is_none() {
            return None;
        }
        let labels = prefix.as_ref().map(|prefix| Labels::new(prefix.clone(), seed));
        Some(Box::new(Self { labels, signer: tsig.as_ref().and_then(Signer::new) }))
    }

    /// The labels, by which replies are checked.
    pub(crate) fn labels(&self) -> Option<Labels> {
        self.labels.clone()
    }

    /// Finishes the query that was due at `due_ns` and has this key. It is sent with `id`, whatever its header has by
    /// now.
    pub(crate) fn finish(&self, due_ns: u64, key: u64, id: u16, message: &mut [u8]) {
        if let Some(labels) = &self.labels {
            labels.write(due_ns, key, message);
        }
        if let Some(signer) = &self.signer {
            signer.sign(message, id);
        }
    }
}
