//! The control of a front's workers: starts them, gives them new policies, and collects their counts for status
//! requests.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use kqps_kernel::affinity::pin_thread;
use kqps_kernel::limits::{raise_open_files, reserve_open_files};
use kqps_server::connections::OTHER_FILES;
use kqps_server::error::ServeError;
use kqps_server::model::Model;
use kqps_server::sockets::{ListeningSocket, WorkerSockets};
use kqps_server::worker::StopFlag;
use kqps_server::worker::threads::Started;
use mio::{Poll, Waker};

use super::shared::{Shared, WorkerLink};
use super::status::StatusServers;
use super::token::{Source, token};
use super::worker::FrontWorker;
use super::{FrontSettings, Policy};

/// How long a worker may take to adopt a policy.
const PATIENCE: Duration = Duration::from_secs(5);

/// The workers of a front, as their process sees them.
pub(super) struct FrontControl {
    settings: Arc<FrontSettings>,
    shared: Arc<Shared>,
    wakers: Vec<Waker>,
    /// Each worker reports here whether it has adopted the policy.
    adopted: Receiver<io::Result<()>>,
    adopts: Sender<io::Result<()>>,
    /// Reports counts as long as it lives.
    status: StatusServers,
}

impl FrontControl {
    /// Prepares this number of workers. Call it before starting any other thread.
    pub(super) fn new(settings: FrontSettings, workers: usize) -> Result<Self, ServeError> {
        // The usual limit of open files is lower than that of connections.
        raise_open_files()?;
        // A worker that accepts a connection must not wait while the table of files grows.
        reserve_open_files((workers * files_of_a_worker(&settings)) as u64)?;
        let shared = Arc::<Shared>::default();
        let status = StatusServers::start(&settings, &shared)?;
        let (adopts, adopted) = mpsc::channel();
        let (settings, wakers) = (Arc::new(settings), Vec::new());
        Ok(Self { settings, shared, wakers, adopted, adopts, status })
    }

    /// Starts a worker on its core.
    pub(super) fn start(
        &mut self,
        number: usize,
        model: Model,
        sockets: WorkerSockets,
        listeners: &[ListeningSocket],
        stop: StopFlag,
    ) -> io::Result<Started> {
        let WorkerSockets { cpu, endpoints, listeners: own, .. } = sockets;
        let shared = listeners.iter().map(ListeningSocket::try_clone);
        let listeners = shared.chain(own.into_iter().map(Ok)).collect::<io::Result<_>>()?;
        let poll = Poll::new()?;
        self.wakers.push(Waker::new(poll.registry(), token(Source::Waker, 0, 0))?);
        let (shared, adopts) = (self.shared.clone(), self.adopts.clone());
        let link = WorkerLink::new(shared, number, cpu, adopts, self.status.is_asked());
        let settings = self.settings.clone();
        let thread = std::thread::Builder::new().name(format!("front {number}")).spawn(move || {
            cpu.map_or(Ok(()), pin_thread)?;
            FrontWorker::new(&settings, endpoints, listeners, model, poll, link, stop)?.run()
        })?;
        Ok(Started { cpu, thread })
    }

    /// The address at which Prometheus can read counts.
    pub(super) fn metrics(&self) -> Option<SocketAddr> {
        self.status.metrics
    }

    /// Gives all workers a new policy and waits until they have adopted it. Fails if one of them cannot adopt it;
    /// that worker keeps its old policy.
    pub(super) fn adopt(&self, policy: Policy) -> io::Result<()> {
        // Discards late answers to the previous policy.
        while self.adopted.try_recv().is_ok() {}
        self.shared.offer(policy);
        self.wakers.iter().try_for_each(Waker::wake)?;
        let busy = |_| io::Error::from(ErrorKind::TimedOut);
        let said = self.wakers.iter().map(|_| self.adopted.recv_timeout(PATIENCE).map_err(busy).flatten());
        // Waits for all workers, even after one of them has failed.
        said.fold(Ok(()), Result::and)
    }
}

/// The maximum number of files that a worker has open: connections of clients, links to back ends, and others.
fn files_of_a_worker(settings: &FrontSettings) -> usize {
    let links = settings.policy.back_ends.len() * (settings.connections + settings.sockets);
    settings.limits.connections + links + OTHER_FILES
}
