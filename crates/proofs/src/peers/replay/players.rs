//! The programs that replay a capture: their command lines, and what they say of it.

use std::net::SocketAddrV4;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use kqps_kernel::namespace::veth;
use kqps_testbed::path::LaidPath;
use serde_json::{Value, json};

use crate::path::{self, SOURCES};
use crate::peers::server::FRAMES;
use crate::peers::{Bench, players};
use crate::program;

/// A program that replays captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Replayer {
    /// `kqps load` with captured arrivals, through sockets.
    Kqps,
    /// `kqps load` with captured arrivals, past the kernel's network stack.
    KqpsFrames,
    /// Raw frames on the device, without regard to what comes back.
    Tcpreplay,
    /// Queries from one socket. It waits for answers: more than some thousand without one stop it.
    Dnsreplay,
}

impl Replayer {
    pub(super) const ALL: [Self; 4] = [Self::Kqps, Self::KqpsFrames, Self::Tcpreplay, Self::Dnsreplay];

    /// Its words in tables.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Kqps => "replay of a capture by kqps",
            Self::KqpsFrames => "replay of a capture by kqps --io xdp",
            Self::Tcpreplay => "replay of a capture by tcpreplay",
            Self::Dnsreplay => "replay of a capture by dnsreplay, whose queries are answered",
        }
    }

    /// Whether it is kqps, which alone is held to limits.
    pub(super) fn is_ours(self) -> bool {
        matches!(self, Self::Kqps | Self::KqpsFrames)
    }

    /// Whether it stops without answers.
    pub(super) fn needs_answers(self) -> bool {
        self == Self::Dnsreplay
    }

    /// Why it cannot play on this host; `None` if it can.
    pub(super) fn lacks(self) -> Option<String> {
        if self == Self::KqpsFrames {
            return path::lacks_frames();
        }
        self.program().and_then(players::lacks_program)
    }

    /// The program; `None` for kqps.
    fn program(self) -> Option<&'static str> {
        match self {
            Self::Kqps | Self::KqpsFrames => None,
            Self::Tcpreplay => Some("tcpreplay"),
            Self::Dnsreplay => Some("dnsreplay"),
        }
    }

    /// Replays a file once, on the player's core and at the player's end of a path. Returns what it says, and its CPU
    /// seconds.
    pub(super) fn play(
        self,
        bench: &Bench<'_>,
        path: &LaidPath,
        file: &Path,
        target: SocketAddrV4,
    ) -> Result<Value> {
        match self {
            Self::Kqps => kqps(bench, path, file, target, &[]),
            Self::KqpsFrames => kqps(bench, path, file, target, &["--io", FRAMES, "-m", "udp"]),
            Self::Tcpreplay => self.other(bench, path, &["-i".into(), veth::DEVICE.into(), shown(file)]),
            Self::Dnsreplay => {
                self.other(bench, path, &[shown(file), target.ip().to_string(), target.port().to_string()])
            }
        }
    }

    fn other(self, bench: &Bench<'_>, path: &LaidPath, arguments: &[String]) -> Result<Value> {
        let program = self.program().context("kqps is started in another way")?;
        let (ended, words) = players::run(bench, path, program, arguments)?;
        ensure!(ended.code == Some(0), "{words} ended with {:?}: {}", ended.code, ended.output);
        Ok(json!({ "cpu_s": ended.cpu_s, "output": ended.output }))
    }
}

fn shown(file: &Path) -> String {
    file.display().to_string()
}

/// Replays with one thread on a core of its own. The receiver answers nothing, so the player waits for no reply for
/// long.
fn kqps(bench: &Bench<'_>, path: &LaidPath, file: &Path, target: SocketAddrV4, io: &[&str]) -> Result<Value> {
    let server_cpu = bench.kqps.subject_cpu.to_string();
    let mut flags = vec!["-T", "1", "--arrivals", "captured", "-a", SOURCES, "--seed", "1"];
    flags.extend(["-t", "100ms", "--drain", "100ms", "--subject", "none", "--subject-cpus", &server_cpu]);
    flags.extend(io);
    let mut command = bench.kqps.load_command(target.into(), file, &flags);
    command.env("XDG_CACHE_HOME", bench.scratch.join("cache"));
    let played = program::finish(program::start_at_player(path, &mut command)?)?;
    let cpu_s = played.cpu_s;
    let trial = played.measured()?;
    trial.accounts.check()?;
    Ok(json!({
        "cpu_s": cpu_s,
        "accounts": trial.accounts,
        "unsent_causes": trial.unsent_causes,
        "lag_us": trial.lag_us,
        "clients": trial.replay.map(|replay| (replay.clients, replay.addresses, replay.clients_sharing)),
    }))
}
