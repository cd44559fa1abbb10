//! A program that runs beside this one: pinned, watched through `/proc`, signalled, and ended at the latest
//! when it is dropped.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use kqps_kernel::poll::PollSet;
use kqps_kernel::process::{self, Signal};
use kqps_programs::shell;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::wait::until;

/// Ticks of `utime` and `stime` in one second. Linux shows 100 to every program (proc(5), `USER_HZ`).
const TICKS_PER_S: f64 = 100.0;

/// How long a program may take to end after SIGTERM.
const END_WITHIN: Duration = Duration::from_secs(10);

/// How long a killed program may take to die.
const DEAD_WITHIN: Duration = Duration::from_secs(1);

/// Interval of the checks meanwhile.
const LOOK: Duration = Duration::from_millis(1);

/// A program that runs as a child of this one. Dropping it kills it.
pub struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
    words: String,
}

/// A program that has ended.
pub struct Ended {
    /// Its exit status; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Its standard output since the last read.
    pub output: String,
    /// CPU time of its threads, user and system, seconds; to 10 ms.
    pub cpu_s: f64,
}

/// The line that a server prints when it can answer.
#[derive(Deserialize)]
struct Ready {
    addresses: Vec<std::net::SocketAddr>,
}

impl Running {
    /// Starts a program. This process reads its standard output; its standard error is the user's.
    pub fn start(command: &mut Command) -> Result<Self> {
        let words = shell::words(command);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = process::tie(command).spawn().with_context(|| format!("cannot start {words}"))?;
        let output = BufReader::new(child.stdout.take().context("standard output is piped")?);
        Ok(Self { child, output, words })
    }

    /// Starts a server, and waits for its ready line. Returns it with its first address.
    pub fn server(command: &mut Command) -> Result<(Self, std::net::SocketAddr)> {
        let mut running = Self::start(command)?;
        let address = running.ready()?;
        Ok((running, address))
    }

    /// Reads the next line of its standard output, with its end. Empty if it wrote all that it will write.
    pub fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(line)
    }

    /// Reads the next line of its standard output as JSON. An error if it is no such JSON.
    pub fn json_line<T: DeserializeOwned>(&mut self) -> Result<T> {
        let line = self.line()?;
        serde_json::from_str(&line).with_context(|| format!("{} printed {line:?}", self.words))
    }

    /// Waits for a server's ready line, and returns its first address.
    pub fn ready(&mut self) -> Result<std::net::SocketAddr> {
        let ready: Ready = self.json_line()?;
        ready.addresses.first().copied().with_context(|| format!("{} listens nowhere", self.words))
    }

    /// The program's process ID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// CPU time of its threads so far, user and system, seconds; to 10 ms. It is also known of a process that
    /// has ended and was not waited for.
    pub fn cpu_s(&self) -> Result<f64> {
        Ok(cpu_s(&self.stat()?))
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&self) -> Result<bool> {
        Ok(has_ended(&self.stat()?))
    }

    /// Sends it a signal. An error if the system refuses.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        process::signal(self.pid(), signal).with_context(|| format!("cannot signal {}", self.words))
    }

    /// Stops it for a time, and lets it go on. Returns how long it stood still.
    pub fn stand_still(&self, time: Duration) -> Result<Duration> {
        let began = Instant::now();
        self.signal(Signal::Stop)?;
        std::thread::sleep(time);
        self.signal(Signal::Continue)?;
        Ok(began.elapsed())
    }

    /// Sends SIGTERM, and waits for its end. An error after 10 s.
    pub fn terminate(self) -> Result<Ended> {
        self.signal(Signal::Terminate)?;
        self.wait(END_WITHIN)
    }

    /// Reads the rest of its output, and waits for its end. A program that has not ended within this time is killed, and
    /// that is an error.
    pub fn wait(mut self, within: Duration) -> Result<Ended> {
        let end = Instant::now() + within;
        let late = format!("{} did not end within {} s", self.words, within.as_secs_f64());
        let output = self.rest(end)?.with_context(|| late.clone())?;
        // /proc has its CPU time only until it is waited for.
        let has_ended = || Ok(self.has_ended()?.then_some(()));
        until((end.saturating_duration_since(Instant::now()), LOOK), has_ended, || late.clone())?;
        let cpu_s = self.cpu_s()?;
        Ok(Ended { code: self.child.wait()?.code(), output, cpu_s })
    }

    /// Reads the rest of its output; `None` if the output goes on until this moment.
    fn rest(&mut self, end: Instant) -> Result<Option<String>> {
        let mut bytes = self.output.buffer().to_vec();
        self.output.consume(bytes.len());
        let output = self.output.get_mut();
        let (mut set, mut part) = (PollSet::new([&*output]), vec![0; 1 << 16]);
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            if set.wait(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX))? {
                match output.read(&mut part)? {
                    0 => return Ok(Some(String::from_utf8(bytes)?)),
                    read => bytes.extend_from_slice(&part[..read]),
                }
            }
        }
        Ok(None)
    }

    fn stat(&self) -> Result<String> {
        let path = format!("/proc/{}/stat", self.pid());
        fs::read_to_string(&path).with_context(|| format!("cannot read {path} of {}", self.words))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail if it has ended, and then there is nothing left to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The CPU time from fields 14 and 15 of `/proc/PID/stat` (proc(5)), counted after the name, which may hold
/// any characters.
fn cpu_s(stat: &str) -> f64 {
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks: u64 =
        after_name.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    ticks as f64 / TICKS_PER_S
}

/// Kills the children of this program, each with its process group, and waits up to 1 s until they are dead.
pub fn end_all() {
    let deadline = Instant::now() + DEAD_WITHIN;
    loop {
        let children = children_of(std::process::id());
        if children.is_empty() || Instant::now() > deadline {
            return;
        }
        for child in children {
            // A child that leads no group is killed alone.
            let _ =
                process::signal_group(child, Signal::Kill).or_else(|_| process::signal(child, Signal::Kill));
        }
        std::thread::sleep(LOOK);
    }
}

/// All processes.
pub(crate) fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The processes that work in a folder or below it.
pub(crate) fn working_in(folder: &Path) -> impl Iterator<Item = u32> {
    let works_there =
        move |pid: &u32| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|its| its.starts_with(folder));
    pids().filter(works_there)
}

/// The children of a process that have not ended.
pub(crate) fn children_of(process: u32) -> Vec<u32> {
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.is_ok_and(|stat| parent(&stat) == Some(process) && !has_ended(&stat))
    };
    pids().filter(is_child).collect()
}

/// The parent's process ID, field 4.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// Whether the process has ended: field 3 is `Z` or `X`.
pub(crate) fn has_ended(stat: &str) -> bool {
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// A size in the status of a process (proc(5)), such as `VmRSS`, KiB; `None` if it has ended, or shows none.
pub(crate) fn status_kib(pid: u32, name: &str) -> Option<u64> {
    kib_of(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, name)
}

fn kib_of(status: &str, name: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().strip_suffix(" kB")?.parse().ok()
}

/// A command that runs pinned to cores, given as `0` or `0,2` (taskset(1)).
pub fn pinned(cpus: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", cpus]).arg(program);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_read_after_a_strange_name() {
        let stat = "7 (a ) b) Z 1 7 7 0 -1 4194304 90 0 0 0 150 25 9 9 20 0 1 0 100 0 0";
        assert!((cpu_s(stat) - 1.75).abs() < 1e-9);
        assert!(has_ended(stat) && !has_ended("7 (Z) R 1"));
        assert_eq!(parent("7 (a) b) R 12 7"), Some(12));
    }

    #[test]
    fn a_size_is_read_from_a_status() {
        let status = "Name:\tkqps\nVmHWM:\t   99999 kB\nRssAnon:\t    1234 kB\nRssFile:\t 5 kB\n";
        assert_eq!((kib_of(status, "RssAnon"), kib_of(status, "VmHWM")), (Some(1_234), Some(99_999)));
        assert_eq!((kib_of("Name:\tkqps\n", "RssAnon"), kib_of(status, "Vm")), (None, None));
    }

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        for script in ["echo begun; exec sleep 60", "exec sleep 60 >/dev/null"] {
            let running = Running::start(Command::new("sh").args(["-c", script])).unwrap();
            let pid = running.pid();
            let error = running.wait(Duration::from_millis(200)).map(|_| ()).unwrap_err();
            assert!(error.to_string().contains("did not end within 0.2 s"), "{error}");
            assert!(!Path::new(&format!("/proc/{pid}")).exists());
        }
    }

    #[test]
    fn a_program_that_ended_shows_what_it_used() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo '{\"addresses\": [\"127.0.0.1:9\"]}'; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo rest; exit 3"]);
        let mut running = Running::start(&mut command).unwrap();
        assert_eq!(running.ready().unwrap(), "127.0.0.1:9".parse().unwrap());
        let ended = running.wait(Duration::from_secs(20)).unwrap();
        assert_eq!((ended.code, ended.output.as_str()), (Some(3), "rest\n"));
        assert!(ended.cpu_s > 0.0);
    }
}
