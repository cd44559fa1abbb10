//! Worker processes: kqps itself, started again, with the parent's sockets open in it. A child is told what to
//! do by one argument and tells what happened by two lines on its standard output: that it can answer, and its
//! counts or the reason why it ends without. It dies with its parent.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::process::{Child as Process, ChildStdout, Command, Stdio};
use std::sync::Arc;

use kqps_kernel::UdpSocket;
use kqps_kernel::poll::PollSet;
use kqps_kernel::process::{Signal, hand_down, handed_down, signal, tie};
use serde::{Deserialize, Serialize};

use crate::io::Model;
use crate::report::Report;
use crate::serve::{Assigned, ServeError};
use crate::setup::Setup;
use crate::sockets::Endpoint;

/// The arguments that make kqps a worker process; the description follows.
pub(crate) const ARGUMENTS: [&str; 3] = ["serve", "echo", "--worker"];

const READY: &str = "ready";

/// How long a process may take to stop: a full batch of the longest work, and more.
const PATIENCE_NS: u64 = 10_000_000_000;

/// What a child is told: descriptors stand for sockets.
#[derive(Debug, Serialize, Deserialize)]
struct Description {
    io: String,
    work_ns: u64,
    workers: Vec<WorkerDescription>,
}

#[derive(Debug, Serialize, Deserialize)]
struct WorkerDescription {
    cpu: Option<u32>,
    /// The receiving and the sending socket of each endpoint; equal when it is the same.
    endpoints: Vec<(RawFd, RawFd)>,
}

/// What a child makes of it.
pub(crate) struct Child {
    pub(crate) io: Model,
    pub(crate) work_ns: u64,
    pub(crate) assigned: Vec<Assigned>,
}

impl Child {
    pub(crate) fn read(description: &str) -> io::Result<Self> {
        let told: Description = serde_json::from_str(description)?;
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
        Ok(Self {
            io: told.io.parse().map_err(io::Error::other)?,
            work_ns: told.work_ns,
            assigned: told.workers.iter().map(assigned).collect::<io::Result<_>>()?,
        })
    }

    /// The sockets that its workers may wait on.
    pub(crate) fn receivers(&self) -> Vec<Arc<UdpSocket>> {
        let endpoints = self.assigned.iter().flat_map(|worker| &worker.endpoints);
        endpoints.map(|endpoint| endpoint.receiver.clone()).collect()
    }
}

/// Tells the parent that this child can answer.
pub(crate) fn tell_ready() -> io::Result<()> {
    writeln!(io::stdout(), "{READY}")
}

/// Tells the parent what was counted, or why it was not.
pub(crate) fn tell_end(outcome: Result<Report, ServeError>) -> io::Result<()> {
    match outcome {
        Ok(report) => writeln!(io::stdout(), "{}", serde_json::to_string(&report)?),
        Err(error) => writeln!(io::stdout(), "{error}"),
    }
}

/// All worker processes, as their parent sees them.
pub(crate) struct Family(Vec<Member>);

struct Member {
    process: Process,
    output: BufReader<ChildStdout>,
}

impl Family {
    /// Starts all processes, and returns when all can answer.
    pub(crate) fn start(setup: &Setup, assigned: &[Assigned]) -> Result<Self, ServeError> {
        let mut family = Self(Vec::new());
        for workers in assigned.chunks(setup.threads as usize) {
            family.0.push(Member::start(setup, workers)?);
        }
        for process in 0..family.0.len() {
            let line = family.0[process].read_line()?;
            if line != READY {
                return Err(family.0[process].ended(process, line)?);
            }
        }
        Ok(family)
    }

    /// Descriptors that can be read as soon as a process has ended.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        self.0.iter().map(|member| member.output.get_ref().as_raw_fd()).collect()
    }

    /// Why there is no sum: a process that has ended by itself.
    pub(crate) fn ended(&mut self, process: usize) -> io::Result<ServeError> {
        let line = self.0[process].read_line()?;
        self.0[process].ended(process, line)
    }

    /// Stops all processes and adds up their counts.
    pub(crate) fn stop(&mut self) -> Result<Report, ServeError> {
        for member in &self.0 {
            signal(member.process.id(), Signal::Terminate)?;
        }
        let mut report = Report::default();
        for process in 0..self.0.len() {
            if !self.0[process].says_something(PATIENCE_NS)? {
                return Err(ServeError::Process { process, how: "did not stop when told to".to_owned() });
            }
            let line = self.0[process].read_line()?;
            match serde_json::from_str::<Report>(&line) {
                Ok(counted) => report.add(counted),
                Err(_) => return Err(self.0[process].ended(process, line)?),
            }
        }
        Ok(report)
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        for Member { process, .. } in &mut self.0 {
            // Those that told their counts end by themselves; nothing is lost by killing any of them now.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Member {
    fn start(setup: &Setup, workers: &[Assigned]) -> io::Result<Self> {
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
        let description = Description { io: setup.io.name().to_owned(), work_ns: setup.work_ns, workers };
        command.args(ARGUMENTS).arg(serde_json::to_string(&description)?);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = tie(&mut command).spawn()?;
        let output = process.stdout.take().ok_or_else(|| io::Error::other("no pipe to a worker process"))?;
        Ok(Self { process, output: BufReader::new(output) })
    }

    /// Whether it said something or ended, within this time.
    fn says_something(&self, timeout_ns: u64) -> io::Result<bool> {
        Ok(!self.output.buffer().is_empty() || PollSet::new([self.output.get_ref()]).wait(timeout_ns)?)
    }

    /// The next line that it says, without its end; empty when it has ended.
    fn read_line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    /// Why it ended: by its last line, or by its exit status.
    fn ended(&mut self, process: usize, line: String) -> io::Result<ServeError> {
        let how = if line.is_empty() { self.process.wait()?.to_string() } else { line };
        Ok(ServeError::Process { process, how: format!("ended: {how}") })
    }
}
