//! The faults that a run over several hosts must survive, each made for real.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use kqps_kernel::process::{self, Signal};

use super::host::{LabHost, Process};
use super::lab::Lab;
use crate::child::children_of;
use crate::shell;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// `kill -9` of the controller.
    Controller,
    /// `kill -9` of the ssh by which it reaches a host.
    Ssh,
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
    /// The control link of a host is down for a second.
    Blink,
    /// The link for queries of a host is down for a second.
    DataLink,
    /// The disk of a host is full when the run goes on, and then has room again.
    DiskFull,
    /// The kqps of the hosts is another one when the run goes on, and then the right one again.
    OtherVersion,
    /// The wall clock of the machine jumps by 3 s, and back a second later.
    ClockSet,
}

impl Fault {
    /// Those of the small form. A clock that jumps would disturb other tests.
    pub(super) const SMALL: [Self; 6] =
        [Self::Controller, Self::Ssh, Self::Agent, Self::Session, Self::Subject, Self::ControlLink];

    pub(super) const ALL: [Self; 12] = [
        Self::Controller,
        Self::Ssh,
        Self::Agent,
        Self::Session,
        Self::Listener,
        Self::Subject,
        Self::ControlLink,
        Self::Blink,
        Self::DataLink,
        Self::DiskFull,
        Self::OtherVersion,
        Self::ClockSet,
    ];

    /// The fault in words.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Controller => "kill -9 of the controller",
            Self::Ssh => "kill -9 of ssh",
            Self::Agent => "kill -9 of an agent",
            Self::Session => "kill -9 of an agent's sshd",
            Self::Listener => "kill -9 of the listening sshd",
            Self::Subject => "kill -9 of the subject",
            Self::ControlLink => "a control link down for long",
            Self::Blink => "a control link down for a second",
            Self::DataLink => "a link for queries down for a second",
            Self::DiskFull => "a full disk",
            Self::OtherVersion => "another version of kqps",
            Self::ClockSet => "a wall clock that is set",
        }
    }
}

/// How long a link is down that must not end anything, and a clock wrong.
const MOMENT: Duration = Duration::from_secs(1);

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

/// Kills the agent of a host. Returns what else of kqps ran there, which must end with it.
pub(super) fn kill_agent(host: &LabHost) -> Result<Vec<Process>> {
    let agent = process_of(host, |process| process.words.ends_with(" agent"))?;
    kill_with(host, &agent)
}

/// Kills the sshd that holds the agent's connection.
pub(super) fn kill_session(host: &LabHost) -> Result<Vec<Process>> {
    let session = process_of(host, |process| process.words.starts_with("sshd: root"))?;
    kill_with(host, &session)
}

/// Kills the sshd that accepts connections, and waits until another one does.
pub(super) fn kill_listener(host: &LabHost) -> Result<Vec<Process>> {
    let is_listener =
        |process: &Process| process.words.contains("/sshd ") && !process.words.starts_with("sshd: root");
    let listener = process_of(host, is_listener)?;
    process::signal(listener.pid, Signal::Kill)?;
    host.accepts()?;
    Ok(Vec::new())
}

/// Kills the name server.
pub(super) fn kill_subject(lab: &Lab) -> Result<Vec<Process>> {
    let subject = process_of(lab.server(), |process| process.words.contains(" serve echo "))?;
    process::signal(subject.pid, Signal::Kill)?;
    Ok(vec![subject])
}

/// Kills an ssh of the controller. Returns what of kqps ran on the host that it reached.
pub(super) fn kill_ssh(lab: &Lab, controller: u32, random: &mut fastrand::Rng) -> Result<Vec<Process>> {
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
            let is_ssh = words.first().is_some_and(|first| first == "ssh" || first.ends_with("/ssh"));
            let reached = lab.hosts.iter().find(|host| words.contains(&host.name));
            if let (true, Some(host)) = (is_ssh, reached) {
                let with_it = host.strangers();
                process::signal(client, Signal::Kill)?;
                return Ok(with_it);
            }
        }
        if Instant::now() > end {
            bail!("the controller has no ssh");
        }
        std::thread::sleep(LOOK);
    }
}

fn kill_with(host: &LabHost, victim: &Process) -> Result<Vec<Process>> {
    let with_it = host.strangers();
    process::signal(victim.pid, Signal::Kill).with_context(|| format!("cannot kill `{}`", victim.words))?;
    Ok(with_it)
}

/// Takes the control link of a host down for a second.
pub(super) fn blink(lab: &Lab, host: &LabHost) -> Result<Vec<Process>> {
    lab.control.set(&host.control_port, false)?;
    std::thread::sleep(MOMENT);
    lab.control.set(&host.control_port, true)?;
    Ok(Vec::new())
}

/// Takes the link of a host for queries down for a second.
pub(super) fn unplug(lab: &Lab, host: &LabHost) -> Result<Vec<Process>> {
    lab.data.set(&host.data_port, false)?;
    std::thread::sleep(MOMENT);
    lab.data.set(&host.data_port, true)?;
    Ok(Vec::new())
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
pub(super) fn set_clock() -> Result<Vec<Process>> {
    let began = Instant::now();
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let jumped = Jumped { began, real: now };
    set_date(now + JUMP)?;
    std::thread::sleep(MOMENT);
    drop(jumped);
    Ok(Vec::new())
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
