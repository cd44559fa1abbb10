//! kqps itself, run as a user would: its echo as a subject, its player, and their queries.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use kqps_dataset::Digest;
use kqps_kernel::{affinity, port};
use kqps_message::{query, rcode, rtype};
use kqps_observation::Trial;
use kqps_testbed::path::LaidPath;
use serde::Deserialize;

use crate::child::{Running, pinned};
pub use kqps_faults::streams::Kind as Carrier;

/// A built kqps, with the cores of player and subject.
#[derive(Clone)]
pub struct Program {
    /// Path of the program.
    pub program: PathBuf,
    /// The core of players.
    pub player_cpu: u32,
    /// The core of subjects: another one, if there are two.
    pub subject_cpu: u32,
}

/// A trial that `kqps load` played.
pub struct Played {
    /// Its record; `None` if the player printed none.
    pub trial: Option<Trial>,
    /// The codes of its warnings.
    pub warnings: Vec<String>,
    /// The exit status; `None` if a signal ended it.
    pub code: Option<i32>,
    /// CPU seconds of the player, from its start to its end.
    pub cpu_s: f64,
}

/// The JSON that `kqps load --json` prints.
#[derive(Deserialize)]
struct Printed {
    #[serde(flatten)]
    trial: Trial,
    #[serde(default)]
    warnings: Vec<WarningPrinted>,
}

#[derive(Deserialize)]
struct WarningPrinted {
    code: String,
}

impl Program {
    /// A program, with the first and the last core that this process may use. An error if there is no such
    /// file.
    pub fn new(program: impl Into<PathBuf>) -> Result<Self> {
        let program = program.into();
        if !program.is_file() {
            bail!("there is no program {}; build it first", program.display());
        }
        let cpus = affinity::allowed().context("cannot read which cores may be used")?;
        let (Some(&player_cpu), Some(&subject_cpu)) = (cpus.first(), cpus.last()) else {
            bail!("no core may be used");
        };
        Ok(Self { program, player_cpu, subject_cpu })
    }

    /// Starts an echo with one worker under an I/O model, and waits until it can answer.
    pub fn echo(&self, io: &str) -> Result<(Running, SocketAddr)> {
        Running::server(&mut self.echo_command(&["--listen", "127.0.0.1:0", "--io", io]))
    }

    /// Starts an echo with one worker under an I/O model at the subject's end of a path, and waits until it can answer.
    pub fn echo_over(&self, io: &str, path: &LaidPath) -> Result<(Running, SocketAddr)> {
        let address = free_address(path)?;
        let mut command = self.echo_command(&["--listen", &address.to_string(), "--io", io]);
        path.place_subject(&mut command).context("entering a network namespace")?;
        Ok((Running::server(&mut command)?.0, address))
    }

    /// Starts an echo with one worker at the subject's end of a path, and waits until it can answer over connections.
    /// Returns their address.
    pub fn stream_echo(&self, carrier: Carrier, path: &LaidPath) -> Result<(Running, SocketAddr)> {
        let address = free_address(path)?;
        let mut command = self.stream_echo_command(carrier, address);
        path.place_subject(&mut command).context("entering a network namespace")?;
        Ok((Running::server(&mut command)?.0, address))
    }

    /// The command of an echo with one worker that listens for connections at this address. Its datagrams have a port
    /// of their own, unless its connections are those of TCP.
    pub fn stream_echo_command(&self, carrier: Carrier, address: SocketAddr) -> Command {
        if carrier == Carrier::Tcp {
            // Room for all connections that a player leaves behind. Players alone end connections: one of a long replay
            // may be idle for longer than servers wait.
            let room = ["--tcp-connections", "131072", "--tcp-per-client", "131072", "--tcp-idle", "1h"];
            let mut command = self.echo_command(&["--listen", &address.to_string(), "--tcp"]);
            command.args(room);
            command
        } else {
            let datagrams = SocketAddr::new(address.ip(), 0).to_string();
            let connections = format!("{}://{address}", carrier.name());
            self.echo_command(&["--listen", &datagrams, "--listen", &connections])
        }
    }

    fn echo_command(&self, flags: &[&str]) -> Command {
        let mut command = self.serve("echo");
        command.args(["--cpus", &self.subject_cpu.to_string()]).args(flags);
        // It ends by itself if this program dies without ending it, and its buffer holds a second of queries.
        command.args(["--for", "1h", "--buffer", "64MiB"]);
        command
    }

    /// The command of a server of this kind, pinned to the subject's core.
    pub fn serve(&self, kind: &str) -> Command {
        let mut command = pinned(&self.subject_cpu.to_string(), &self.program);
        command.args(["serve", kind, "--json"]);
        command
    }

    /// Starts an authoritative server of one zone with one worker under an I/O model, and waits until it can answer.
    pub fn auth(&self, zone: &Path, io: &str) -> Result<(Running, SocketAddr)> {
        let mut command = self.serve("auth");
        command.args(["--listen", "127.0.0.1:0", "--io", io, "--cpus", &self.subject_cpu.to_string()]);
        command.args(["--for", "1h", "--zone"]).arg(zone);
        Running::server(&mut command)
    }

    /// Starts `kqps load` at a target; `flags` set the load.
    pub fn start_load(&self, target: SocketAddr, queries: &Path, flags: &[&str]) -> Result<Running> {
        Running::start(&mut self.load_command(target, queries, flags))
    }

    /// The command of `kqps load` at a target; `flags` set the load.
    pub fn load_command(&self, target: SocketAddr, queries: &Path, flags: &[&str]) -> Command {
        let cpu = self.player_cpu.to_string();
        let mut command = pinned(&cpu, &self.program);
        command.args(["load", &target.to_string(), "--json", "--cpus", &cpu, "--queries"]).arg(queries);
        command.args(flags);
        command
    }

    /// Starts a player at its end of a path.
    pub fn start_load_over(
        &self,
        path: &LaidPath,
        target: SocketAddr,
        queries: &Path,
        flags: &[&str],
    ) -> Result<Running> {
        start_at_player(path, &mut self.load_command(target, queries, flags))
    }

    /// Plays a trial to its end.
    pub fn load(&self, target: SocketAddr, queries: &Path, flags: &[&str]) -> Result<Played> {
        finish(self.start_load(target, queries, flags)?)
    }

    /// Plays a trial that must have a record, whatever its warnings.
    pub fn trial(&self, target: SocketAddr, queries: &Path, flags: &[&str]) -> Result<Trial> {
        self.load(target, queries, flags)?.measured()
    }
}

/// Starts a player at its end of a path.
pub(crate) fn start_at_player(path: &LaidPath, command: &mut Command) -> Result<Running> {
    path.place_player(command).context("entering a network namespace")?;
    Running::start(command)
}

/// A free address at the subject's end of a path.
fn free_address(path: &LaidPath) -> Result<SocketAddr> {
    let host = path.subject_address();
    path.at_subject(|| port::free(host, 1)).context("no port is free for an echo")
}

impl Played {
    /// The record. An error if there is none.
    pub fn measured(self) -> Result<Trial> {
        self.trial.with_context(|| format!("kqps load measured nothing; it ended with {:?}", self.code))
    }
}

/// The longest time from the call to the end of the trial and of its process. The longest trial is awaited for ten minutes.
const END_WITHIN: Duration = Duration::from_mins(30);

/// Waits for a player's end, and reads its record.
pub fn finish(player: Running) -> Result<Played> {
    let ended = player.wait(END_WITHIN)?;
    let printed: Option<Printed> = match ended.output.trim() {
        "" => None,
        text => Some(serde_json::from_str(text).context("kqps load printed what is not a trial")?),
    };
    let (trial, warnings) = printed.map(|printed| (printed.trial, printed.warnings)).unzip();
    let codes = warnings.unwrap_or_default().into_iter().map(|warning| warning.code).collect();
    Ok(Played { trial, warnings: codes, code: ended.code, cpu_s: ended.cpu_s })
}

/// The expectation in each line of a query file. dnsperf understands no such column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// No expectation.
    Nothing,
    /// The rcode NOERROR.
    Rcode,
    /// NOERROR, and the digest of the relay's answer.
    Answer,
}

/// Writes a query file of `count` names of equal length, in a seeded random order.
pub fn write_queries(path: &Path, count: u32, expected: Expected) -> Result<()> {
    let mut names: Vec<u32> = (0..count).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut names);
    let mut text = String::new();
    let mut scratch = Vec::new();
    for name in names {
        let name = format!("n{name:06}.example.test");
        match expected {
            Expected::Nothing => writeln!(text, "{name} A")?,
            Expected::Rcode => writeln!(text, "{name} A NOERROR")?,
            Expected::Answer => {
                let mut message = Vec::new();
                query::write(&mut message, name.as_bytes(), rtype::A, None)?;
                kqps_faults::relay::answer(&mut message);
                let digest = Digest::of_reply(&message, rcode::NOERROR, &mut scratch)
                    .context("an answer is malformed")?;
                writeln!(text, "{name} A NOERROR ={:016x}", digest.number())?;
            }
        }
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
