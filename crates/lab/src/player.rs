//! The player as a child process: `kqps load … --json`, one process for one trial, so that a trial inherits
//! nothing from the one before.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use kqps_kernel::interrupts::Interrupts;
use kqps_kernel::process::{self, Signal};
use kqps_observation::Trial;

use crate::load::{Load, NoTrial, Pace};
use crate::path::LaidPath;
use crate::setup::{SPREAD_PREFIX, Setup};

/// Seconds that a trial may take beyond sending and draining: opening the dataset and reading counters.
const SLACK_S: f64 = 20.0;

/// The exit status of a player that sent nothing, or that got no reply. It still prints its record.
const NOTHING_ANSWERED: i32 = 1;

/// The interval at which the lab checks for an interrupt while the player runs.
const LOOK: Duration = Duration::from_millis(50);

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
    /// The process ID of the subject, if known.
    pub subject_pid: Option<u32>,
    /// The subject's cores.
    pub subject_cpus: &'a [u32],
    /// Interrupts of the user, which end the trial.
    pub interrupts: &'a Interrupts,
}

impl Player<'_> {
    /// Plays one trial. The kernel kills the player when the calling thread ends, so the main thread must call
    /// this.
    pub fn play(&self, load: &Load) -> Result<Trial, NoTrial> {
        let failed = |reason: String| NoTrial::Failed { reason, output: Vec::new() };
        let mut command = Command::new(self.kqps);
        command.args(self.arguments(load));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        process::tie(&mut command);
        let child = self.path.place_player(&mut command).and_then(|()| command.spawn());
        let child = child.map_err(|error| failed(format!("the player could not be started: {error}")))?;
        let limit_s = load.duration_s + 2.0 * self.setup.timeout_s + SLACK_S;
        let said = self
            .wait(child, Duration::from_secs_f64(limit_s))
            .map_err(|error| failed(format!("the player was lost: {error}")))?;
        self.trial_of(&said, limit_s)
    }

    fn arguments(&self, load: &Load) -> Vec<String> {
        let list = |cpus: &[u32]| cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let (pace, how_much) = match load.pace {
            Pace::Open { rate_qps } => ("-Q", rate_qps.to_string()),
            Pace::Closed => ("-q", self.setup.window.to_string()),
        };
        let mut arguments: Vec<String> = vec!["load".into()];
        arguments.extend(self.targets.iter().map(SocketAddr::to_string));
        let mut add = |flag: &str, value: String| arguments.extend([flag.to_string(), value]);
        add("-d", self.queries.display().to_string());
        add(pace, how_much);
        add("-l", format!("{}s", load.duration_s));
        add("-t", format!("{}s", self.setup.timeout_s));
        add("-c", self.setup.sockets.to_string());
        add("--burst", self.setup.burst.to_string());
        if self.setup.spreads_sources {
            add("-a", SPREAD_PREFIX.into());
        }
        if let Some(io) = &self.setup.io {
            add("--io", io.clone());
        }
        if let Some(pid) = self.subject_pid {
            add("--subject-pid", pid.to_string());
        }
        if !self.checks {
            add("--check", "off".into());
        }
        for target in self.targets.iter().filter(|_| self.is_allowed) {
            add("--allow-target", target.ip().to_string());
        }
        if !self.cpus.is_empty() {
            add("-T", self.setup.senders.map_or(self.cpus.len(), |senders| senders as usize).to_string());
            add("--cpus", list(self.cpus));
        }
        if !self.subject_cpus.is_empty() {
            add("--subject-cpus", list(self.subject_cpus));
        }
        if load.purpose.is_for_reasons() {
            arguments.push("--drop-reasons".into());
        }
        arguments.push("--json".into());
        arguments
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
        if !has_record || !matches!(said.status.code(), Some(0 | NOTHING_ANSWERED)) {
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
