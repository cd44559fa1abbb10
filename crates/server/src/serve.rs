//! A server from its first socket to its last count: binds sockets, starts the workers as threads or processes,
//! reports when it can answer, waits for its end, and adds up the workers' counts.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kqps_kernel::signal::{Signals, ignores_hang_ups};
use kqps_kernel::{UdpOptions, UdpSocket};

use crate::services::auth::{Load, Told};
use crate::crew::{Crew, Task};
use crate::error::ServeError;
use crate::processes::{self, Processes};
use crate::front::policy::Target;
use crate::model::Model;
use crate::report::Ended;
use crate::service::Service;
use crate::setup::{Setup, Sockets};
use crate::sockets::{self, SocketFile, WorkerSockets};
use crate::until::Deadline;

/// A server that can answer.
pub struct Server {
    addresses: Vec<SocketAddr>,
    files: Vec<SocketFile>,
    receivers: Vec<Arc<UdpSocket>>,
    signals: Signals,
    workers: Workers,
    notes: Vec<String>,
}

enum Workers {
    Here(Box<Crew>),
    Processes(Processes),
}

impl Server {
    /// Binds all sockets, starts the workers, and returns when all of them can answer. Fails if a signal to end
    /// arrives before. Takes over the signals that end a program, so it must be called before other threads are
    /// started. `load` loads the zones or reloads the policy, for a service that has one.
    pub fn start(setup: &Setup, service: Service, load: &Arc<dyn Load>) -> Result<Self, ServeError> {
        check(setup, &service)?;
        // Under `nohup`, ignore SIGHUP.
        let signals = Signals::take(service.loads_again() || !ignores_hang_ups()?)?;
        let bound = sockets::bind(setup, service.takes_tcp(), service.unix())?;
        if service.replies_pass() {
            bound.never_fragment()?;
        }
        let notes = notes(setup, &service, &bound.receivers[0])?;
        let assigned: Vec<WorkerSockets> = bound
            .workers
            .into_iter()
            .zip(0..)
            .map(|(endpoints, number)| WorkerSockets { cpu: setup.cpu(number), endpoints })
            .collect();
        let workers = if setup.processes == 1 {
            let (model, listeners) = (setup.io, bound.listeners);
            let task = Task { model, service, assigned, listeners, process: 0, processes: 1 };
            Workers::Here(Box::new(Crew::start(task, load, &signals)?))
        } else {
            Workers::Processes(Processes::start(setup, &service, &assigned, &bound.listeners, &signals)?)
        };
        let (addresses, files, receivers) = (bound.addresses, bound.files, bound.receivers);
        Ok(Self { addresses, files, receivers, signals, workers, notes })
    }

    /// The addresses on which the server listens, with the ports that the kernel chose.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The paths of Unix sockets on which the server accepts connections.
    pub fn unix(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(SocketFile::path)
    }

    /// The result of loading zones; `None` for a service without zones.
    pub fn told(&self) -> Option<&Told> {
        match &self.workers {
            Workers::Here(crew) => crew.told(),
            Workers::Processes(processes) => processes.told(),
        }
    }

    /// A sentence for each setting that the system did not grant in full.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The address at which Prometheus can read a front's counts.
    pub fn metrics(&self) -> Option<SocketAddr> {
        match &self.workers {
            Workers::Here(crew) => crew.metrics(),
            Workers::Processes(_) => None,
        }
    }

    /// Serves until a signal to end or until `time` has passed, and returns the counts of all workers. If a worker
    /// cannot go on, the others end too. SIGHUP reloads zones, after which `heard` is called, or a front's policy.
    /// Without either it ends the server, unless it was ignored when the program started.
    pub fn run(mut self, time: Option<Duration>, mut heard: impl FnMut(Told)) -> Ended {
        let until = Deadline::after(time);
        let mut ended = match &mut self.workers {
            Workers::Here(crew) => crew.serve(&self.signals, until, &mut heard),
            Workers::Processes(processes) => processes.serve(&self.signals, until, &mut heard),
        };
        for receiver in &self.receivers {
            match receiver.drops() {
                Ok(drops) => ended.report.socket_drops += drops,
                Err(error) => ended.failed = ended.failed.or(Some(error.into())),
            }
        }
        ended
    }
}

/// Checks for settings that the types allow and that cannot work.
fn check(setup: &Setup, service: &Service) -> Result<(), ServeError> {
    let model = setup.io.name();
    setup.io.available().map_err(|reason| ServeError::Unavailable { model, reason })?;
    if setup.listen.len() > 1 && !setup.io.serves_many() {
        let why = format!("--io {model} waits on one socket and cannot serve several --listen addresses");
        return Err(ServeError::Setup(why));
    }
    if let Service::Front(_) = service {
        if setup.processes > 1 {
            return Err(ServeError::Setup(
                "a front has threads and no worker processes: use --threads".to_owned(),
            ));
        }
        if !matches!(setup.io, Model::Mmsg | Model::Segment | Model::Uring) {
            return Err(ServeError::Setup(format!(
                "--io {model} does not work for a front: use mmsg, segment or uring"
            )));
        }
    }
    if setup.steer && setup.sockets != Sockets::ReusePort {
        return Err(ServeError::Setup("--steer needs --sockets reuseport".to_owned()));
    }
    if setup.steer && setup.cpus.is_empty() {
        return Err(ServeError::Setup(
            "--steer cpu sends a flow to a worker on the core that receives it: give the workers cores with --cpus"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Sentences about settings that the system did not grant in full. The buffers of one socket stand for those of all.
fn notes(setup: &Setup, service: &Service, receiver: &UdpSocket) -> io::Result<Vec<String>> {
    let of_flag = |flag: &'static str| move |told| format!("{flag}: {told}");
    let short = receiver.short_buffers(setup.buffer_bytes);
    let mut notes: Vec<String> = short.into_iter().map(of_flag("--buffer")).collect();
    if let Service::Front(front) = service
        && front.policy.back_ends.iter().any(|back_end| matches!(back_end.target, Target::Udp(_)))
    {
        let bytes = front.buffer_bytes;
        let options =
            UdpOptions { recv_buffer: Some(bytes), send_buffer: Some(bytes), ..UdpOptions::default() };
        let like_those = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0).into(), &options)?;
        notes.extend(like_those.short_buffers(bytes).into_iter().map(of_flag("--backend-buffer")));
    }
    Ok(notes)
}

/// Serves as a worker process. Reads its task from standard input, and reports to the parent what it loaded and
/// counted, or what went wrong. An error means that the report could not be written.
pub fn run_as_child(load: &Arc<dyn Load>) -> io::Result<()> {
    processes::tell_end(count_as_child(load))
}

fn count_as_child(load: &Arc<dyn Load>) -> Result<Ended, ServeError> {
    // Before this line the signals are blocked, as in the parent.
    let task = processes::read_task()?;
    // For a service that reloads nothing, the parent decides whether SIGHUP ends it.
    let signals = Signals::take(task.service.loads_again())?;
    let mut crew = Crew::start(task, load, &signals)?;
    processes::tell_ready(crew.told())?;
    Ok(crew.serve(&signals, Deadline::after(None), &mut |told| {
        // If the parent has died, this process dies too.
        let _ = processes::tell_reloaded(told);
    }))
}
