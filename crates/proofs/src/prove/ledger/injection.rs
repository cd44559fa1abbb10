//! The injected losses. Each kind has a count of its own, which is the truth.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use kqps_kernel::namespace::{self, NetNs};
use kqps_kernel::process::Signal;
use kqps_observation::{Place, Trial};
use serde::Deserialize;
use strum::VariantArray;

use super::network::{self, Hook, Network, PORT, SUBJECT};
use crate::child::{Running, pinned};
use crate::program::finish;
use crate::prove::Bench;

/// A buffer with room for a second of queries.
const AMPLE: &str = "64MiB";

/// The smallest buffer: a few packets fill it.
const SCANT: &str = "4KiB";

/// A buffer too small for half of the packets that arrive during the stop.
const MODEST: &str = "256KiB";

/// How long a subject is stopped.
const STOPPED: Duration = Duration::from_millis(300);

/// When it is stopped, after the player's start: well within the trial; the exact time does not matter.
const STOPPED_AFTER: Duration = Duration::from_millis(500);

/// A subject that reads every query and ignores one in a hundred.
const SILENT: &str = include_str!("silent.py");

/// A cause of losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray)]
pub(super) enum Injection {
    /// A filter on the subject's side drops 1 % of incoming packets.
    FilterIn,
    /// A filter on the subject's side drops 1 % of outgoing packets.
    FilterOut,
    /// A filter on the player's side drops 1 % of incoming packets.
    FilterBack,
    /// The subject's receive buffer holds a few queries only, and they come in bursts.
    SubjectBuffer,
    /// The subject is stopped for a while.
    SubjectStopped,
    /// The player's receive buffers hold a few replies only.
    PlayerBuffer,
    /// The subject ignores 1 % of the queries.
    SubjectIgnores,
}

/// The counts that a subject prints when it ends.
#[derive(Deserialize)]
struct Served {
    received: u64,
    answered: u64,
}

/// How a trial is played, whatever its losses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) seed: u64,
    pub(super) drop_reasons: bool,
}

impl Injection {
    /// The place where the ledger must find the losses.
    pub(super) fn place(self) -> Place {
        match self {
            Self::FilterIn => Place::FilterIn,
            Self::FilterOut => Place::FilterOut,
            Self::FilterBack => Place::PathBack,
            Self::SubjectBuffer | Self::SubjectStopped => Place::SubjectSocketBuffer,
            Self::PlayerBuffer => Place::PlayerSocketBuffer,
            Self::SubjectIgnores => Place::SubjectUnanswered,
        }
    }

    /// Plays a trial with these losses. Returns its record and the number of losses.
    pub(super) fn play(
        self,
        bench: &Bench,
        network: &Network,
        queries: &Path,
        way: Way,
    ) -> Result<(Trial, u64)> {
        let mut subject = Running::start(&mut self.subject(bench, network, way.seed)?)?;
        let target = subject.ready()?;
        let filtered = self.filter(network)?;
        let mut load = self.load(bench, network, target, queries, subject.pid(), way)?;
        let player = Running::start(&mut load)?;
        if self == Self::SubjectStopped {
            std::thread::sleep(STOPPED_AFTER);
            subject.signal(Signal::Stop)?;
            std::thread::sleep(STOPPED);
            subject.signal(Signal::Continue)?;
        }
        let trial = finish(player)?.measured()?;
        let dropped = filtered.map(network::dropped).transpose()?;
        let served = subject.terminate()?.output;
        let served: Served = serde_json::from_str(served.trim())
            .with_context(|| format!("the subject printed {served:?} at its end"))?;
        let truth = match self {
            Self::FilterIn | Self::FilterOut | Self::FilterBack => dropped.context("there is a filter")?,
            Self::SubjectBuffer | Self::SubjectStopped => trial.accounts.sent.saturating_sub(served.received),
            Self::PlayerBuffer => served.answered.saturating_sub(heard(&trial)),
            Self::SubjectIgnores => served.received.saturating_sub(served.answered),
        };
        Ok((trial, truth))
    }

    fn subject(self, bench: &Bench, network: &Network, seed: u64) -> Result<Command> {
        let cpu = bench.kqps.subject_cpu.to_string();
        let listen = SocketAddr::from((SUBJECT, PORT)).to_string();
        let mut command = if self == Self::SubjectIgnores {
            let mut command = pinned(&cpu, "python3");
            command.args(["-c", SILENT, &SUBJECT.to_string(), &PORT.to_string(), &seed.to_string()]);
            command
        } else {
            // The blocking echo does not send a refused reply again, so each drop is a loss.
            let io = if self == Self::FilterOut { "blocking" } else { "mmsg" };
            let buffer = match self {
                Self::SubjectBuffer => SCANT,
                Self::SubjectStopped => MODEST,
                _ => AMPLE,
            };
            let mut command = pinned(&cpu, &bench.kqps.program);
            command.args(["serve", "echo", "--json", "--listen", &listen, "--io", io, "--cpus", &cpu]);
            command.args(["--for", "1h", "--buffer", buffer]);
            command
        };
        namespace::enter(&mut command, &network.subject)?;
        Ok(command)
    }

    /// Sets up a filter if the injection has one, and returns its namespace.
    fn filter(self, network: &Network) -> Result<Option<&NetNs>> {
        let (at, hook, port) = match self {
            Self::FilterIn => (&network.subject, Hook::Input, "dport"),
            Self::FilterOut => (&network.subject, Hook::Output, "sport"),
            Self::FilterBack => (&network.player, Hook::Input, "sport"),
            _ => return Ok(None),
        };
        network::drop_one_in_a_hundred(at, hook, port)?;
        Ok(Some(at))
    }

    fn load(
        self,
        bench: &Bench,
        network: &Network,
        target: SocketAddr,
        queries: &Path,
        subject: u32,
        way: Way,
    ) -> Result<Command> {
        let cpu = bench.kqps.player_cpu.to_string();
        let mut command = pinned(&cpu, &bench.kqps.program);
        command.args(["load", &target.to_string(), "--json", "--cpus", &cpu, "--queries"]).arg(queries);
        // Half a second is enough with one loss in a hundred, but a subject is stopped well within a longer trial.
        let whole = ("1500ms", "1s");
        let (length, timeout) =
            if self == Self::SubjectStopped { whole } else { bench.choose(("500ms", "500ms"), whole) };
        // A query that left as late as the timeout would count as lost although nothing dropped it.
        let lag = bench.choose("250ms", "500ms");
        command.args(["-Q", "20k", "-l", length, "-t", timeout, "--arrivals", "poisson", "--lag", lag]);
        command.args(["--seed", &way.seed.to_string(), "--subject-pid", &subject.to_string()]);
        if way.drop_reasons {
            command.arg("--drop-reasons");
        }
        // The filter counts packets that travel as one segmented packet once, so the player must not use GSO.
        command.args(["--io", "mmsg"]);
        // Bursts: of queries that fill the subject's buffer, or of replies that come while the player sleeps.
        if matches!(self, Self::SubjectBuffer | Self::PlayerBuffer) {
            command.args(["--burst", "64", "--coalesce", "3ms"]);
        }
        if self == Self::PlayerBuffer {
            command.args(["--buffer", SCANT]);
        }
        namespace::enter(&mut command, &network.player)?;
        Ok(command)
    }
}

fn heard(trial: &Trial) -> u64 {
    let accounts = &trial.accounts;
    accounts.correct + accounts.wrong + accounts.late + accounts.duplicate + accounts.unsolicited
}
