//! A server from its first socket to its last count: binds sockets, starts the workers as threads or processes,
//! reports when it can answer, waits for its end, and adds up the workers' counts.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kqps_kernel::UdpSocket;
use kqps_kernel::signal::{Signals, ignores_hang_ups};

use crate::deadline::{Deadline, Event};
use crate::device;
use crate::error::ServeError;
use crate::frames::Program;
use crate::processes::{self, Processes};
use crate::report::Ended;
use crate::service::{AfterHangUp, Description, RunningService, Service, Task, Transports};
use crate::services::auth::{Auth, ZoneSource, ZonesLoaded};
use crate::services::echo::Echo;
use crate::setup::ServerSetup;
use crate::sockets::{self, Addresses, Bound, SocketFile};

/// A server that can answer.
pub struct Server {
    addresses: Addresses,
    files: Vec<SocketFile>,
    receivers: Vec<Arc<UdpSocket>>,
    program: Option<Arc<Program>>,
    signals: Signals,
    workers: Workers,
    notes: Vec<String>,
}

enum Workers {
    Here(Box<dyn RunningService>),
    Processes(Processes),
}

impl Server {
    /// Binds all sockets, starts the workers, and returns when all of them can answer. Fails if a signal to end
    /// arrives before. Takes over the signals that end a program, so it must be called before other threads are
    /// started.
    pub fn start(setup: &ServerSetup, service: Box<dyn Service>) -> Result<Self, ServeError> {
        check(setup, &*service)?;
        // Under `nohup`, ignore SIGHUP.
        let signals = Signals::take(service.reloads() || !ignores_hang_ups()?)?;
        let Transports { tcp, unix } = service.transports();
        let mut bound = sockets::bind(setup, tcp, unix)?;
        let program = device::open(setup, &bound.addresses.datagrams, &mut bound.workers)?;
        if service.replies_pass() {
            bound.never_fragment()?;
        }
        let notes = notes(setup, &*service, bound.receivers.first().map(Arc::as_ref))?;
        let Bound { addresses, workers, receivers, listeners, files } = bound;
        let workers = if setup.processes == 1 {
            let task = Task { model: setup.io, workers, listeners, process: 0, processes: 1 };
            Workers::Here(service.begin(task, &signals)?)
        } else {
            Workers::Processes(Processes::start(setup, &*service, &workers, &listeners, &signals)?)
        };
        Ok(Self { addresses, files, receivers, program, signals, workers, notes })
    }

    /// The program on a device whose frames pass the kernel; `None` without `--io xdp`.
    pub fn program(&self) -> Option<&Program> {
        self.program.as_deref()
    }

    /// The addresses at which the server takes datagrams and accepts connections.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// The paths of Unix sockets on which the server accepts connections.
    pub fn unix(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(SocketFile::path)
    }

    /// The result of loading zones; `None` for a service without zones.
    pub fn loaded(&self) -> Option<&ZonesLoaded> {
        match &self.workers {
            Workers::Here(running) => running.loaded(),
            Workers::Processes(processes) => processes.loaded(),
        }
    }

    /// A sentence for each setting that the system did not grant in full.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The address at which Prometheus can read a front's counts.
    pub fn metrics(&self) -> Option<SocketAddr> {
        match &self.workers {
            Workers::Here(running) => running.metrics(),
            Workers::Processes(_) => None,
        }
    }

    /// Serves until a signal to end or until `time` has passed, and returns the counts of all workers. If a worker
    /// cannot go on, the others end too. SIGHUP reloads zones, after which `reloaded` is called, or a front's policy.
    /// Without either it ends the server, unless it was ignored when the program started.
    pub fn run(mut self, time: Option<Duration>, mut reloaded: impl FnMut(ZonesLoaded)) -> Ended {
        let until = Deadline::after(time);
        let mut ended = match &mut self.workers {
            Workers::Here(running) => serve(&mut **running, &self.signals, until, &mut reloaded),
            Workers::Processes(processes) => processes.serve(&self.signals, until, &mut reloaded),
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
fn check(setup: &ServerSetup, service: &dyn Service) -> Result<(), ServeError> {
    let model = setup.io.name();
    device::check(setup)?;
    // Frames past the kernel have needs that depend on the device. A lack shows when the device is opened.
    if !setup.io.needs_device() {
        setup.io.available().map_err(|reason| ServeError::Unavailable { model, reason })?;
    }
    if setup.listen.len() > 1 && !setup.io.serves_many() {
        let why = format!("--io {model} waits on one socket and cannot serve several --listen addresses");
        return Err(ServeError::Setup(why));
    }
    service.check(setup)?;
    setup.contradiction().map_or(Ok(()), |why| Err(ServeError::Setup(why.to_owned())))
}

/// Sentences about settings that the system did not grant in full. The buffers of one socket stand for those of all.
fn notes(
    setup: &ServerSetup,
    service: &dyn Service,
    receiver: Option<&UdpSocket>,
) -> io::Result<Vec<String>> {
    let short = receiver.map(|receiver| receiver.short_buffers(setup.buffer_bytes));
    let mut notes: Vec<String> =
        short.into_iter().flatten().map(|note| format!("--buffer: {note}")).collect();
    notes.extend(service.notes()?);
    Ok(notes)
}

/// Serves with the threads of this process until a signal to end, until the time is over, or until a thread has
/// ended. Calls `reloaded` after every reload. Then stops all threads and adds up their counts.
fn serve(
    running: &mut dyn RunningService,
    signals: &Signals,
    until: Deadline,
    reloaded: &mut dyn FnMut(ZonesLoaded),
) -> Ended {
    let waited = wait_for_the_end(running, signals, until, reloaded);
    running.stop().after(waited)
}

fn wait_for_the_end(
    running: &mut dyn RunningService,
    signals: &Signals,
    until: Deadline,
    reloaded: &mut dyn FnMut(ZonesLoaded),
) -> Result<(), ServeError> {
    loop {
        let mut descriptors = vec![running.threads().descriptor()];
        descriptors.extend(running.news());
        match until.wait(signals, &descriptors)? {
            Event::HangUp => {
                if running.hang_up()? == AfterHangUp::End {
                    return Ok(());
                }
            }
            Event::From(1) => running.reloaded()?.into_iter().for_each(&mut *reloaded),
            Event::End(_) | Event::From(_) => return Ok(()),
        }
    }
}

/// Serves as a worker process, with zones from `source`. Reads its task from standard input, and reports to the parent
/// what it loaded and counted, or what went wrong. An error means that the report could not be written.
pub fn run_as_child(source: Arc<dyn ZoneSource>) -> io::Result<()> {
    processes::report_end(count_as_child(source))
}

fn count_as_child(source: Arc<dyn ZoneSource>) -> Result<Ended, ServeError> {
    // Before this line the signals are blocked, as in the parent.
    let (task, description) = processes::read_task()?;
    let service = described(description, source);
    // For a service that reloads nothing, the parent decides whether SIGHUP ends it.
    let signals = Signals::take(service.reloads())?;
    let mut running = service.begin(task, &signals)?;
    processes::report_ready(running.loaded())?;
    Ok(serve(&mut *running, &signals, Deadline::after(None), &mut |loaded| {
        // If the parent has died, this process dies too.
        let _ = processes::report_reloaded(loaded);
    }))
}

/// The service of this description.
fn described(description: Description, source: Arc<dyn ZoneSource>) -> Box<dyn Service> {
    match description {
        Description::Echo { work_ns, rounds, lock_ns, connections } => {
            Box::new(Echo { work_ns, rounds, lock_ns, connections, tcp: connections.is_some() })
        }
        Description::Auth(settings) => Box::new(Auth { settings, source }),
    }
}
