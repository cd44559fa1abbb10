//! The part of a server that is in one process: its threads, and their zones or policy.

use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;

use kqps_kernel::affinity;
use kqps_kernel::signal::Signals;

use crate::services::auth::{AuthStream, Keeper, Load, Told};
use crate::error::ServeError;
use crate::front::{FrontControl, Home};
use crate::model::Model;
use crate::report::Ended;
use crate::service::Service;
use crate::sockets::{ListeningSocket, WorkerSockets};
use crate::worker::threads::{self, Connections, Threads};
use crate::until::{Deadline, Event};

/// The work of one process.
pub(crate) struct Task {
    pub(crate) model: Model,
    pub(crate) service: Service,
    pub(crate) assigned: Vec<WorkerSockets>,
    pub(crate) listeners: Vec<ListeningSocket>,
    /// The number of this process, from 0, and the number of processes.
    pub(crate) process: usize,
    pub(crate) processes: usize,
}

/// The threads of this process, and their zones or policy.
pub(crate) struct Crew {
    threads: Threads,
    kept: Kept,
}

/// What the workers share, and what SIGHUP reloads.
enum Kept {
    Nothing,
    Zones(Keeper),
    Policy(FrontControl, Home, Arc<dyn Load>),
}

impl Crew {
    /// Loads the zones or policy, starts all threads, and returns when they can answer. A signal to end interrupts
    /// loading.
    pub(crate) fn start(task: Task, load: &Arc<dyn Load>, signals: &Signals) -> Result<Self, ServeError> {
        let Task { model, assigned, listeners, .. } = task;
        let alone = None::<Connections<AuthStream>>;
        match task.service {
            Service::Echo(echo) => {
                let start = |number, assigned, stop| threads::start(number, model, assigned, echo, stop);
                Ok(Self { threads: Threads::start(model, assigned, start, alone)?, kept: Kept::Nothing })
            }
            Service::Front(settings) => {
                let home = Home::of(&assigned, settings.tcp)?;
                home.check(&settings.policy).map_err(ServeError::Setup)?;
                let mut control = FrontControl::new(*settings, assigned.len())?;
                let start = |number, assigned, stop| control.start(number, model, assigned, &listeners, stop);
                let threads = Threads::start(model, assigned, start, alone)?;
                Ok(Self { threads, kept: Kept::Policy(control, home, load.clone()) })
            }
            Service::Auth(settings) => {
                let limits = settings.limits;
                // Several processes load the same zones at the same time, and share the cores.
                let threads = affinity::allowed()?.len().div_ceil(task.processes);
                let keeper = Keeper::new(settings, load.clone(), threads, task.process == 0, signals)?;
                let connections = (!listeners.is_empty()).then(|| {
                    let answer = keeper.stream_answer();
                    Connections { listeners, limits, answer }
                });
                let start =
                    |number, assigned, stop| threads::start(number, model, assigned, keeper.answer(), stop);
                let threads = Threads::start(model, assigned, start, connections)?;
                Ok(Self { threads, kept: Kept::Zones(keeper) })
            }
        }
    }

    /// The result of the first load.
    pub(crate) fn told(&self) -> Option<&Told> {
        match &self.kept {
            Kept::Zones(keeper) => Some(&keeper.told),
            Kept::Nothing | Kept::Policy(..) => None,
        }
    }

    /// The address at which Prometheus can read counts.
    pub(crate) fn metrics(&self) -> Option<SocketAddr> {
        match &self.kept {
            Kept::Policy(control, ..) => control.metrics(),
            Kept::Nothing | Kept::Zones(_) => None,
        }
    }

    /// Serves until a signal to end, until the time is over, or until a thread has ended. Calls `heard` after every
    /// reload.
    pub(crate) fn serve(&mut self, signals: &Signals, until: Deadline, heard: &mut dyn FnMut(Told)) -> Ended {
        let waited = self.wait_for_the_end(signals, until, heard);
        self.threads.stop().after(waited)
    }

    fn wait_for_the_end(
        &mut self,
        signals: &Signals,
        until: Deadline,
        heard: &mut dyn FnMut(Told),
    ) -> Result<(), ServeError> {
        loop {
            let mut descriptors = vec![self.threads.descriptor()];
            if let Kept::Zones(keeper) = &self.kept {
                descriptors.push(keeper.news.as_raw_fd());
            }
            match (until.wait(signals, &descriptors)?, &mut self.kept) {
                (Event::HangUp, Kept::Zones(keeper)) => keeper.reload()?,
                (Event::HangUp, Kept::Policy(control, home, load)) => {
                    if let Some(policy) = load.policy(&|policy| home.check(policy)) {
                        load.adopted(&policy, control.adopt(policy.clone()));
                    }
                }
                (Event::From(1), Kept::Zones(keeper)) => {
                    if let Some(told) = keeper.loaded_again()? {
                        heard(told);
                    }
                }
                _ => return Ok(()),
            }
        }
    }
}
