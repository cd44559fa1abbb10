//! A worker process, as its parent sees it.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::mem::take;
use std::os::fd::{AsRawFd, RawFd};
use std::process::{Child as Process, ChildStdout, Command, Stdio};
use std::sync::Arc;

use kqps_kernel::poll::PollSet;
use kqps_kernel::process::{Signal, hand_down, signal, tie_kqps};

use super::listeners::ListenerDescription;
use super::message::{Message, TaskDescription, TlsDescription, WorkerDescription};
use crate::error::ServeError;
use crate::report::{Ended, Report};
use crate::service::Description;
use crate::services::auth::ZonesLoaded;
use crate::setup::ServerSetup;
use crate::sockets::{ListeningSocket, WorkerSockets};

/// The arguments that make kqps a worker process.
const ARGUMENTS: [&str; 2] = ["serve", "worker"];

/// A process that was started. Dropping it kills the process.
pub(super) struct WorkerProcess {
    number: usize,
    process: Process,
    output: BufReader<ChildStdout>,
    /// The result of its reload, until all others have finished theirs.
    pub(super) reloaded: Option<ZonesLoaded>,
    /// Its counts, once it has reported them.
    counted: Report,
    /// Whether it has sent its last message.
    is_over: bool,
}

impl WorkerProcess {
    pub(super) fn start(
        setup: &ServerSetup,
        service: &Description,
        number: usize,
        workers: &[WorkerSockets],
        listeners: &[ListeningSocket],
    ) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut describe = |worker: &WorkerSockets| -> io::Result<WorkerDescription> {
            let mut endpoints = Vec::new();
            for endpoint in &worker.endpoints {
                let receiver = hand_down(&mut command, &*endpoint.receiver)?;
                let same = Arc::ptr_eq(&endpoint.receiver, &endpoint.sender);
                let sender = if same { receiver } else { hand_down(&mut command, &*endpoint.sender)? };
                endpoints.push((receiver, sender));
            }
            let listeners = described(&mut command, &worker.listeners)?;
            Ok(WorkerDescription { cpu: worker.cpu, endpoints, listeners })
        };
        let workers = workers.iter().map(&mut describe).collect::<io::Result<_>>()?;
        let listeners = described(&mut command, listeners)?;
        let description = TaskDescription {
            io: setup.io.name().to_owned(),
            service: service.clone(),
            process: number,
            processes: setup.processes as usize,
            workers,
            listeners,
            tls: setup
                .tls
                .as_ref()
                .map(|tls| TlsDescription { identity: tls.identity.clone(), early_data: tls.early_data }),
        };
        command.args(ARGUMENTS).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = tie_kqps(&mut command).spawn()?;
        let no_pipe = || io::Error::other("no pipe to a worker process");
        let output = process.stdout.take().ok_or_else(no_pipe)?;
        let mut input = process.stdin.take().ok_or_else(no_pipe)?;
        let (output, counted) = (BufReader::new(output), Report::default());
        let started = Self { number, process, output, reloaded: None, counted, is_over: false };
        input.write_all(serde_json::to_string(&description)?.as_bytes())?;
        Ok(started)
    }

    /// Sends a signal to the process, unless it has ended.
    pub(super) fn signal(&self, how: Signal) -> io::Result<()> {
        if self.is_over { Ok(()) } else { signal(self.process.id(), how) }
    }

    /// Reads the next message; `None` if the process has ended as requested. An error if it could not go on.
    pub(super) fn hear(&mut self) -> Result<Option<Message>, ServeError> {
        let mut line = String::new();
        // The message is the last unless it turns out otherwise below.
        self.is_over = true;
        self.output.read_line(&mut line)?;
        if line.is_empty() {
            let how = self.process.wait()?;
            return Err(self.error(format!("ended: {how}")));
        }
        match serde_json::from_str(&line).map_err(io::Error::from)? {
            Message::Ended(report, why) => {
                self.counted = *report;
                why.map_or(Ok(None), |why| Err(self.error(format!("ended: {why}"))))
            }
            Message::NoZones(why) => Err(ServeError::Zones(why)),
            Message::Stopped(signal) => Err(ServeError::Stopped { signal }),
            Message::Failed(why) => Err(self.error(format!("ended: {why}"))),
            word => {
                self.is_over = false;
                Ok(Some(word))
            }
        }
    }

    /// Whether another message was read together with the last one.
    pub(super) fn has_said_more(&self) -> bool {
        !self.output.buffer().is_empty()
    }

    /// The error for a message that was not expected.
    pub(super) fn out_of_turn(&self) -> ServeError {
        self.error("sent an unexpected message".to_owned())
    }

    fn error(&self, how: String) -> ServeError {
        ServeError::Process { process: self.number, how }
    }

    /// The counts of a process that was asked to stop, and why it could not go on, if so. Waits at most
    /// `patience_ns` for each message.
    pub(super) fn end(&mut self, patience_ns: u64) -> Ended {
        let heard = self.hear_the_end(patience_ns);
        Ended { report: take(&mut self.counted), failed: heard.err() }
    }

    fn hear_the_end(&mut self, patience_ns: u64) -> Result<(), ServeError> {
        while !self.is_over {
            if !self.has_said_more() && !PollSet::new([self.output.get_ref()]).wait(patience_ns)? {
                return Err(self.error("did not stop when asked to".to_owned()));
            }
            match self.hear()? {
                // It had finished a reload before it was asked to stop.
                None | Some(Message::Reloaded(_)) => {}
                Some(_) => return Err(self.out_of_turn()),
            }
        }
        Ok(())
    }
}

/// Hands listening sockets down to a child, and describes them.
fn described(command: &mut Command, listeners: &[ListeningSocket]) -> io::Result<Vec<ListenerDescription>> {
    listeners.iter().map(|listener| ListenerDescription::hand_down(command, listener)).collect()
}

impl AsRawFd for WorkerProcess {
    fn as_raw_fd(&self) -> RawFd {
        self.output.get_ref().as_raw_fd()
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // A process that has reported its counts ends by itself, so killing it loses nothing.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
