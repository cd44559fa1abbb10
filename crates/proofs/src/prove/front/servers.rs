//! A front and its back ends, started and stopped as a user would.

use std::io::Read as _;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kqps_kernel::process::Signal;
use kqps_observation::Trial;

use super::super::Bench;
use super::counts::FrontCounts;
use crate::child::{Running, pinned};
use crate::wait::until;
use kqps_faults::back_end::{BackEnd, Transport};

/// How long a front may take to end after SIGTERM.
const STOPS_WITHIN: Duration = Duration::from_secs(2);

/// Interval between two readings of a front's counts.
const LOOK: Duration = Duration::from_millis(10);

pub(super) struct Front {
    running: Running,
    pub(super) address: SocketAddr,
    status: PathBuf,
}

impl Front {
    /// Starts a front before these back ends, named `b0` and so on. No other front may have the same `name`.
    pub(super) fn start(bench: &Bench, name: &str, urls: &[String], flags: &[&str]) -> Result<Self> {
        let cpu = bench.kqps.subject_cpu.to_string();
        Self::start_as(pinned(&cpu, &bench.kqps.program), bench, name, urls, flags)
    }

    /// Starts a front with a higher priority on its core, if that is permitted. In production a front has a core of its
    /// own.
    pub(super) fn start_first(bench: &Bench, name: &str, urls: &[String]) -> Result<Self> {
        let cpu = bench.kqps.subject_cpu.to_string();
        let mut command = Command::new("nice");
        command.args(["-n", "-15", "taskset", "--cpu-list", &cpu]).arg(&bench.kqps.program);
        Self::start_as(command, bench, name, urls, &[])
    }

    /// Starts a front with a limit on its descriptors.
    pub(super) fn start_limited(bench: &Bench, descriptors: u32, urls: &[String]) -> Result<Self> {
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={descriptors}:{descriptors}")).arg(&bench.kqps.program);
        Self::start_as(command, bench, "limited", urls, &[])
    }

    fn start_as(
        mut command: Command,
        bench: &Bench,
        name: &str,
        urls: &[String],
        flags: &[&str],
    ) -> Result<Self> {
        let status = bench.folder.path().join(format!("{name}.status"));
        command.args(["serve", "front", "--json", "--listen", "127.0.0.1:0", "--for", "1h"]);
        command.arg("--status").arg(&status).args(flags);
        for (number, url) in urls.iter().enumerate() {
            command.arg("--backend").arg(format!("b{number}={url}"));
        }
        let (running, address) = Running::server(&mut command)?;
        Ok(Self { running, address, status })
    }

    /// Its counts while it runs.
    pub(super) fn status(&self) -> Result<FrontCounts> {
        let mut text = String::new();
        UnixStream::connect(&self.status)
            .and_then(|mut stream| stream.read_to_string(&mut text))
            .context("the front does not report its counts")?;
        serde_json::from_str(&text).with_context(|| format!("the front reported {text:?}"))
    }

    /// Waits until its counts meet a condition, which `what` describes. Returns how long that took.
    pub(super) fn wait_until(
        &self,
        what: &str,
        within: Duration,
        is_it: impl Fn(&FrontCounts) -> bool,
    ) -> Result<Duration> {
        let began = Instant::now();
        let reported = || Ok(is_it(&self.status()?).then(|| began.elapsed()));
        until((within, LOOK), reported, || {
            format!("within {within:?} the front did not report {what}: {:?}", self.status())
        })
    }

    /// Waits until it would send queries to all of its back ends.
    pub(super) fn is_ready(&self, back_ends: usize) -> Result<()> {
        let all_up =
            |counts: &FrontCounts| counts.back_ends.values().filter(|at| at.up > 0).count() == back_ends;
        self.wait_until("that all back ends are up", Duration::from_secs(10), all_up).map(drop)
    }

    /// Ends it. An error if that takes too long, or if its counts do not add up.
    pub(super) fn stop(self) -> Result<FrontCounts> {
        let began = Instant::now();
        self.running.signal(Signal::Terminate)?;
        let ended = self.running.wait(STOPS_WITHIN)?;
        let took = began.elapsed();
        ensure!(ended.code == Some(0), "the front ended with {:?}", ended.code);
        ensure!(took < STOPS_WITHIN, "the front took {:.1} s to end", took.as_secs_f64());
        let counts: FrontCounts = serde_json::from_str(ended.output.trim())
            .with_context(|| format!("on stop the front said {:?}", ended.output))?;
        counts.check()?;
        Ok(counts)
    }
}

/// Back ends without faults.
pub(super) fn back_ends(
    bench: &Bench,
    transport: Transport,
    name: &str,
    count: usize,
) -> Result<Vec<BackEnd>> {
    let start = |number| {
        let name = format!("{name}-{number}");
        BackEnd::start(transport, bench.folder.path(), &name, bench.seed + number as u64)
    };
    (0..count).map(start).collect()
}

pub(super) fn urls(back_ends: &[BackEnd]) -> Vec<String> {
    back_ends.iter().map(BackEnd::url).collect()
}

/// Our authoritative server as a back end, in a process that can be stopped and killed.
pub(super) struct Server {
    pub(super) running: Running,
    address: SocketAddr,
    unix: PathBuf,
}

impl Server {
    pub(super) fn start(bench: &Bench, zone: &Path, name: &str) -> Result<Self> {
        let unix = bench.folder.path().join(format!("{name}.sock"));
        let mut command = Command::new(&bench.kqps.program);
        command.args(["serve", "auth", "--json", "--for", "1h"]);
        command.args(["--listen", "127.0.0.1:0", "--zone"]).arg(zone).arg("--unix").arg(&unix);
        let (running, address) = Running::server(&mut command)?;
        Ok(Self { running, address, unix })
    }

    /// Its URL for `kqps serve front --backend`.
    pub(super) fn url(&self, transport: Transport) -> String {
        match transport {
            Transport::Udp => format!("udp://{}", self.address),
            Transport::Tcp => format!("tcp://{}", self.address),
            Transport::Unix => format!("unix:{}", self.unix.display()),
        }
    }
}

/// Half of the capacity of a front before these back ends, found by a short closed loop, queries a second.
pub(super) fn half_of_capacity(bench: &Bench, urls: &[String], queries: &Path) -> Result<f64> {
    let front = Front::start(bench, "capacity", urls, &[])?;
    front.is_ready(urls.len())?;
    let trial = bench.kqps.trial(front.address, queries, &["-T", "1", "-q", "200", "-l", "2s"])?;
    front.stop()?;
    eprintln!("capacity before {} back ends: {:.0} q/s", urls.len(), trial.load.answered_qps);
    Ok(trial.load.answered_qps / 2.0)
}

/// The number of a trial's failed queries: those without an answer in time, and those that no back end could
/// answer. An error if the accounts do not add up, or if an answer is wrong in any other way.
pub(super) fn failures(trial: &Trial) -> Result<u64> {
    trial.accounts.check()?;
    let accounts = &trial.accounts;
    let refused: u64 =
        trial.wrong_rcodes.iter().filter(|(pair, _)| pair.ends_with("got SERVFAIL")).map(|(_, n)| n).sum();
    ensure!(
        accounts.wrong == refused && accounts.unsolicited == 0 && accounts.duplicate == 0,
        "wrong answers: {accounts:?}, {:?}, {:?}",
        trial.wrong_causes,
        trial.wrong_rcodes
    );
    Ok(accounts.lost + accounts.late + refused)
}
