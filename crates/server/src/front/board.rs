//! What stands between the workers of a front and whoever runs it: starts them, hands them another policy, and keeps
//! what they count where it can be asked for.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kqps_kernel::affinity::pin_thread;
use kqps_kernel::limits::{raise_open_files, reserve_open_files};
use mio::{Poll, Waker};

use super::status::Telling;
use super::token::{Source, token};
use super::turn::Front;
use super::{Policy, Settings};
use crate::io::Model;
use crate::report::Report;
use crate::serve::ServeError;
use crate::sockets::ListeningSocket;
use crate::tcp::OTHER_FILES;
use crate::threads::Assigned;
use crate::worker::{Counted, Going, Started};

/// How long a worker may take to go by another policy.
const PATIENCE: Duration = Duration::from_secs(5);

/// The front as its process has it.
pub(crate) struct Board {
    settings: Arc<Settings>,
    shared: Arc<Shared>,
    wakers: Vec<Waker>,
    /// Each worker says here whether it goes by the policy that it was handed.
    adopted: Receiver<io::Result<()>>,
    adopts: Sender<io::Result<()>>,
    /// Tells counts as long as it is kept.
    telling: Telling,
}

/// What workers and others both look at.
#[derive(Default)]
pub(super) struct Shared {
    /// The policy that was loaded last, and how many were.
    policy: Mutex<Option<Arc<Policy>>>,
    policies: AtomicU64,
    /// What each worker counted when it last said so.
    told: Mutex<Vec<Report>>,
}

/// A worker's end of it.
pub(super) struct Notice {
    shared: Arc<Shared>,
    number: usize,
    cpu: Option<u32>,
    policies: u64,
    adopts: Sender<io::Result<()>>,
    /// Whether anybody could ask for counts.
    is_asked: bool,
}

impl Board {
    /// A board for so many workers. To be made before any other thread is started.
    pub(crate) fn new(settings: Settings, workers: usize) -> Result<Self, ServeError> {
        // The usual limit of open files is lower than that of connections.
        raise_open_files()?;
        // A worker that takes a connection has no time to wait until there is room for it.
        reserve_open_files((workers * files_of_a_worker(&settings)) as u64)?;
        let shared = Arc::<Shared>::default();
        let telling = Telling::start(&settings, &shared)?;
        let (adopts, adopted) = mpsc::channel();
        let (settings, wakers) = (Arc::new(settings), Vec::new());
        Ok(Self { settings, shared, wakers, adopted, adopts, telling })
    }

    /// Starts a worker.
    pub(crate) fn start(
        &mut self,
        number: usize,
        model: Model,
        assigned: Assigned,
        listeners: &[ListeningSocket],
        going: Going,
    ) -> io::Result<Started> {
        let Assigned { cpu, endpoints } = assigned;
        let listeners = listeners.iter().map(ListeningSocket::try_clone).collect::<io::Result<_>>()?;
        let poll = Poll::new()?;
        self.wakers.push(Waker::new(poll.registry(), token(Source::Waker, 0, 0))?);
        let (shared, adopts) = (self.shared.clone(), self.adopts.clone());
        let is_asked = self.telling.is_asked();
        let notice = Notice { shared, number, cpu, policies: 0, adopts, is_asked };
        let settings = self.settings.clone();
        let thread = std::thread::Builder::new().name(format!("front {number}")).spawn(move || {
            cpu.map_or(Ok(()), pin_thread)?;
            Front::new(&settings, endpoints, listeners, model, poll, notice, going)?.run()
        })?;
        Ok(Started { cpu, thread })
    }

    /// Where counts are told to Prometheus.
    pub(crate) fn metrics(&self) -> Option<SocketAddr> {
        self.telling.metrics
    }

    /// Hands all workers another policy, and waits until they go by it. The error is that one of them cannot, and goes
    /// on by what it had.
    pub(crate) fn adopt(&self, policy: Policy) -> io::Result<()> {
        // What one of them said too late the last time.
        while self.adopted.try_recv().is_ok() {}
        *self.shared.policy.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(policy));
        self.shared.policies.fetch_add(1, Ordering::Release);
        self.wakers.iter().try_for_each(Waker::wake)?;
        let busy = |_| io::Error::from(ErrorKind::TimedOut);
        let said = self.wakers.iter().map(|_| self.adopted.recv_timeout(PATIENCE).map_err(busy).flatten());
        // All are waited for, also after one that cannot.
        said.fold(Ok(()), Result::and)
    }
}

/// Files that a worker has open at most: connections of clients, links to back ends, and others.
fn files_of_a_worker(settings: &Settings) -> usize {
    let links = settings.policy.back_ends.len() * (settings.connections + settings.sockets);
    settings.limits.connections + links + OTHER_FILES
}

impl Shared {
    /// What all workers counted when they last said so.
    pub(super) fn report(&self) -> Report {
        let mut report = Report::default();
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.iter().for_each(|worker| report.add(worker.clone()));
        report
    }
}

impl Notice {
    /// The policy to go by from now on, if there is another one.
    pub(super) fn policy(&mut self) -> Option<Arc<Policy>> {
        let policies = self.shared.policies.load(Ordering::Acquire);
        if policies == self.policies {
            return None;
        }
        self.policies = policies;
        self.shared.policy.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says whether it goes by the policy that it was handed.
    pub(super) fn adopted(&self, outcome: io::Result<()>) {
        // Nobody listens any more when everything is being stopped.
        let _ = self.adopts.send(outcome);
    }

    /// Keeps what was counted, where anybody could ask for it.
    pub(super) fn tell(&self, counted: impl FnOnce() -> Counted) {
        if !self.is_asked {
            return;
        }
        let mut report = Report::default();
        report.add_worker(self.cpu, counted());
        let mut told = self.shared.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() <= self.number {
            told.resize(self.number + 1, Report::default());
        }
        told[self.number] = report;
    }
}
