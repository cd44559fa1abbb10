//! The player as a child process: `kqps play`, one process for one trial, so that a trial inherits nothing from the
//! one before. It reads the whole request on its standard input and prints the record.

use std::ffi::OsString;
use std::io::{self, Read, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use kqps_host::SubjectWatched;
use kqps_kernel::interrupts::Interrupts;
use kqps_kernel::process::{self, Signal};
use kqps_observation::Trial;
use kqps_player::Plan;
use serde::{Deserialize, Serialize};

use crate::load::{Load, NoTrial};
use crate::path::LaidPath;
use crate::setup::Setup;

/// Seconds that a trial may take beyond sending and draining: opening the dataset and reading counters.
const SLACK_S: f64 = 20.0;

/// The interval at which the lab checks for an interrupt while the player runs.
const LOOK: Duration = Duration::from_millis(50);

/// A trial to play: the message to `kqps play`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlayRequest {
    /// The trial.
    pub plan: Plan,
    /// The path of the query file. It may be no text.
    pub queries: OsString,
    /// Whether answers are checked against the expectations of the file.
    pub checks: bool,
    /// Whether the user has allowed targets that are neither on this host nor in the network for benchmarks.
    pub is_allowed: bool,
    /// The subject to watch.
    pub subject: SubjectWatched,
}

/// A player with its target.
#[derive(Clone, Debug)]
pub struct Player<'a> {
    /// The path of this kqps program.
    pub kqps: &'a Path,
    /// The path of queries and replies.
    pub path: &'a LaidPath,
    /// The targets; several addresses are used in turn.
    pub targets: &'a [SocketAddr],
    /// Whether the user has allowed targets that are neither on this host nor in the network for benchmarks.
    pub is_allowed: bool,
    /// The path of the query file.
    pub queries: &'a Path,
    /// Whether answers are checked against the expectations of the file.
    pub checks: bool,
    /// Sockets, window, timeout and further settings.
    pub setup: Setup,
    /// The player's cores.
    pub cpus: &'a [u32],
    /// The process ID of the subject; `None` if its process is to be found by its sockets.
    pub subject_pid: Option<u32>,
    /// The subject's cores; empty if they are not known.
    pub subject_cpus: &'a [u32],
    /// Interrupts of the user, which end the trial.
    pub interrupts: &'a Interrupts,
}

impl Player<'_> {
    /// Plays one trial. The kernel kills the player when the calling thread ends, so the main thread must call
    /// this.
    pub fn play(&self, load: &Load) -> Result<Trial, NoTrial> {
        let failed = |reason: String| NoTrial::Failed { reason, output: Vec::new() };
        let request = self.request(load).map_err(failed)?;
        let mut command = Command::new(self.kqps);
        command.arg("play");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        process::tie(&mut command);
        let child = self.path.place_player(&mut command).and_then(|()| command.spawn());
        let mut child = child.map_err(|error| failed(format!("the player could not be started: {error}")))?;
        if let Some(mut stdin) = child.stdin.take() {
            // A player that ended before it read all of it gives the reason on stderr.
            let _ = stdin.write_all(&request);
        }
        let limit_s = load.duration_s + 2.0 * self.setup.timeout_s + SLACK_S;
        let said = self
            .wait(child, Duration::from_secs_f64(limit_s))
            .map_err(|error| failed(format!("the player was lost: {error}")))?;
        self.trial_of(&said, limit_s)
    }

    /// The message that asks for a trial.
    fn request(&self, load: &Load) -> Result<Vec<u8>, String> {
        let mut subject = match self.subject_pid {
            Some(pid) => SubjectWatched::of_processes(vec![pid], self.targets[0].ip()),
            None => SubjectWatched::found(self.targets),
        };
        if !self.subject_cpus.is_empty() {
            subject.cpus = self.subject_cpus.to_vec();
        }
        let request = PlayRequest {
            plan: self.setup.plan(load, self.targets, self.cpus, &subject)?,
            queries: self.queries.into(),
            checks: self.checks,
            is_allowed: self.is_allowed,
            subject,
        };
        serde_json::to_vec(&request).map_err(|error| error.to_string())
    }

    fn wait(&self, mut child: Child, limit: Duration) -> io::Result<Said> {
        let stdout = read_all(child.stdout.take());
        let stderr = read_all(child.stderr.take());
        let deadline = Instant::now() + limit;
        let mut asked_to_end = false;
        let mut too_long = false;
        // The player closes its standard output when it ends.
        let stdout = loop {
            match stdout.recv_timeout(LOOK) {
                Ok(text) => break text,
                Err(RecvTimeoutError::Disconnected) => break String::new(),
                Err(RecvTimeoutError::Timeout) => (),
            }
            if !asked_to_end && self.interrupts.is_asked() {
                asked_to_end = true;
                process::signal(child.id(), Signal::Interrupt)?;
            }
            if self.interrupts.is_urgent() {
                child.kill()?;
            }
            if !too_long && Instant::now() >= deadline {
                too_long = true;
                child.kill()?;
            }
        };
        let status = child.wait()?;
        Ok(Said { status, too_long, stdout, stderr: stderr.recv().unwrap_or_default() })
    }

    fn trial_of(&self, said: &Said, limit_s: f64) -> Result<Trial, NoTrial> {
        let output = || said.stderr.lines().map(str::to_string).collect();
        if self.interrupts.is_asked() {
            return Err(NoTrial::Interrupted);
        }
        if said.too_long {
            let reason = format!("the player did not end within {limit_s:.0} s and was killed");
            return Err(NoTrial::Failed { reason, output: output() });
        }
        let has_record = !said.stdout.is_empty();
        if !has_record || !said.status.success() {
            let last = said.stderr.lines().last().unwrap_or("it printed nothing");
            let reason = format!("the player failed ({}): {last}", said.status);
            return Err(NoTrial::Failed { reason, output: output() });
        }
        serde_json::from_str(&said.stdout).map_err(|error| {
            let reason = format!("what the player printed is not a trial: {error}");
            NoTrial::Failed { reason, output: output() }
        })
    }
}

/// The output of a player that ended.
struct Said {
    status: ExitStatus,
    too_long: bool,
    stdout: String,
    stderr: String,
}

/// Reads a pipe to its end in another thread, so that neither pipe of a child fills up.
fn read_all(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // After an error, the text so far is all that there is.
            let _ = pipe.read_to_end(&mut bytes);
        }
        // The receiver may have given up.
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}
