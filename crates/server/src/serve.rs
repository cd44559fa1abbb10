//! A server from its first socket to its last count: binds, starts the workers as threads or as processes,
//! says when it can answer, waits for its end, and adds up what the workers counted.

use std::io::{self, PipeReader, Read as _};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kqps_kernel::UdpSocket;
use kqps_kernel::clock::now_ns;
use kqps_kernel::poll::{FOREVER_NS, PollSet};
use kqps_kernel::signal::EndSignals;

use crate::answer::Answer;
use crate::echo::Echo;
use crate::family::{self, Child, Family};
use crate::io::Model;
use crate::report::Report;
use crate::setup::{Setup, Sockets};
use crate::sockets::{self, BindError, Endpoint};
use crate::worker::{self, Started};

/// Why a server could not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The settings contradict each other.
    #[error("{0}")]
    Setup(String),
    /// This host does not offer the I/O model.
    #[error("--io {model} does not work on this host: {reason}")]
    Unavailable {
        /// The model.
        model: &'static str,
        /// What is missing.
        reason: String,
    },
    /// An address could not be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A worker could not start or go on.
    #[error("worker {worker} ({model}): {error}")]
    Worker {
        /// Its number.
        worker: usize,
        /// Its I/O model.
        model: &'static str,
        /// What happened.
        error: io::Error,
    },
    /// A worker process ended by itself, or did not end.
    #[error("worker process {process} {how}")]
    Process {
        /// Its number.
        process: usize,
        /// What happened.
        how: String,
    },
    /// Something else that the system refused.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A server that can answer.
pub struct Server {
    addresses: Vec<SocketAddr>,
    receivers: Vec<Arc<UdpSocket>>,
    signals: EndSignals,
    workers: Workers,
}

enum Workers {
    Threads(Threads),
    Processes(Family),
}

impl Server {
    /// Binds all sockets, starts the workers, and returns when all of them can answer. Takes the signals that
    /// end a program, so it is to be called before other threads are started.
    pub fn start(setup: &Setup) -> Result<Self, ServeError> {
        check(setup)?;
        let signals = EndSignals::take()?;
        let bound = sockets::bind(setup)?;
        let assigned: Vec<Assigned> = bound
            .workers
            .into_iter()
            .zip(0..)
            .map(|(endpoints, number)| Assigned { cpu: setup.cpu(number), endpoints })
            .collect();
        let workers = if setup.processes == 1 {
            let echo = Echo { work_ns: setup.work_ns };
            Workers::Threads(Threads::start(setup.io, assigned, &echo, &bound.receivers)?)
        } else {
            Workers::Processes(Family::start(setup, &assigned)?)
        };
        Ok(Self { addresses: bound.addresses, receivers: bound.receivers, signals, workers })
    }

    /// The addresses listened on.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Serves until a signal comes or the time is over, and returns the counts of all workers.
    pub fn run(mut self, time: Option<Duration>) -> Result<Report, ServeError> {
        let mut report = match &mut self.workers {
            Workers::Threads(threads) => {
                wait(&self.signals, &[threads.news.as_raw_fd()], time)?;
                threads.stop()?
            }
            Workers::Processes(family) => match wait(&self.signals, &family.descriptors(), time)? {
                Some(process) => return Err(family.ended(process)?),
                None => family.stop()?,
            },
        };
        for receiver in &self.receivers {
            report.socket_drops += receiver.drops()?;
        }
        Ok(report)
    }
}

/// Waits until a signal comes or the time is over: none. Before that, the place of a worker's descriptor that
/// can be read: it has ended by itself.
fn wait(signals: &EndSignals, workers: &[RawFd], time: Option<Duration>) -> io::Result<Option<usize>> {
    let signals = signals.as_raw_fd();
    let mut set = PollSet::new(std::iter::once(&signals).chain(workers));
    let end_ns = time.map(|time| now_ns() + time.as_nanos() as u64);
    loop {
        let left_ns = end_ns.map_or(FOREVER_NS, |end_ns| end_ns.saturating_sub(now_ns()));
        if set.wait(left_ns)? && !set.is_ready(0) {
            return Ok((0..workers.len()).find(|index| set.is_ready(index + 1)));
        }
        if left_ns == 0 || set.is_ready(0) {
            return Ok(None);
        }
    }
}

/// What one worker is given.
pub(crate) struct Assigned {
    pub(crate) cpu: Option<u32>,
    pub(crate) endpoints: Vec<Endpoint>,
}

/// Settings that the types allow and that cannot work.
fn check(setup: &Setup) -> Result<(), ServeError> {
    let model = setup.io.name();
    setup.io.available().map_err(|reason| ServeError::Unavailable { model, reason })?;
    if setup.listen.len() > 1 && !setup.io.serves_many() {
        let why = format!("--io {model} waits on one socket and cannot serve several --listen addresses");
        return Err(ServeError::Setup(why));
    }
    if setup.steer && setup.sockets != Sockets::ReusePort {
        return Err(ServeError::Setup("--steer needs --sockets reuseport".to_owned()));
    }
    Ok(())
}

/// The worker threads of this process.
pub(crate) struct Threads {
    model: Model,
    stop: Arc<AtomicBool>,
    started: Vec<Started>,
    receivers: Vec<Arc<UdpSocket>>,
    /// A byte from each worker when it can answer, and one when it has ended.
    news: PipeReader,
}

impl Threads {
    /// Starts a thread for every worker, and returns when all can answer.
    pub(crate) fn start<A: Answer + Clone + Send + 'static>(
        model: Model,
        assigned: Vec<Assigned>,
        answer: &A,
        receivers: &[Arc<UdpSocket>],
    ) -> Result<Self, ServeError> {
        let (news, tell) = io::pipe()?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Self { model, stop, started: Vec::new(), receivers: receivers.to_vec(), news };
        for (number, Assigned { cpu, endpoints }) in assigned.into_iter().enumerate() {
            let (stop, tell) = (threads.stop.clone(), tell.try_clone()?);
            let started = worker::start(number, model, cpu, endpoints, answer.clone(), stop, tell)?;
            threads.started.push(started);
        }
        let mut ready = vec![0; threads.started.len()];
        threads.news.read_exact(&mut ready)?;
        if ready.contains(&b'e') {
            // One has ended instead: stopping tells why.
            threads.stop()?;
        }
        Ok(threads)
    }

    /// Stops all workers and adds up their counts, or says why one of them had ended before.
    pub(crate) fn stop(&mut self) -> Result<Report, ServeError> {
        self.stop.store(true, Ordering::Relaxed);
        self.receivers.iter().for_each(|receiver| receiver.wake_readers());
        let mut report = Report::default();
        let mut failed = None;
        for (number, Started { cpu, thread }) in self.started.drain(..).enumerate() {
            let outcome = thread.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")));
            match outcome {
                Ok(counts) => report.add_worker(cpu, &counts),
                Err(error) => failed = failed.or(Some((number, error))),
            }
        }
        match failed {
            None => Ok(report),
            Some((worker, error)) => Err(ServeError::Worker { worker, model: self.model.name(), error }),
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Stopped already, unless starting the rest of them failed.
        let _ = self.stop();
    }
}

/// Serves as a worker process, from the description that the parent wrote, and tells the parent what was
/// counted, or what went wrong. An error means that the parent cannot be told.
pub fn run_as_child(description: &str) -> io::Result<()> {
    family::tell_end(count_as_child(description))
}

fn count_as_child(description: &str) -> Result<Report, ServeError> {
    let signals = EndSignals::take()?;
    let child = Child::read(description)?;
    let receivers = child.receivers();
    let echo = Echo { work_ns: child.work_ns };
    let mut threads = Threads::start(child.io, child.assigned, &echo, &receivers)?;
    family::tell_ready()?;
    wait(&signals, &[threads.news.as_raw_fd()], None)?;
    threads.stop()
}
