//! The part of a server that is in one process: threads, and what they answer from.

use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;

use kqps_kernel::affinity;
use kqps_kernel::signal::Signals;

use crate::auth::{AuthStream, Keeper, Load, Told};
use crate::front::{Board, Home};
use crate::io::Model;
use crate::serve::{Ended, News, ServeError, Until};
use crate::service::Service;
use crate::sockets::ListeningSocket;
use crate::threads::{Assigned, Connections, Threads};
use crate::worker;

/// What a process is to do.
pub(crate) struct Task {
    pub(crate) model: Model,
    pub(crate) service: Service,
    pub(crate) assigned: Vec<Assigned>,
    pub(crate) listeners: Vec<ListeningSocket>,
    /// Its number, and how many there are.
    pub(crate) process: usize,
    pub(crate) processes: usize,
}

/// The threads of this process, and what they go by.
pub(crate) struct Crew {
    threads: Threads,
    kept: Kept,
}

/// What the workers go by, and what SIGHUP has read again.
enum Kept {
    Nothing,
    Zones(Keeper),
    Policy(Board, Home, Arc<dyn Load>),
}

impl Crew {
    /// Loads what there is to load, starts all threads, and returns when they can answer. A signal to end ends loading.
    pub(crate) fn start(task: Task, load: &Arc<dyn Load>, signals: &Signals) -> Result<Self, ServeError> {
        let Task { model, assigned, listeners, .. } = task;
        let alone = None::<Connections<AuthStream>>;
        match task.service {
            Service::Echo(echo) => {
                let start = |number, assigned, going| worker::start(number, model, assigned, echo, going);
                Ok(Self { threads: Threads::start(model, assigned, start, alone)?, kept: Kept::Nothing })
            }
            Service::Front(settings) => {
                let home = Home::of(&assigned, settings.tcp)?;
                home.check(&settings.policy).map_err(ServeError::Setup)?;
                let mut board = Board::new(*settings, assigned.len())?;
                let start = |number, assigned, going| board.start(number, model, assigned, &listeners, going);
                let threads = Threads::start(model, assigned, start, alone)?;
                Ok(Self { threads, kept: Kept::Policy(board, home, load.clone()) })
            }
            Service::Auth(settings) => {
                let limits = settings.limits;
                // Several processes load the same at the same time.
                let threads = affinity::allowed()?.len().div_ceil(task.processes);
                let keeper = Keeper::new(settings, load.clone(), threads, task.process == 0, signals)?;
                let connections = (!listeners.is_empty()).then(|| {
                    let answer = keeper.stream_answer();
                    Connections { listeners, limits, answer }
                });
                let start =
                    |number, assigned, going| worker::start(number, model, assigned, keeper.answer(), going);
                let threads = Threads::start(model, assigned, start, connections)?;
                Ok(Self { threads, kept: Kept::Zones(keeper) })
            }
        }
    }

    /// What was loaded.
    pub(crate) fn told(&self) -> Option<&Told> {
        match &self.kept {
            Kept::Zones(keeper) => Some(&keeper.told),
            Kept::Nothing | Kept::Policy(..) => None,
        }
    }

    /// Where counts are told to Prometheus.
    pub(crate) fn metrics(&self) -> Option<SocketAddr> {
        match &self.kept {
            Kept::Policy(board, ..) => board.metrics(),
            Kept::Nothing | Kept::Zones(_) => None,
        }
    }

    /// Serves until it is told to end, or one of the threads has ended; says what is loaded meanwhile.
    pub(crate) fn serve(&mut self, signals: &Signals, until: Until, heard: &mut dyn FnMut(Told)) -> Ended {
        let waited = self.wait_for_the_end(signals, until, heard);
        self.threads.stop().after(waited)
    }

    fn wait_for_the_end(
        &mut self,
        signals: &Signals,
        until: Until,
        heard: &mut dyn FnMut(Told),
    ) -> Result<(), ServeError> {
        loop {
            let mut descriptors = vec![self.threads.descriptor()];
            if let Kept::Zones(keeper) = &self.kept {
                descriptors.push(keeper.news.as_raw_fd());
            }
            match (until.wait(signals, &descriptors)?, &mut self.kept) {
                (News::HangUp, Kept::Zones(keeper)) => keeper.reload()?,
                (News::HangUp, Kept::Policy(board, home, load)) => {
                    if let Some(policy) = load.policy(&|policy| home.check(policy)) {
                        load.adopted(&policy, board.adopt(policy.clone()));
                    }
                }
                (News::From(1), Kept::Zones(keeper)) => {
                    if let Some(told) = keeper.loaded_again()? {
                        heard(told);
                    }
                }
                _ => return Ok(()),
            }
        }
    }
}
