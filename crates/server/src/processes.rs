//! Worker processes: kqps itself, started again, with the sockets of its parent. A child reads its task from
//! standard input, where it does not show in lists of processes. It writes events as lines to standard output: that
//! it can answer, that it has reloaded its zones, and at the end its counts or the reason why there are none. A
//! child dies with its parent.
//!
//! Each process loads the zones for itself. Processes forked after loading would share memory only until the first
//! reload. They would then have to fork again and hand their connections over. If memory is short, one process with
//! many threads is the better choice, since threads share the zones.

mod listeners;
mod message;
mod patience;
mod process;

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::Arc;

use kqps_kernel::process::{Signal, handed_down};
use kqps_kernel::signal::Signals;
use kqps_kernel::{UdpSocket, affinity};

use crate::deadline::{Deadline, Event};
use crate::error::ServeError;
use crate::report::Ended;
use crate::service::{Description, Service, Task};
use crate::services::auth::ZonesLoaded;
use crate::setup::ServerSetup;
use crate::sockets::{Acceptors, Endpoint, ListeningSocket, WorkerSockets};
use listeners::ListenerDescription;
use message::{Message, TaskDescription, WorkerDescription};
use patience::patience_ns;
use process::WorkerProcess;

/// Reads the task of this process, and the service that does it, from standard input.
pub(crate) fn read_task() -> io::Result<(Task, Description)> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let described: TaskDescription = serde_json::from_str(&text)?;
    let open = |number| -> io::Result<_> { Ok(Arc::new(UdpSocket::from_fd(handed_down(number)?)?)) };
    let endpoint = |&(receiver, sender): &(RawFd, RawFd)| -> io::Result<Endpoint> {
        let receiver_socket = open(receiver)?;
        let sender = if sender == receiver { receiver_socket.clone() } else { open(sender)? };
        Ok(Endpoint { receiver: receiver_socket, sender })
    };
    let tls = described.tls.as_ref();
    let acceptors = tls.map(|tls| Acceptors::new(&tls.identity, tls.early_data));
    let acceptors = acceptors.transpose().map_err(io::Error::other)?;
    let listener = |listener: &ListenerDescription| listener.open(acceptors.as_ref());
    let sockets = |worker: &WorkerDescription| -> io::Result<WorkerSockets> {
        let endpoints = worker.endpoints.iter().map(endpoint).collect::<io::Result<_>>()?;
        let listeners = worker.listeners.iter().map(listener).collect::<io::Result<_>>()?;
        Ok(WorkerSockets { cpu: worker.cpu, endpoints, listeners, queue: None })
    };
    let task = Task {
        model: described.io.parse().map_err(io::Error::other)?,
        workers: described.workers.iter().map(sockets).collect::<io::Result<_>>()?,
        listeners: described.listeners.iter().map(listener).collect::<io::Result<_>>()?,
        process: described.process,
        processes: described.processes,
    };
    Ok((task, described.service))
}

/// Reports to the parent that this child can answer, and what it loaded.
pub(crate) fn report_ready(loaded: Option<&ZonesLoaded>) -> io::Result<()> {
    send(&Message::Ready(loaded.cloned()))
}

/// Reports a reload to the parent.
pub(crate) fn report_reloaded(loaded: ZonesLoaded) -> io::Result<()> {
    send(&Message::Reloaded(loaded))
}

/// Reports the counts, or why there are none, to the parent.
pub(crate) fn report_end(outcome: Result<Ended, ServeError>) -> io::Result<()> {
    send(&match outcome {
        Ok(Ended { report, failed }) => {
            Message::Ended(Box::new(report), failed.map(|error| error.to_string()))
        }
        Err(ServeError::Zones(why)) => Message::NoZones(why),
        Err(ServeError::Stopped { signal }) => Message::Stopped(signal),
        Err(error) => Message::Failed(error.to_string()),
    })
}

#[allow(clippy::disallowed_methods)] // a parent that has gone is this child's end
fn send(message: &Message) -> io::Result<()> {
    writeln!(io::stdout(), "{}", serde_json::to_string(message)?)
}

/// All worker processes, as their parent sees them.
pub(crate) struct Processes {
    all: Vec<WorkerProcess>,
    /// The combined result of the first load.
    loaded: Option<ZonesLoaded>,
    /// The time that each process may take to stop, in nanoseconds.
    patience_ns: u64,
}

impl Processes {
    /// Starts all processes. Returns when all can answer, or fails if a signal to end arrives first.
    pub(crate) fn start(
        setup: &ServerSetup,
        service: &dyn Service,
        workers: &[WorkerSockets],
        listeners: &[ListeningSocket],
        signals: &Signals,
    ) -> Result<Self, ServeError> {
        let cores = if setup.cpus.is_empty() { affinity::allowed()?.len() } else { setup.cpus.len() };
        let threads_only =
            || ServeError::Setup("this service has no worker processes: use --threads".to_owned());
        let description = service.for_processes().ok_or_else(threads_only)?;
        let patience_ns = patience_ns(setup, &description, cores);
        let mut processes = Self { all: Vec::new(), loaded: None, patience_ns };
        for (number, workers) in workers.chunks(setup.threads as usize).enumerate() {
            processes.all.push(WorkerProcess::start(setup, &description, number, workers, listeners)?);
        }
        // In order: the first process is the one that reports problems with zones to the user.
        let (mut ready, mut again) = (0, false);
        while let Some(process) = processes.all.get_mut(ready) {
            match Deadline::after(None).wait(signals, &[process.as_raw_fd()])? {
                Event::HangUp if service.reloads() => again = true,
                Event::HangUp => return Err(ServeError::stopped(Signal::HangUp)),
                Event::End(signal) => return Err(ServeError::stopped(signal.unwrap_or(Signal::Terminate))),
                Event::From(_) => match process.hear()? {
                    Some(Message::Ready(loaded)) => {
                        join(&mut processes.loaded, loaded);
                        ready += 1;
                    }
                    _ => return Err(process.out_of_turn()),
                },
            }
        }
        if again {
            processes.reload()?;
        }
        Ok(processes)
    }

    /// Makes all processes reload their zones.
    fn reload(&self) -> io::Result<()> {
        self.all.iter().try_for_each(|process| process.signal(Signal::HangUp))
    }

    /// Waits for a signal, the end of the time, or a message of a process. Messages that were read together with
    /// earlier ones come first.
    fn wait(&self, signals: &Signals, until: Deadline) -> io::Result<Event> {
        let descriptors: Vec<RawFd> = self.all.iter().map(WorkerProcess::as_raw_fd).collect();
        match self.all.iter().position(WorkerProcess::has_said_more) {
            Some(number) => Ok(Event::From(number)),
            None => until.wait(signals, &descriptors),
        }
    }

    /// The combined result of the first load.
    pub(crate) fn loaded(&self) -> Option<&ZonesLoaded> {
        self.loaded.as_ref()
    }

    /// Serves until a signal to end, until the time is over, or until a process has ended, since a signal may reach
    /// all of them. Calls `reloaded` after every reload. Then stops all processes and adds up their counts.
    pub(crate) fn serve(
        &mut self,
        signals: &Signals,
        until: Deadline,
        reloaded: &mut dyn FnMut(ZonesLoaded),
    ) -> Ended {
        let waited = self.wait_for_the_end(signals, until, reloaded);
        self.stop().after(waited)
    }

    fn wait_for_the_end(
        &mut self,
        signals: &Signals,
        until: Deadline,
        reloaded: &mut dyn FnMut(ZonesLoaded),
    ) -> Result<(), ServeError> {
        loop {
            match self.wait(signals, until)? {
                Event::HangUp if self.loaded.is_some() => self.reload()?,
                Event::From(number) => {
                    let process = &mut self.all[number];
                    match process.hear()? {
                        Some(Message::Reloaded(loaded)) => process.reloaded = Some(loaded),
                        Some(_) => return Err(process.out_of_turn()),
                        None => return Ok(()),
                    }
                    self.all_reloaded().into_iter().for_each(&mut *reloaded);
                }
                Event::End(_) | Event::HangUp => return Ok(()),
            }
        }
    }

    /// The combined result of a reload, once the last process has finished it.
    fn all_reloaded(&mut self) -> Option<ZonesLoaded> {
        if self.all.iter().any(|process| process.reloaded.is_none()) {
            return None;
        }
        let mut all = None;
        self.all.iter_mut().for_each(|process| join(&mut all, process.reloaded.take()));
        all
    }

    /// Stops all processes and adds up their counts.
    fn stop(&mut self) -> Ended {
        let signalled: io::Result<()> =
            self.all.iter().map(|process| process.signal(Signal::Terminate)).fold(Ok(()), Result::and);
        let mut all = Ended { failed: signalled.err().map(ServeError::from), ..Ended::default() };
        for process in &mut self.all {
            let Ended { report, failed } = process.end(self.patience_ns);
            all.report.add(report);
            all.failed = all.failed.or(failed);
        }
        all
    }
}

/// Adds the result of one process to that of the others.
fn join(all: &mut Option<ZonesLoaded>, loaded: Option<ZonesLoaded>) {
    match (all, loaded) {
        (Some(all), Some(loaded)) => all.add(&loaded),
        (all, loaded) => *all = all.take().or(loaded),
    }
}
