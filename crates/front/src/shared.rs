//! State that the workers of a front and its other threads share: the policy that was loaded last, and the workers'
//! counts.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use kqps_server::report::{Counted, Report};

use super::Policy;
use super::status::Reports;

/// State that the workers and the other threads share.
#[derive(Default)]
pub(super) struct Shared {
    /// The policy that was loaded last, and how many were loaded.
    policy: Mutex<Option<Arc<Policy>>>,
    policies: AtomicU64,
    /// The counts of each worker at its last report.
    reports: Mutex<Vec<Report>>,
}

impl Shared {
    /// Offers the workers a policy. They take it when they are woken.
    pub(super) fn offer(&self, policy: Policy) {
        *self.policy.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(policy));
        self.policies.fetch_add(1, Ordering::Release);
    }
}

impl Reports for Shared {
    fn report(&self) -> Report {
        let mut report = Report::default();
        let reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        reports.iter().for_each(|worker| report.add(worker.clone()));
        report
    }
}

/// A worker's access to what it shares with the other threads.
pub(super) struct WorkerLink {
    shared: Arc<Shared>,
    number: usize,
    cpu: Option<u32>,
    /// The number of policies at the last look.
    policies: u64,
    /// Receives whether the worker has adopted a policy.
    adopts: Sender<io::Result<()>>,
    /// Whether counts can be requested at all.
    is_asked: bool,
}

impl WorkerLink {
    /// The link of the worker with this number, which is pinned to `cpu`. `is_asked` says whether counts can be
    /// requested at all.
    pub(super) fn new(
        shared: Arc<Shared>,
        number: usize,
        cpu: Option<u32>,
        adopts: Sender<io::Result<()>>,
        is_asked: bool,
    ) -> Self {
        Self { shared, number, cpu, policies: 0, adopts, is_asked }
    }

    /// The new policy, if there is one.
    pub(super) fn policy(&mut self) -> Option<Arc<Policy>> {
        let policies = self.shared.policies.load(Ordering::Acquire);
        if policies == self.policies {
            return None;
        }
        self.policies = policies;
        self.shared.policy.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reports whether the worker has adopted the policy.
    pub(super) fn adopted(&self, outcome: io::Result<()>) {
        // While everything stops, nothing receives this.
        let _ = self.adopts.send(outcome);
    }

    /// Stores the worker's counts, if they can be requested.
    pub(super) fn store(&self, counted: impl FnOnce() -> Counted) {
        if !self.is_asked {
            return;
        }
        let mut report = Report::default();
        report.add_worker(self.cpu, counted());
        let mut reports = self.shared.reports.lock().unwrap_or_else(PoisonError::into_inner);
        if reports.len() <= self.number {
            reports.resize(self.number + 1, Report::default());
        }
        reports[self.number] = report;
    }
}
