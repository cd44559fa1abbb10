//! The work of a server on queries, apart from how it receives them.

use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::path::PathBuf;

use kqps_kernel::signal::Signals;
use serde::{Deserialize, Serialize};

use crate::connections::Limits;
use crate::error::ServeError;
use crate::model::Model;
use crate::report::Ended;
use crate::services::auth::{AuthSettings, ZonesLoaded};
use crate::setup::ServerSetup;
use crate::sockets::{ListeningSocket, WorkerSockets};
use crate::worker::threads::Threads;

/// A service: it says what its server needs, and starts the threads of one process. Every function is called a few
/// times in the life of a server, and none for a query.
pub trait Service {
    /// How queries arrive besides datagrams.
    fn transports(&self) -> Transports<'_>;

    /// Whether replies pass links without fragmentation, because no reply is longer than its query, or than a size that
    /// nearly every link takes. If so, the server forbids the kernel to fragment them.
    fn replies_pass(&self) -> bool;

    /// Whether SIGHUP reloads something. If not, it ends the server.
    fn reloads(&self) -> bool;

    /// Returns an error if the service cannot work with these settings.
    fn check(&self, setup: &ServerSetup) -> Result<(), ServeError> {
        let _ = setup;
        Ok(())
    }

    /// A sentence for each setting of the service that the system does not grant in full.
    fn notes(&self) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// The service for worker processes; `None` if it has threads only.
    fn for_processes(&self) -> Option<Description> {
        None
    }

    /// Starts all threads of one process. Returns when they can answer. A signal to end interrupts loading.
    fn begin(self: Box<Self>, task: Task, signals: &Signals) -> Result<Box<dyn RunningService>, ServeError>;
}

/// The ways by which queries arrive, besides datagrams and the addresses for connections alone that its setup may have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Transports<'a> {
    /// Whether the service accepts TCP connections at the addresses of its UDP sockets.
    pub tcp: bool,
    /// The paths of the Unix sockets at which it accepts connections.
    pub unix: &'a [PathBuf],
}

/// The part of a server that one process has.
pub struct Task {
    /// The I/O model of all workers.
    pub model: Model,
    /// The sockets of each worker.
    pub workers: Vec<WorkerSockets>,
    /// The sockets that accept connections and that no worker has alone; empty if there are none.
    pub listeners: Vec<ListeningSocket>,
    /// The number of this process, from 0.
    pub process: usize,
    /// The number of processes.
    pub processes: usize,
}

impl Task {
    /// The limits of each thread that serves connections, if all of them together have these limits. That of the
    /// connections of one client stays the same.
    pub fn limits_of_each(&self, limits: Limits) -> Limits {
        let sets = self.workers.iter().map(|worker| &worker.listeners).chain([&self.listeners]);
        let has = |set: &[ListeningSocket], apart| set.iter().any(|one| one.needs_own_thread() == apart);
        let threads: usize = sets.map(|set| usize::from(has(set, true)) + usize::from(has(set, false))).sum();
        Limits { connections: limits.connections.div_ceil(threads.max(1)), ..limits }
    }
}

/// A service in words, for worker processes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Description {
    /// Returns queries as their own replies.
    Echo {
        /// The CPU time to spend on each query, in nanoseconds.
        work_ns: u64,
        /// Rounds of arithmetic for each query.
        rounds: u64,
        /// The time for which each query holds a lock of all threads, in nanoseconds; 0 for no lock.
        #[serde(default)]
        lock_ns: u64,
        /// The limits of connections; `None` if it accepts none.
        connections: Option<Limits>,
    },
    /// Answers from zones.
    Auth(AuthSettings),
}

/// The running threads of a service in one process.
pub trait RunningService {
    /// The threads.
    fn threads(&mut self) -> &mut Threads;

    /// Stops all threads and adds up their counts. Returns why a thread had ended before, if one had.
    fn stop(&mut self) -> Ended {
        self.threads().stop()
    }

    /// The result of the first load of zones; `None` for a service without zones.
    fn loaded(&self) -> Option<&ZonesLoaded> {
        None
    }

    /// The address at which Prometheus can read counts.
    fn metrics(&self) -> Option<SocketAddr> {
        None
    }

    /// Handles SIGHUP.
    fn hang_up(&mut self) -> Result<AfterHangUp, ServeError> {
        Ok(AfterHangUp::End)
    }

    /// The descriptor that becomes readable when a reload has ended, or a thread that is not among [`Self::threads`].
    fn news(&self) -> Option<RawFd> {
        None
    }

    /// Takes the outcome of a reload; `None` if nothing changed. An error ends the server. Call it when [`Self::news`]
    /// is readable.
    fn reloaded(&mut self) -> Result<Option<ZonesLoaded>, ServeError> {
        Ok(None)
    }
}

/// The effect of SIGHUP on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterHangUp {
    /// It serves on.
    GoOn,
    /// It ends.
    End,
}

/// Threads that share nothing.
impl RunningService for Threads {
    fn threads(&mut self) -> &mut Threads {
        self
    }
}
