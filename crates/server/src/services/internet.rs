//! The Internet in a box: one server that answers at the addresses of very many, each with its own zones, delay and
//! faults. The zones and the behaviour are those of a [`Tree`], which knows no socket. A query's answer depends on the
//! address that it was sent to, so this service has a loop of its own beside those that studies compare.

mod book;
mod census;
mod datagrams;
mod lateness;
mod stream;
mod streams;
mod tally;
mod tree;
mod waiting;
mod wheel;

#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;

use kqps_kernel::affinity::pin_thread;
use kqps_kernel::signal::Signals;

use crate::connections::{ConnectionThread, Limits};
use crate::error::ServeError;
use crate::model::Model;
use crate::report::{Counted, Ended};
use crate::service::{RunningService, Service, Task, Transports};
use crate::setup::{Reach, Reply, ServerSetup};
use crate::sockets::{ListeningSocket, WorkerSockets};
use crate::worker::StopFlag;
use crate::worker::threads::{StartConnections, Started, Threads};
use datagrams::DatagramLoop;
use streams::StreamLoop;

pub use book::Book;
pub use tree::{Kind, Level, TcpConduct, Tree, TreeAnswer};

/// The service of a tree of zones.
pub struct InternetService {
    /// The zones and the behaviour of their servers.
    pub tree: Arc<dyn Tree>,
    /// The counts, which others may read meanwhile.
    pub book: Arc<Book>,
    /// How many servers and questions the report names.
    pub top: usize,
    /// The limits of connections by TCP.
    pub limits: Limits,
}

impl Service for InternetService {
    fn transports(&self) -> Transports<'_> {
        Transports { tcp: true, unix: &[] }
    }

    fn replies_pass(&self) -> bool {
        false
    }

    fn reloads(&self) -> bool {
        false
    }

    fn check(&self, setup: &ServerSetup) -> Result<(), ServeError> {
        let fits = setup.processes == 1
            && setup.io == Model::Mmsg
            && setup.reply == Reply::Same
            && setup.reach != Reach::Host
            && setup.listen.iter().all(|listen| listen.address.ip().is_unspecified());
        let why =
            "a tree of zones is served by threads with mmsg, at all addresses that are routed to this host";
        if fits { Ok(()) } else { Err(ServeError::Setup(why.to_owned())) }
    }

    fn begin(self: Box<Self>, task: Task, _: &Signals) -> Result<Box<dyn RunningService>, ServeError> {
        Ok(Box::new(self.start(task)?))
    }
}

impl InternetService {
    /// Starts all threads. Returns when they can answer.
    fn start(self, task: Task) -> Result<RunningInternet, ServeError> {
        let limits = task.limits_of_each(self.limits);
        let Self { tree, book, top, .. } = self;
        let Task { model, workers, listeners, .. } = task;
        let connections = |listeners, cpus, stop| start_streams(listeners, limits, cpus, &tree, &book, stop);
        let connections = Box::new(connections) as StartConnections<'_>;
        let start = |number, sockets, stop| start_datagrams(number, sockets, &tree, &book, stop);
        let threads = Threads::start(model, workers, listeners, start, Some(connections))?;
        Ok(RunningInternet { threads, tree, book, top })
    }
}

/// Starts a thread that serves datagrams, on its core.
fn start_datagrams(
    number: usize,
    sockets: WorkerSockets,
    tree: &Arc<dyn Tree>,
    book: &Arc<Book>,
    mut stop: StopFlag,
) -> io::Result<Started> {
    let WorkerSockets { cpu, endpoints, .. } = sockets;
    let (tree, book) = (tree.clone(), book.clone());
    let thread = std::thread::Builder::new().name(format!("worker {number}")).spawn(move || {
        cpu.map_or(Ok(()), pin_thread)?;
        let datagrams = DatagramLoop::new(endpoints, tree, &book, cpu.is_some());
        let counts = datagrams.serve(&book, &mut stop)?;
        Ok(Counted { counts, ..Counted::default() })
    })?;
    Ok(Started { cpu, thread })
}

/// Starts a thread that serves connections, on these cores; an empty list means any core.
fn start_streams(
    listeners: Vec<ListeningSocket>,
    limits: Limits,
    cpus: Vec<u32>,
    tree: &Arc<dyn Tree>,
    book: &Arc<Book>,
    stop: StopFlag,
) -> io::Result<ConnectionThread> {
    limits.reserve_files()?;
    let (streams, waker) = StreamLoop::new(listeners, limits, tree.clone(), book)?;
    let book = book.clone();
    ConnectionThread::with_loop(waker, cpus, stop, move |stop| streams.serve(&book, stop))
}

struct RunningInternet {
    threads: Threads,
    tree: Arc<dyn Tree>,
    book: Arc<Book>,
    top: usize,
}

impl RunningService for RunningInternet {
    fn threads(&mut self) -> &mut Threads {
        &mut self.threads
    }

    fn stop(&mut self) -> Ended {
        let mut ended = self.threads.stop();
        ended.report.internet = Some(self.book.report(self.tree.faults(), self.top));
        ended
    }
}
