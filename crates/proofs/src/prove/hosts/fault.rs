//! The faults that a run over several hosts must survive, each made for real.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use kqps_kernel::process::{self, Signal};
use kqps_programs::shell;
use strum::VariantArray;

use super::host::{LabHost, Process};
use super::lab::Lab;
use super::leftovers::Remains;
use super::sshd::Sshd;
use crate::child::children_of;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray)]
pub(super) enum Fault {
    /// `kill -9` of the controller.
    Controller,
    /// `kill -9` of the program by which it reaches a host.
    Way,
    /// `kill -9` of the agent on a host.
    Agent,
    /// `kill -9` of the sshd that holds the agent's connection.
    Session,
    /// `kill -9` of the sshd that accepts connections.
    Listener,
    /// `kill -9` of the name server.
    Subject,
    /// The control link of a host is down until its agent has given up, and then up.
    ControlLink,
    /// The controller's own link is down for a quarter of a minute.
    ControllerLink,
    /// The control link of a host is down for a second.
    Blink,
    /// The link for queries of a host is down for a second.
    DataLink,
    /// The disk of a host gets full, and then has room again.
    DiskFull,
    /// The kqps of the hosts is replaced by another build, and the controller is killed. Later the right one is back.
    OtherVersion,
    /// The wall clock of the machine jumps by 3 s, and back a second later.
    ClockSet,
}

impl Fault {
    /// Faults of the small form. A clock that jumps would disturb other tests.
    pub(super) const SMALL: [Self; 6] =
        [Self::Controller, Self::Way, Self::Agent, Self::Session, Self::Subject, Self::ControlLink];

    /// The fault in words.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Controller => "kill -9 of the controller",
            Self::Way => "kill -9 of what reaches a host",
            Self::Agent => "kill -9 of an agent",
            Self::Session => "kill -9 of an agent's sshd",
            Self::Listener => "kill -9 of the listening sshd",
            Self::Subject => "kill -9 of the subject",
            Self::ControlLink => "a control link down for long",
            Self::ControllerLink => "the controller's link down for long",
            Self::Blink => "a control link down for a second",
            Self::DataLink => "a link for queries down for a second",
            Self::DiskFull => "a full disk",
            Self::OtherVersion => "another version of kqps",
            Self::ClockSet => "a wall clock that is set",
        }
    }

    /// Whether a trial may fail by it, so that a failure is stored. A lost agent or link is no result of the subject.
    pub(super) fn may_fail_a_trial(self) -> bool {
        matches!(self, Self::Subject | Self::DataLink | Self::DiskFull)
    }
}

/// How long a link is down that must not end anything, and a clock wrong.
const MOMENT: Duration = Duration::from_secs(1);

/// How long the controller is cut off: longer than an agent waits, and shorter than a controller tries again.
pub(super) const OUTAGE: Duration = Duration::from_secs(15);

/// By how much the clock is set.
const JUMP: Duration = Duration::from_secs(3);

/// How long a process may take to appear.
const APPEAR_WITHIN: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(5);

/// Waits for a process of a host whose command line is like this.
fn process_of(host: &LabHost, is_it: impl Fn(&Process) -> bool) -> Result<Process> {
    let end = Instant::now() + APPEAR_WITHIN;
    loop {
        if let Some(found) = host.processes().into_iter().find(&is_it) {
            return Ok(found);
        }
        if Instant::now() > end {
            bail!("no such process runs on {}: {:?}", host.name, host.processes());
        }
        std::thread::sleep(LOOK);
    }
}

/// The agent of a host.
pub(super) fn agent(host: &LabHost) -> Result<Process> {
    process_of(host, Process::is_agent)
}

/// Kills the agent of a host. Returns what must end with it.
pub(super) fn kill_agent(host: &LabHost) -> Result<Remains> {
    kill_with(host, &agent(host)?)
}

/// Kills the sshd that holds the agent's connection.
pub(super) fn kill_session(host: &LabHost) -> Result<Remains> {
    let session = process_of(host, |process| Sshd::parse(&process.words) == Some(Sshd::Session))?;
    kill_with(host, &session)
}

/// Kills the sshd that accepts connections, and waits until another one does.
pub(super) fn kill_listener(host: &LabHost) -> Result<Remains> {
    let listener = process_of(host, |process| Sshd::parse(&process.words) == Some(Sshd::Listener))?;
    process::signal(listener.pid, Signal::Kill)?;
    host.accepts()?;
    Ok(Remains::default())
}

/// Kills the name server.
pub(super) fn kill_subject(lab: &Lab) -> Result<Remains> {
    let subject = process_of(lab.server(), |process| process.words.contains(" serve echo "))?;
    process::signal(subject.pid, Signal::Kill)?;
    Ok(Remains::of_process(subject))
}

/// Kills a program by which the controller reaches a host. Returns what there was on that host.
pub(super) fn kill_way(lab: &Lab, controller: u32, random: &mut fastrand::Rng) -> Result<Remains> {
    let end = Instant::now() + APPEAR_WITHIN;
    loop {
        let mut clients = children_of(controller);
        random.shuffle(&mut clients);
        for client in clients {
            let line = fs::read(format!("/proc/{client}/cmdline")).unwrap_or_default();
            let words: Vec<String> = line
                .split(|byte| *byte == 0)
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect();
            let is_way_to = |host: &&LabHost| words.contains(&host.name) || host.is_entered_by(&words);
            if let Some(host) = lab.hosts.iter().find(is_way_to) {
                let remains = Remains::read(host);
                process::signal(client, Signal::Kill)?;
                return Ok(remains);
            }
        }
        if Instant::now() > end {
            bail!("the controller reaches no host");
        }
        std::thread::sleep(LOOK);
    }
}

fn kill_with(host: &LabHost, victim: &Process) -> Result<Remains> {
    let remains = Remains::read(host);
    process::signal(victim.pid, Signal::Kill).with_context(|| format!("cannot kill `{}`", victim.words))?;
    Ok(remains)
}

/// Takes the control link of a host down for a second.
pub(super) fn blink(lab: &Lab, host: &LabHost) -> Result<()> {
    lab.control.set(&host.control_port, false)?;
    std::thread::sleep(MOMENT);
    lab.control.set(&host.control_port, true)
}

/// Takes the link of a host for queries down for a second.
pub(super) fn unplug(lab: &Lab, host: &LabHost) -> Result<Remains> {
    lab.data.set(&host.data_port, false)?;
    std::thread::sleep(MOMENT);
    lab.data.set(&host.data_port, true)?;
    Ok(Remains::default())
}

/// Fills the disk of a host. The returned file has all the room there was.
pub(super) fn fill(host: &LabHost) -> Result<Filled> {
    let filled = Filled(host.path(&host.home.join("full")));
    let mut file = fs::File::create(&filled.0)?;
    let block = vec![0; 1 << 16];
    // It ends with the error that there is no room.
    while file.write_all(&block).is_ok() {}
    Ok(filled)
}

/// A file that fills a disk. Dropping it frees the room.
pub(super) struct Filled(std::path::PathBuf);

impl Drop for Filled {
    fn drop(&mut self) {
        // If the host has ended, so has its disk.
        let _ = fs::remove_file(&self.0);
    }
}

/// Puts a program in place of another one that may be running. `more` is written behind it, which changes its hash and
/// not what it does.
pub(super) fn install(program: &Path, at: &Path, more: &[u8]) -> Result<()> {
    let part = at.with_extension("part");
    fs::copy(program, &part)?;
    fs::OpenOptions::new().append(true).open(&part)?.write_all(more)?;
    fs::rename(&part, at).with_context(|| format!("cannot replace {}", at.display()))
}

/// Sets the wall clock, and back.
pub(super) fn set_clock() -> Result<Remains> {
    let began = Instant::now();
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let jumped = Jumped { began, real: now };
    set_date(now + JUMP)?;
    std::thread::sleep(MOMENT);
    drop(jumped);
    Ok(Remains::default())
}

/// A clock that was set. Dropping it sets the clock right, by the time that has passed.
struct Jumped {
    began: Instant,
    real: Duration,
}

impl Drop for Jumped {
    fn drop(&mut self) {
        if let Err(error) = set_date(self.real + self.began.elapsed()) {
            eprintln!("the wall clock is wrong, and cannot be set: {error:#}");
        }
    }
}

fn set_date(to: Duration) -> Result<()> {
    let mut date = Command::new("date");
    date.arg(format!("--set=@{}.{:09}", to.as_secs(), to.subsec_nanos()));
    shell::read(&mut date).map(drop)
}
