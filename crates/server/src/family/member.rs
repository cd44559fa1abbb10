//! One worker process.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::{AsRawFd, RawFd};
use std::process::{Child as Process, ChildStdout, Command, Stdio};
use std::sync::Arc;

use kqps_kernel::poll::PollSet;
use kqps_kernel::process::{hand_down, tie};

use super::word::{Description, ListenerDescription, Word, WorkerDescription};
use crate::auth::Told;
use crate::report::Report;
use crate::serve::ServeError;
use crate::service::Service;
use crate::setup::Setup;
use crate::sockets::ListeningSocket;
use crate::threads::Assigned;

/// The arguments that make kqps a worker process.
const ARGUMENTS: [&str; 2] = ["serve", "worker"];

/// How long a process may take to stop: a full batch of the longest work, and more.
const PATIENCE_NS: u64 = 10_000_000_000;

/// A process that was started; killed when it is forgotten.
pub(super) struct Member {
    process: Process,
    output: BufReader<ChildStdout>,
    /// What it loaded again, until all others have.
    pub(super) reloaded: Option<Told>,
}

impl Member {
    pub(super) fn start(
        setup: &Setup,
        service: &Service,
        process: usize,
        workers: &[Assigned],
        listeners: &[ListeningSocket],
    ) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut describe = |worker: &Assigned| -> io::Result<WorkerDescription> {
            let mut endpoints = Vec::new();
            for endpoint in &worker.endpoints {
                let receiver = hand_down(&mut command, &*endpoint.receiver)?;
                let same = Arc::ptr_eq(&endpoint.receiver, &endpoint.sender);
                let sender = if same { receiver } else { hand_down(&mut command, &*endpoint.sender)? };
                endpoints.push((receiver, sender));
            }
            Ok(WorkerDescription { cpu: worker.cpu, endpoints })
        };
        let workers = workers.iter().map(&mut describe).collect::<io::Result<_>>()?;
        let describe = |listener: &ListeningSocket| -> io::Result<ListenerDescription> {
            let number = hand_down(&mut command, listener)?;
            Ok(match listener {
                ListeningSocket::Tcp(_) => ListenerDescription::Tcp(number),
                ListeningSocket::Unix(_) => ListenerDescription::Unix(number),
            })
        };
        let listeners = listeners.iter().map(describe).collect::<io::Result<_>>()?;
        let description = Description {
            io: setup.io.name().to_owned(),
            service: service.clone(),
            process,
            processes: setup.processes as usize,
            workers,
            listeners,
        };
        command.args(ARGUMENTS).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = tie(&mut command).spawn()?;
        let no_pipe = || io::Error::other("no pipe to a worker process");
        let output = process.stdout.take().ok_or_else(no_pipe)?;
        let mut input = process.stdin.take().ok_or_else(no_pipe)?;
        let member = Self { process, output: BufReader::new(output), reloaded: None };
        input.write_all(serde_json::to_string(&description)?.as_bytes())?;
        Ok(member)
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// The next word that it says; an error where it has ended, or cannot go on.
    pub(super) fn hear(&mut self, process: usize) -> Result<Word, ServeError> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.is_empty() {
            let how = format!("ended: {}", self.process.wait()?);
            return Err(ServeError::Process { process, how });
        }
        match serde_json::from_str(&line).map_err(io::Error::from)? {
            Word::NoZones(why) => Err(ServeError::Zones(why)),
            Word::Stopped => Err(ServeError::Stopped),
            Word::Failed(why) => Err(ServeError::Process { process, how: format!("ended: {why}") }),
            word => Ok(word),
        }
    }

    /// Whether a further word was read along with the last one.
    pub(super) fn has_said_more(&self) -> bool {
        !self.output.buffer().is_empty()
    }

    /// The error of one that said something else than it should.
    pub(super) fn out_of_turn(process: usize) -> ServeError {
        ServeError::Process { process, how: "said something out of turn".to_owned() }
    }

    /// Its counts, once it was told to stop.
    pub(super) fn count(&mut self, process: usize) -> Result<Report, ServeError> {
        loop {
            if !self.has_said_more() && !PollSet::new([self.output.get_ref()]).wait(PATIENCE_NS)? {
                return Err(ServeError::Process { process, how: "did not stop when told to".to_owned() });
            }
            match self.hear(process)? {
                Word::Ended(report) => return Ok(report),
                // It had loaded its zones when it was told.
                Word::Reloaded(_) => {}
                _ => return Err(Self::out_of_turn(process)),
            }
        }
    }
}

impl AsRawFd for Member {
    fn as_raw_fd(&self) -> RawFd {
        self.output.get_ref().as_raw_fd()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // Those that told their counts end by themselves; nothing is lost by killing any of them now.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
