//! Replays: a capture with known gaps, clients and fates is played over a veth path, tcpdump records it at the server's
//! end, and the recording is compared with the capture, packet by packet: every query, in the order of its client, at
//! its time, from the address of its client, and on connections that begin, end and are idle as captured.

mod compare;
mod expected;
mod recording;
mod traffic;

use std::path::Path;

use anyhow::{Context as _, Result};
use kqps_observation::Trial;
use kqps_observation::question::Path as Kind;
use kqps_programs::shell;
use kqps_skips::Capability;

use super::Bench;
use super::patience::until_proved;
use crate::program::Carrier;
use crate::{path, program};
use expected::Played;
use recording::{Recorded, Recorder};
use traffic::Traffic;

/// The addresses of clients: some of those that the path leads back to the player.
const CLIENTS: &str = "198.19.40.0/24";

/// How often a part is played. A play in which the host held up a process for long proves nothing, and is made again.
const ATTEMPTS: u32 = 3;

const MS_NS: u64 = 1_000_000;

/// A part: its name, its traffic, how that is played, and whether times are compared.
struct ProofPart {
    name: &'static str,
    traffic: fn(&Bench) -> Traffic,
    played: fn(&Traffic) -> Played,
    has_times: bool,
}

const PARTS: [ProofPart; 7] = [
    ProofPart { name: "pace", traffic: datagrams, played: |_| Played::default(), has_times: true },
    ProofPart {
        name: "speed",
        traffic: datagrams,
        played: |_| Played { speed: 2.0, ..Played::default() },
        has_times: true,
    },
    ProofPart { name: "window", traffic: datagrams, played: middle, has_times: true },
    ProofPart {
        name: "pile",
        traffic: datagrams,
        played: |_| Played { pile: 2, ..Played::default() },
        has_times: true,
    },
    ProofPart {
        name: "repeat",
        traffic: datagrams,
        played: |_| Played { repeat: 3, gap_ns: 50 * MS_NS, ..Played::default() },
        has_times: true,
    },
    ProofPart { name: "connections", traffic: connections, played: |_| Played::default(), has_times: true },
    // Two threads share the player's core, so times say nothing.
    ProofPart { name: "mixed", traffic: mixed, played: |_| Played::default(), has_times: false },
];

fn datagrams(bench: &Bench) -> Traffic {
    Traffic::over_udp(bench.choose(400, 20_000))
}

fn connections(bench: &Bench) -> Traffic {
    Traffic::over_tcp(bench.choose(40, 1_000))
}

fn mixed(bench: &Bench) -> Traffic {
    datagrams(bench).beside(connections(bench))
}

/// The middle half, at half the speed.
fn middle(traffic: &Traffic) -> Played {
    let quarter_us = traffic.duration_ns() / 4000;
    let (from_us, to_us) = (quarter_us, 3 * quarter_us);
    Played { from_us, to_us: Some(to_us), speed: 0.5, ..Played::default() }
}

/// Proves the parts one after the other.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    if let Some((capability, reason)) = lacks() {
        return bench.leave_out(capability, format!("replays recorded by tcpdump: {reason}"));
    }
    for part in bench.parts(&PARTS, |part| part.name)? {
        bench.anew().and_then(|bench| part.prove(&bench)).with_context(|| part.name)?;
    }
    Ok(())
}

/// The capability that this host lacks, and why; `None` if it lacks nothing.
fn lacks() -> Option<(Capability, String)> {
    let network = path::lacks(Kind::Veth).map(|reason| (Capability::Networks, reason));
    network.or_else(|| {
        let is_missing = shell::find(recording::PROGRAM).is_none();
        is_missing
            .then(|| (Capability::Programs, "there is no tcpdump: install the package tcpdump".to_owned()))
    })
}

impl ProofPart {
    /// Plays the traffic until a play proves something.
    fn prove(&self, bench: &Bench) -> Result<()> {
        let traffic = (self.traffic)(bench);
        let played = (self.played)(&traffic);
        let file = bench.folder.path().join("known.pcap");
        traffic.write(&file)?;
        until_proved(ATTEMPTS, |_| {
            let play = Play::make(bench, &traffic, &played, &file)?;
            let dues = played.dues(&traffic);
            let mut doubt = play.recorded.doubt.clone();
            if doubt.is_none() {
                doubt = compare::compare(&play, &traffic, &dues)?;
            }
            if doubt.is_none() && self.has_times {
                // The small form runs on any host.
                doubt = compare::times(&play, &dues, bench.choose(play.excused_us(), 0));
            }
            if let Some(doubt) = doubt {
                return Ok(Err(doubt));
            }
            eprintln!("{}: {} queries as in the capture", self.name, dues.len());
            Ok(Ok(()))
        })
    }
}

/// A play, and what was seen of it.
struct Play {
    trial: Trial,
    recorded: Recorded,
}

impl Play {
    /// How far a time in the recording may be off by the host alone, microseconds: the greatest lag that the player admits, and
    /// the steps of the wall clock, by which packets are recorded.
    fn excused_us(&self) -> u64 {
        let steps = self.trial.players.first.wall_clock;
        let steps_us = steps.map_or(0.0, |clock| f64::from(clock.steps) * clock.largest_s.abs() * 1e6);
        self.trial.lag_us.max.unwrap_or(0) + steps_us as u64
    }

    /// Plays the traffic at an echo, while tcpdump records it.
    fn make(bench: &Bench, traffic: &Traffic, played: &Played, file: &Path) -> Result<Self> {
        let path = path::lay(Kind::Veth)?;
        let (_echo, address) = bench.kqps.stream_echo(Carrier::Tcp, &path)?;
        let recording = bench.folder.path().join("recorded.pcap");
        let recorder = Recorder::start(bench, &path, address.port(), &recording)?;
        let threads = traffic.transports().to_string();
        let subject_cpu = bench.kqps.subject_cpu.to_string();
        let how = played.flags();
        let mut flags = vec!["-T", &threads, "-a", CLIENTS, "--seed", "7"];
        flags.extend(["--subject", "none", "--subject-cpus", &subject_cpu]);
        // Every query is sent in the end, and every reply is in time.
        flags.extend(["--lag", "1m", "-t", "10s"]);
        flags.extend(how.iter().map(String::as_str));
        if traffic.has_responses() {
            flags.extend(["--expect", "captured"]);
        }
        let mut command = bench.kqps.load_command(address, file, &flags);
        command.env("XDG_CACHE_HOME", bench.folder.path().join("cache"));
        let trial = program::finish(program::start_at_player(&path, &mut command)?)?.measured()?;
        let recorded = recorder.stop(bench, address.port())?;
        Ok(Self { trial, recorded })
    }
}
