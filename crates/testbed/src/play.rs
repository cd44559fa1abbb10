//! A player process: `kqps play`, one for each trial, so that a trial inherits nothing from the one before. It reads
//! the whole request on its standard input and prints the record. The lab and `kqps find` play their trials like this.

use std::ffi::OsString;
use std::io::{self, BufReader, Read, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use kqps_dataset::{Additions, CaptureOptions, Check, Dataset, DatasetError, Format, Options};
use kqps_host::SubjectWatched;
use kqps_kernel::clock;
use kqps_kernel::interrupts::Interrupts;
use kqps_kernel::process::{self, Signal};
use kqps_observation::Trial;
use kqps_player::{Plan, Prefix, TsigKey};
use serde::{Deserialize, Serialize};

use crate::attack::PlayScenario;
use crate::live_sink::LiveSink;
use crate::path::LaidPath;
use crate::starvation::Starvation;
use crate::trial_request::NoTrial;

/// The time that a trial may take beyond sending and draining: opening the dataset and reading counters.
pub const SPARE: Duration = Duration::from_secs(20);

/// The spare time of a player in a run without a budget. On a host at whose cores many programs wait, a player takes
/// many times as long to begin; one that gets no CPU time at all is stopped sooner.
pub const SPARE_UNHURRIED: Duration = Duration::from_mins(1);

/// The least of this time that a budget leaves to a trial.
pub const SPARE_LEAST: Duration = Duration::from_secs(5);

/// How long a killed player is waited for. One that gets no CPU time cannot even end, and is left behind.
const LAST: Duration = Duration::from_secs(2);

/// The interval at which interrupts are looked for while the player runs.
const LOOK: Duration = Duration::from_millis(50);

/// The interval at which the end of a player without output is looked for.
const END_LOOK: Duration = Duration::from_micros(200);

/// The status of a program that was asked to end by a signal is this and the signal's number.
const SIGNALLED: i32 = 128;

/// A trial to play: the message to `kqps play`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlayRequest {
    /// The trial.
    pub plan: Plan,
    /// The queries.
    pub queries: QueryFile,
    /// Classes of clients that play beside this plan, which is that of the good ones. Empty without a scenario.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<PlayClass>,
    /// A scenario that the player reads itself, whose classes play as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<PlayScenario>,
    /// Whether the user has allowed targets that are neither on this host nor in the network for benchmarks.
    pub is_allowed: bool,
    /// The subject to watch.
    pub subject: SubjectWatched,
    /// Whether the player shows its progress on standard error, which it then shares with this process.
    pub shows_bar: bool,
    /// How often the player prints a [`LiveLine`] before its record; `None` for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_every: Option<Duration>,
}

/// A class of clients beside the good ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlayClass {
    /// Its name in the record.
    pub name: String,
    /// How it plays.
    pub plan: Plan,
    /// Its queries.
    pub queries: QueryFile,
    /// A row of EDNS options that each of its queries gets ([`Additions::edns_options`]).
    pub edns_options: Vec<u8>,
    /// Whether its rate is the one that a search varies.
    pub is_sought: bool,
}

impl PlayClass {
    /// Opens its queries.
    pub fn open(&self) -> Result<Dataset, DatasetError> {
        let per_query = &self.plan.per_query;
        self.queries.open_with(Additions {
            edns_options: self.edns_options.clone(),
            labels: per_query.prefix.as_ref().map(Prefix::lengths).unwrap_or_default(),
            tsig: per_query.tsig.as_ref().and_then(TsigKey::key_name),
            ..Additions::default()
        })
    }
}

/// A file of queries, and how to read it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueryFile {
    /// Its path, which may be no text. It is a regular file, since every trial opens it again.
    pub path: OsString,
    /// Its format.
    pub format: Format,
    /// Whether to add EDNS to every query.
    pub edns: bool,
    /// Whether to set the DO bit in every query.
    pub dnssec: bool,
    /// Whether to skip what is no query.
    pub skip_bad: bool,
    /// How answers are checked; `None` for all that the file expects.
    pub check: Option<Check>,
    /// How it is read if it is a capture.
    pub capture: CaptureOptions,
}

impl QueryFile {
    /// A file that is read as it is, and whose expectations are checked.
    pub fn new(path: &Path) -> Self {
        let Options { format, edns, dnssec, skip_bad, capture, .. } = Options::default();
        Self { path: path.into(), format, edns, dnssec, skip_bad, check: None, capture }
    }

    /// Opens it.
    pub fn open(&self) -> Result<Dataset, DatasetError> {
        self.open_with(Additions::default())
    }

    /// Opens it. Every query gets these additions.
    fn open_with(&self, additions: Additions) -> Result<Dataset, DatasetError> {
        let Self { format, edns, dnssec, skip_bad, .. } = *self;
        let capture = self.capture.clone();
        let options = Options { format, edns, dnssec, skip_bad, capture, additions, ..Options::default() };
        let dataset = Dataset::open(Path::new(&self.path), &options)?;
        let expected = dataset.check();
        Ok(dataset.checked(self.check.unwrap_or(expected)))
    }
}

/// The starter of player processes.
#[derive(Clone, Copy, Debug)]
pub struct PlayerProgram<'a> {
    /// The path of this kqps program.
    pub kqps: &'a Path,
    /// The path of queries and replies.
    pub path: &'a LaidPath,
    /// Interrupts of the user, which end the trial.
    pub interrupts: &'a Interrupts,
    /// The receiver of the player's counts while it plays; `None` if there is none.
    pub live: Option<&'a LiveSink>,
    /// The time that a trial may take beyond sending and draining, usually [`SPARE`].
    pub spare: Duration,
}

impl PlayerProgram<'_> {
    /// Plays one trial, and waits until the player has ended, for as long as its plan lasts and [`Self::spare`] at
    /// most. A player that gets no CPU time is killed sooner. If it does not end even then, it is left behind, and ends
    /// when its core is free. The kernel kills the player when the calling thread ends, so the main thread must call
    /// this.
    pub fn play(&self, request: &PlayRequest) -> Result<Played, NoTrial> {
        let request = PlayRequest { live_every: self.live.map(|live| live.every), ..request.clone() };
        let message = serde_json::to_vec(&request).map_err(|error| NoTrial::failed(error.to_string()))?;
        let mut command = Command::new(self.kqps);
        command.arg("play").stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(if request.shows_bar { Stdio::inherit() } else { Stdio::piped() });
        // Elsewhere it would take the time of a subject on the same core.
        if request.plan.has_own_cores() {
            process::tie_measured(&mut command);
        } else {
            process::tie_kqps(&mut command);
        }
        let child = self.path.place_player(&mut command).and_then(|()| command.spawn());
        let mut child =
            child.map_err(|error| NoTrial::failed(format!("the player could not be started: {error}")))?;
        pass(child.stdin.take(), message);
        let beside = request.classes.iter().map(|class| lasts(&class.plan));
        let lasts = beside.fold(lasts(&request.plan), Duration::max);
        let limit = until_start(&request.plan) + lasts + self.spare;
        self.wait(child, limit).map_err(|error| NoTrial::failed(format!("the player was lost: {error}")))
    }

    fn wait(&self, mut child: Child, limit: Duration) -> io::Result<Played> {
        let stdout = read_all(child.stdout.take(), self.live.cloned());
        let stderr = read_all(child.stderr.take(), None);
        let deadline = Instant::now() + limit;
        let mut starvation = Starvation::new(child.id());
        let mut asked_to_end = false;
        let mut killed: Option<(Killed, Instant)> = None;
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
            if let Some((_, since)) = killed {
                if since.elapsed() >= LAST {
                    break String::new();
                }
                continue;
            }
            let why = if self.interrupts.is_urgent() {
                Some(Killed::Interrupted)
            } else if starvation.is_seen() {
                Some(Killed::Starved)
            } else {
                (Instant::now() >= deadline).then_some(Killed::TooLate(limit))
            };
            if let Some(why) = why {
                killed = Some((why, Instant::now()));
                child.kill()?;
            }
        };
        let status = ended(&mut child)?;
        let left_behind = status.is_none().then(|| child.id());
        let stderr = stderr.recv_timeout(LAST).unwrap_or_default();
        Ok(Played { status, killed: killed.map(|(why, _)| why), left_behind, stdout, stderr })
    }
}

/// Passes the message to the player, in another thread: a player that gets no CPU time does not read it.
fn pass(stdin: Option<ChildStdin>, message: Vec<u8>) {
    std::thread::spawn(move || {
        if let Some(mut stdin) = stdin {
            // A player that ended before it read all of it gives the reason on stderr.
            let _ = stdin.write_all(&message);
        }
    });
}

/// How a player ended that has closed its output or was killed; `None` if it does not end.
fn ended(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + LAST;
    loop {
        let status = child.try_wait()?;
        if status.is_some() || Instant::now() >= deadline {
            return Ok(status);
        }
        std::thread::sleep(END_LOOK);
    }
}

/// The time from the start of a plan until its last reply may come.
fn lasts(plan: &Plan) -> Duration {
    plan.stop.after.unwrap_or_default() + plan.lag_allowed.min(SPARE) + plan.timeout + plan.drain
}

/// The time until the start that a plan asks for.
fn until_start(plan: &Plan) -> Duration {
    plan.start_at_ns
        .map_or(Duration::ZERO, |at_ns| Duration::from_nanos(at_ns.saturating_sub(clock::now_ns())))
}

/// Why a player was killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Killed {
    /// The user wants to end at once.
    Interrupted,
    /// It got no CPU time.
    Starved,
    /// It had not ended after this time.
    TooLate(Duration),
}

/// A player that has ended, or was left behind.
#[derive(Debug)]
pub struct Played {
    /// `None` if it did not end after it was killed.
    status: Option<ExitStatus>,
    /// Why it was killed, if it was.
    killed: Option<Killed>,
    /// The process ID of a player that did not end.
    left_behind: Option<u32>,
    stdout: String,
    stderr: String,
}

impl Played {
    /// Why the player limited its trial so much that there is none, in one sentence without its full stop; `None` if it
    /// did not.
    pub fn player_limited(&self) -> Option<String> {
        let why = match self.killed? {
            Killed::Interrupted => return None,
            Killed::Starved => {
                "the player got no CPU time for 3 s, since other programs held its core, and was \
                                killed"
                    .to_owned()
            }
            Killed::TooLate(limit) => {
                format!("the player did not end within {:.0} s and was killed", limit.as_secs_f64())
            }
        };
        Some(match self.left_behind {
            None => why,
            Some(pid) => {
                format!("{why}; its process {pid} is left behind, and ends as soon as it gets its core")
            }
        })
    }

    /// The record of its trial. If the user interrupted the trial, the record says so. If the signal came after the end of
    /// the trial, only the player's status shows it, and the record is whole.
    pub fn trial(&self) -> Result<Trial, NoTrial> {
        let failed = |reason| {
            let output = self.stderr.lines().map(str::to_string).collect();
            Err(NoTrial::Failed { reason, output })
        };
        if let Some(why) = self.player_limited() {
            return failed(format!("player-limited: {why}"));
        }
        let read = serde_json::from_str::<Trial>(&self.stdout);
        let is_success = self.status.is_some_and(|status| status.success());
        let code = self.status.and_then(|status| status.code());
        let was_asked_to_end = code.is_some_and(|code| code > SIGNALLED);
        let ended_well = is_success || read.as_ref().is_ok_and(|trial| trial.interrupted || was_asked_to_end);
        if self.stdout.is_empty() || !ended_well {
            let last = self.stderr.lines().last().unwrap_or("it printed nothing");
            let status = self.status.map_or("it did not end".to_owned(), |status| status.to_string());
            return failed(format!("the player failed ({status}): {last}"));
        }
        read.or_else(|error| failed(format!("what the player printed is not a trial: {error}")))
    }
}

/// Reads a pipe to its end in another thread, so that neither pipe of a child fills up. Live lines are passed on at
/// once.
fn read_all(pipe: Option<impl Read + Send + 'static>, live: Option<LiveSink>) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            let mut pipe = BufReader::new(pipe);
            if let Some(live) = live {
                live.pass_lines(&mut pipe, &mut bytes);
            }
            // After an error, the text so far is all that there is.
            let _ = pipe.read_to_end(&mut bytes);
        }
        // The receiver may have given up.
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    /// A player that ended with this status, after it had printed a whole record.
    fn ended_with(code: i32, trial: &Trial) -> Result<Trial, NoTrial> {
        let played = Played {
            status: Some(ExitStatus::from_raw(code << 8)),
            killed: None,
            left_behind: None,
            stdout: serde_json::to_string(trial).unwrap(),
            stderr: "why".into(),
        };
        played.trial()
    }

    #[test]
    fn a_record_counts_that_was_whole_before_the_signal_came() {
        let (whole, cut) = (Trial::default(), Trial { interrupted: true, ..Trial::default() });
        for (code, trial) in [(0, &whole), (130, &whole), (143, &whole), (130, &cut), (1, &cut)] {
            assert_eq!(ended_with(code, trial).unwrap(), *trial, "{code}");
        }
        for code in [1, 2, 3] {
            assert!(ended_with(code, &whole).is_err(), "{code}");
        }
    }
}
