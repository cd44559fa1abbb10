//! The part of a server that is in one process: threads, and what they answer from.

use std::os::fd::AsRawFd as _;
use std::sync::Arc;

use kqps_kernel::affinity;
use kqps_kernel::signal::Signals;

use crate::auth::{AuthStream, Keeper, Load, Told};
use crate::io::Model;
use crate::report::Report;
use crate::serve::{News, ServeError, Until};
use crate::service::Service;
use crate::sockets::ListeningSocket;
use crate::threads::{Assigned, Connections, Threads};

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

/// The threads of this process, and its zones where it has any.
pub(crate) struct Crew {
    threads: Threads,
    keeper: Option<Keeper>,
}

impl Crew {
    /// Loads what there is to load, starts all threads, and returns when they can answer.
    pub(crate) fn start(task: Task, load: &Arc<dyn Load>) -> Result<Self, ServeError> {
        let Task { model, assigned, listeners, .. } = task;
        match task.service {
            Service::Echo(echo) => {
                let threads = Threads::start(model, assigned, || echo, None::<Connections<AuthStream>>)?;
                Ok(Self { threads, keeper: None })
            }
            Service::Auth(settings) => {
                let limits = settings.limits;
                // Several processes load the same at the same time.
                let threads = affinity::allowed()?.len().div_ceil(task.processes);
                let keeper = Keeper::new(settings, load.clone(), threads, task.process == 0)?;
                let connections = (!listeners.is_empty()).then(|| {
                    let answer = keeper.stream_answer();
                    Connections { listeners, limits, answer }
                });
                let threads = Threads::start(model, assigned, || keeper.answer(), connections)?;
                Ok(Self { threads, keeper: Some(keeper) })
            }
        }
    }

    /// What was loaded.
    pub(crate) fn told(&self) -> Option<&Told> {
        self.keeper.as_ref().map(|keeper| &keeper.told)
    }

    /// Serves until it is told to end, or one of the threads has ended; says what is loaded meanwhile.
    pub(crate) fn serve(
        &mut self,
        signals: &Signals,
        until: Until,
        heard: &mut dyn FnMut(Told),
    ) -> Result<Report, ServeError> {
        loop {
            let mut descriptors = vec![self.threads.descriptor()];
            descriptors.extend(self.keeper.as_ref().map(|keeper| keeper.news.as_raw_fd()));
            match (until.wait(signals, &descriptors)?, &mut self.keeper) {
                (News::HangUp, Some(keeper)) => keeper.reload()?,
                (News::From(1), Some(keeper)) => {
                    if let Some(told) = keeper.loaded_again()? {
                        heard(told);
                    }
                }
                _ => return self.threads.stop(),
            }
        }
    }
}
