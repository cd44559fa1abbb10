//! Worker processes: kqps itself, started again, with the sockets of its parent. A child reads its task from
//! standard input, where it does not show in lists of processes. It writes events as lines to standard output: that
//! it can answer, that it has reloaded its zones, and at the end its counts or the reason why there are none. A
//! child dies with its parent.
//!
//! Each process loads the zones for itself. Processes forked after loading would share memory only until the first
//! reload. They would then have to fork again and hand their connections over. If memory is short, one process with
//! many threads is the better choice, since threads share the zones.

mod message;
mod patience;
mod process;

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::Arc;

use kqps_kernel::process::{Signal, handed_down};
use kqps_kernel::signal::Signals;
use kqps_kernel::{UdpSocket, affinity};

use crate::services::auth::Told;
use crate::crew::Task;
use crate::error::ServeError;
use crate::report::Ended;
use crate::service::Service;
use crate::setup::Setup;
use crate::sockets::{Endpoint, ListeningSocket, WorkerSockets};
use crate::until::{Deadline, Event};
use process::Member;
use patience::patience_ns;
use message::{Description, ListenerDescription, Word, WorkerDescription};

/// Reads the task of this process from standard input.
pub(crate) fn read_task() -> io::Result<Task> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let told: Description = serde_json::from_str(&text)?;
    let open = |number| -> io::Result<_> { Ok(Arc::new(UdpSocket::from_fd(handed_down(number)?)?)) };
    let endpoint = |&(receiver, sender): &(RawFd, RawFd)| -> io::Result<Endpoint> {
        let receiver_socket = open(receiver)?;
        let sender = if sender == receiver { receiver_socket.clone() } else { open(sender)? };
        Ok(Endpoint { receiver: receiver_socket, sender })
    };
    let assigned = |worker: &WorkerDescription| -> io::Result<WorkerSockets> {
        let endpoints = worker.endpoints.iter().map(endpoint).collect::<io::Result<_>>()?;
        Ok(WorkerSockets { cpu: worker.cpu, endpoints })
    };
    let listener = |listener: &ListenerDescription| -> io::Result<_> {
        Ok(match *listener {
            ListenerDescription::Tcp(number) => ListeningSocket::Tcp(handed_down(number)?.into()),
            ListenerDescription::Unix(number) => ListeningSocket::Unix(handed_down(number)?.into()),
        })
    };
    Ok(Task {
        model: told.io.parse().map_err(io::Error::other)?,
        service: told.service,
        assigned: told.workers.iter().map(assigned).collect::<io::Result<_>>()?,
        listeners: told.listeners.iter().map(listener).collect::<io::Result<_>>()?,
        process: told.process,
        processes: told.processes,
    })
}

/// Reports to the parent that this child can answer, and what it loaded.
pub(crate) fn tell_ready(told: Option<&Told>) -> io::Result<()> {
    tell(&Word::Ready(told.cloned()))
}

/// Reports a reload to the parent.
pub(crate) fn tell_reloaded(told: Told) -> io::Result<()> {
    tell(&Word::Reloaded(told))
}

/// Reports the counts, or why there are none, to the parent.
pub(crate) fn tell_end(outcome: Result<Ended, ServeError>) -> io::Result<()> {
    tell(&match outcome {
        Ok(Ended { report, failed }) => Word::Ended(report, failed.map(|error| error.to_string())),
        Err(ServeError::Zones(why)) => Word::NoZones(why),
        Err(ServeError::Stopped { signal }) => Word::Stopped(signal),
        Err(error) => Word::Failed(error.to_string()),
    })
}

#[allow(clippy::disallowed_methods)] // a parent that has gone is this child's end
fn tell(word: &Word) -> io::Result<()> {
    writeln!(io::stdout(), "{}", serde_json::to_string(word)?)
}

/// All worker processes, as their parent sees them.
pub(crate) struct Family {
    members: Vec<Member>,
    /// The combined result of the first load.
    told: Option<Told>,
    /// The time that each process may take to stop, in nanoseconds.
    patience_ns: u64,
}

impl Family {
    /// Starts all processes. Returns when all can answer, or fails if a signal to end arrives first.
    pub(crate) fn start(
        setup: &Setup,
        service: &Service,
        assigned: &[WorkerSockets],
        listeners: &[ListeningSocket],
        signals: &Signals,
    ) -> Result<Self, ServeError> {
        let cores = if setup.cpus.is_empty() { affinity::allowed()?.len() } else { setup.cpus.len() };
        let patience_ns = patience_ns(setup, service, cores);
        let mut family = Self { members: Vec::new(), told: None, patience_ns };
        for (process, workers) in assigned.chunks(setup.threads as usize).enumerate() {
            family.members.push(Member::start(setup, service, process, workers, listeners)?);
        }
        // In order: the first process is the one that reports problems with zones to the user.
        let (mut ready, mut again) = (0, false);
        while let Some(member) = family.members.get_mut(ready) {
            match Deadline::after(None).wait(signals, &[member.as_raw_fd()])? {
                Event::HangUp if service.loads_again() => again = true,
                Event::HangUp => return Err(ServeError::stopped(Signal::HangUp)),
                Event::End(signal) => return Err(ServeError::stopped(signal.unwrap_or(Signal::Terminate))),
                Event::From(_) => match member.hear()? {
                    Some(Word::Ready(told)) => {
                        join(&mut family.told, told);
                        ready += 1;
                    }
                    _ => return Err(member.out_of_turn()),
                },
            }
        }
        if again {
            family.load_again()?;
        }
        Ok(family)
    }

    /// Makes all processes reload their zones.
    fn load_again(&self) -> io::Result<()> {
        self.members.iter().try_for_each(|member| member.signal(Signal::HangUp))
    }

    /// Waits for a signal, the end of the time, or a message of a process. Messages that were read together with
    /// earlier ones come first.
    fn wait(&self, signals: &Signals, until: Deadline) -> io::Result<Event> {
        let descriptors: Vec<RawFd> = self.members.iter().map(Member::as_raw_fd).collect();
        match self.members.iter().position(Member::has_said_more) {
            Some(process) => Ok(Event::From(process)),
            None => until.wait(signals, &descriptors),
        }
    }

    /// The combined result of the first load.
    pub(crate) fn told(&self) -> Option<&Told> {
        self.told.as_ref()
    }

    /// Serves until a signal to end, until the time is over, or until a process has ended, since a signal may reach
    /// all of them. Then stops all processes and adds up their counts.
    pub(crate) fn serve(&mut self, signals: &Signals, until: Deadline, heard: &mut dyn FnMut(Told)) -> Ended {
        let waited = self.wait_for_the_end(signals, until, heard);
        self.stop().after(waited)
    }

    fn wait_for_the_end(
        &mut self,
        signals: &Signals,
        until: Deadline,
        heard: &mut dyn FnMut(Told),
    ) -> Result<(), ServeError> {
        loop {
            match self.wait(signals, until)? {
                Event::HangUp if self.told.is_some() => self.load_again()?,
                Event::From(process) => {
                    let member = &mut self.members[process];
                    match member.hear()? {
                        Some(Word::Reloaded(told)) => member.reloaded = Some(told),
                        Some(_) => return Err(member.out_of_turn()),
                        None => return Ok(()),
                    }
                    self.all_reloaded().into_iter().for_each(&mut *heard);
                }
                Event::End(_) | Event::HangUp => return Ok(()),
            }
        }
    }

    /// The combined result of a reload, once the last process has finished it.
    fn all_reloaded(&mut self) -> Option<Told> {
        if self.members.iter().any(|member| member.reloaded.is_none()) {
            return None;
        }
        let mut all = None;
        self.members.iter_mut().for_each(|member| join(&mut all, member.reloaded.take()));
        all
    }

    /// Stops all processes and adds up their counts.
    fn stop(&mut self) -> Ended {
        let told: io::Result<()> =
            self.members.iter().map(|member| member.signal(Signal::Terminate)).fold(Ok(()), Result::and);
        let mut all = Ended { failed: told.err().map(ServeError::from), ..Ended::default() };
        for member in &mut self.members {
            let Ended { report, failed } = member.end(self.patience_ns);
            all.report.add(report);
            all.failed = all.failed.or(failed);
        }
        all
    }
}

/// Adds the result of one process to that of the others.
fn join(all: &mut Option<Told>, told: Option<Told>) {
    match (all, told) {
        (Some(all), Some(told)) => all.add(&told),
        (all, told) => *all = all.take().or(told),
    }
}
