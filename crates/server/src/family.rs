//! Worker processes: kqps itself, started again, with the parent's sockets open in it. A child is told what to
//! do on its standard input, where no list of processes shows it, and tells what happened by lines on its
//! standard output: that it can answer, that it has loaded zones again, and at the end its counts or the reason
//! why there are none. It dies with its parent.
//!
//! Each process loads the zones for itself. One that forks after loading would share their memory with the others,
//! but only until the first reload, after which it would have to fork again, and hand its connections over. Where
//! memory is short, threads share the zones, and one process with many of them is the better choice.

mod member;
mod patience;
mod word;

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::Arc;

use kqps_kernel::process::{Signal, handed_down};
use kqps_kernel::signal::Signals;
use kqps_kernel::{UdpSocket, affinity};

use crate::auth::Told;
use crate::crew::Task;
use crate::serve::{Ended, News, ServeError, Until};
use crate::service::Service;
use crate::setup::Setup;
use crate::sockets::{Endpoint, ListeningSocket};
use crate::threads::Assigned;
use member::Member;
use patience::patience_ns;
use word::{Description, ListenerDescription, Word, WorkerDescription};

/// What this process is to do, as its parent says.
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
    let assigned = |worker: &WorkerDescription| -> io::Result<Assigned> {
        let endpoints = worker.endpoints.iter().map(endpoint).collect::<io::Result<_>>()?;
        Ok(Assigned { cpu: worker.cpu, endpoints })
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

/// Tells the parent that this child can answer, and what it loaded.
pub(crate) fn tell_ready(told: Option<&Told>) -> io::Result<()> {
    tell(&Word::Ready(told.cloned()))
}

/// Tells the parent what was loaded again.
pub(crate) fn tell_reloaded(told: Told) -> io::Result<()> {
    tell(&Word::Reloaded(told))
}

/// Tells the parent what was counted, or why it was not.
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
    /// What all of them loaded.
    told: Option<Told>,
    /// How long each may take to stop.
    patience_ns: u64,
}

impl Family {
    /// Starts all processes, and returns when all can answer, or when a signal to end comes before.
    pub(crate) fn start(
        setup: &Setup,
        service: &Service,
        assigned: &[Assigned],
        listeners: &[ListeningSocket],
        signals: &Signals,
    ) -> Result<Self, ServeError> {
        let cores = if setup.cpus.is_empty() { affinity::allowed()?.len() } else { setup.cpus.len() };
        let patience_ns = patience_ns(setup, service, cores);
        let mut family = Self { members: Vec::new(), told: None, patience_ns };
        for (process, workers) in assigned.chunks(setup.threads as usize).enumerate() {
            family.members.push(Member::start(setup, service, process, workers, listeners)?);
        }
        // In order: the first is the one that tells the user what is wrong with zones.
        let (mut ready, mut again) = (0, false);
        while let Some(member) = family.members.get_mut(ready) {
            match Until::after(None).wait(signals, &[member.as_raw_fd()])? {
                News::HangUp if service.loads_again() => again = true,
                News::HangUp => return Err(ServeError::stopped(Signal::HangUp)),
                News::End(signal) => return Err(ServeError::stopped(signal.unwrap_or(Signal::Terminate))),
                News::From(_) => match member.hear()? {
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

    /// Has all processes load their zones again.
    fn load_again(&self) -> io::Result<()> {
        self.members.iter().try_for_each(|member| member.signal(Signal::HangUp))
    }

    /// Waits for a signal, the end of the time, or a word of a process. Words that were read along with others come
    /// first.
    fn wait(&self, signals: &Signals, until: Until) -> io::Result<News> {
        let descriptors: Vec<RawFd> = self.members.iter().map(Member::as_raw_fd).collect();
        match self.members.iter().position(Member::has_said_more) {
            Some(process) => Ok(News::From(process)),
            None => until.wait(signals, &descriptors),
        }
    }

    /// What was loaded first.
    pub(crate) fn told(&self) -> Option<&Told> {
        self.told.as_ref()
    }

    /// Serves until it is told to end, or a process has ended: somebody may signal all of them. Then stops all, and adds
    /// up their counts.
    pub(crate) fn serve(&mut self, signals: &Signals, until: Until, heard: &mut dyn FnMut(Told)) -> Ended {
        let waited = self.wait_for_the_end(signals, until, heard);
        self.stop().after(waited)
    }

    fn wait_for_the_end(
        &mut self,
        signals: &Signals,
        until: Until,
        heard: &mut dyn FnMut(Told),
    ) -> Result<(), ServeError> {
        loop {
            match self.wait(signals, until)? {
                News::HangUp if self.told.is_some() => self.load_again()?,
                News::From(process) => {
                    let member = &mut self.members[process];
                    match member.hear()? {
                        Some(Word::Reloaded(told)) => member.reloaded = Some(told),
                        Some(_) => return Err(member.out_of_turn()),
                        None => return Ok(()),
                    }
                    self.all_reloaded().into_iter().for_each(&mut *heard);
                }
                News::End(_) | News::HangUp => return Ok(()),
            }
        }
    }

    /// What all processes loaded again, once the last of them has.
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

/// Adds what one process loaded to what the others did.
fn join(all: &mut Option<Told>, told: Option<Told>) {
    match (all, told) {
        (Some(all), Some(told)) => all.add(&told),
        (all, told) => *all = all.take().or(told),
    }
}
