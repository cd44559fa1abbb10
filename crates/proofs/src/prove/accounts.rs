//! The accounts: a relay makes faults, and the player must report each of them, to the last query.

mod device;
mod frames;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use kqps_faults::relay::{Counts, Plan, Relay, RelaySettings};
use kqps_observation::{Accounts, Trial};
use kqps_testbed::path::LaidPath;

use device::Device;

use super::patience::{ATTEMPTS, Patience, until_proved};
use super::{Bench, QUERIES, Size, player_ios, side_by_side};
use crate::program;

/// The load of a trial: the I/O, and further flags.
type LoadFlags = (&'static str, &'static [&'static str]);

/// The loads of trials, in turn: both loops, every I/O.
const LOADS: [LoadFlags; 8] = [
    ("auto", &["-q", "2000"]),
    ("mmsg", &["-Q", "100k"]),
    ("plain", &["-q", "500"]),
    ("gso", &["-Q", "100k"]),
    ("uring", &["-Q", "100k"]),
    ("mmsg", &["-q", "1000"]),
    ("uring", &["-q", "1000"]),
    ("auto", &["-Q", "100k", "--arrivals", "poisson"]),
];

/// Trials that the small form makes at the same time, since each mostly waits for late replies.
const AT_A_TIME: usize = 4;

/// Each of the 15 faults applies to this share of queries.
const SHARE_EACH: f64 = 0.002;

/// Queries that one socket may send, so that the relay can still make up an ID that the socket never used.
const PER_SOCKET: u64 = 50_000;

/// Queries of the whole form.
const WHOLE: u64 = 100_000_000;

/// Plays trials through the relay, and compares. The small form plays every load once with few queries, the
/// whole form all of them in turn.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    let ios = player_ios();
    let loads: Vec<LoadFlags> =
        LOADS.into_iter().filter(|(io, _)| *io == "auto" || ios.contains(io)).collect();
    match bench.size {
        Size::Small => once(bench, &loads)?,
        Size::Whole => again_and_again(bench, &loads)?,
    }
    frames::prove(bench)
}

/// Plays every load once, some at the same time.
fn once(bench: &Bench, loads: &[LoadFlags]) -> Result<()> {
    let queries = Queries::new(bench, QUERIES / 16, 1)?;
    let numbered: Vec<(u64, &LoadFlags)> = (1..).zip(loads).collect();
    side_by_side(&numbered, AT_A_TIME, |(seed, load)| play(bench, load, &queries, *seed)).map(drop)
}

/// Plays one load after the other, until enough queries are compared.
fn again_and_again(bench: &Bench, loads: &[LoadFlags]) -> Result<()> {
    let queries = Queries::new(bench, QUERIES, 32)?;
    let mut seen = 0;
    for (seed, load) in (1..).zip(loads.iter().cycle()) {
        seen += play(bench, load, &queries, seed)?.accounts.sent;
        eprintln!("{seen} queries agree");
        if seen >= WHOLE {
            break;
        }
    }
    Ok(())
}

/// The queries of a trial.
struct Queries {
    file: PathBuf,
    names: u32,
    passes: u64,
}

impl Queries {
    fn new(bench: &Bench, names: u32, passes: u64) -> Result<Self> {
        Ok(Self { file: bench.queries_with_answers(names)?, names, passes })
    }

    /// The number of sockets that they need, for a flag.
    fn sockets(&self) -> String {
        (u64::from(self.names) * self.passes).div_ceil(PER_SOCKET).max(2).to_string()
    }
}

/// Plays a trial until one proves something, and compares it with the relay's counts.
fn play(bench: &Bench, &(io, more): &LoadFlags, queries: &Queries, seed: u64) -> Result<Trial> {
    let sockets = queries.sockets();
    let passes = queries.passes.to_string();
    let mut flags = vec!["-n", &passes, "-c", &sockets, "-T", "1", "--io", io, "--check", "answers"];
    flags.extend(more);
    let agreed = agreed(bench, &LaidPath::Loopback, &Plan::every(SHARE_EACH)?, &flags, &queries.file, seed);
    let trial = agreed.with_context(|| format!("with seed {seed}, --io {io} {}", more.join(" ")))?;
    eprintln!("{} queries agree (--io {} {})", trial.accounts.sent, trial.players.first.io, more.join(" "));
    Ok(trial)
}

/// A trial over a path that proves something and agrees with the relay's counts.
fn agreed(
    bench: &Bench,
    path: &LaidPath,
    plan: &Plan,
    flags: &[&str],
    file: &Path,
    seed: u64,
) -> Result<Trial> {
    until_proved(ATTEMPTS, |patience| {
        let (dropped_before, late_us) = (dropped_on(path)?, patience.late_us());
        let settings = RelaySettings { plan: plan.clone(), seed, late_us, ..RelaySettings::default() };
        let relay = start(bench, path, settings)?;
        let waits = patience.flags();
        let flags: Vec<&str> = flags.iter().copied().chain(waits.iter().map(String::as_str)).collect();
        let trial =
            program::finish(bench.kqps.start_load_over(path, relay.address(), file, &flags)?)?.measured()?;
        let counts = relay.stop()?;
        let dropped = dropped_on(path)? - dropped_before;
        match doubt(&trial, &counts, patience).or_else(|| lost_on_path(dropped)) {
            None => compare(&trial, &counts).map(|()| Ok(trial)),
            Some(doubt) => Ok(Err(doubt)),
        }
    })
}

/// Starts a relay at the subject's end of a path, on the subject's core.
fn start(bench: &Bench, path: &LaidPath, settings: RelaySettings) -> Result<Relay> {
    let listen = SocketAddr::new(path.subject_address(), 0);
    let settings = RelaySettings { listen, cpu: Some(bench.kqps.subject_cpu), ..settings };
    Ok(path.at_subject(|| Relay::start(settings).map_err(io::Error::other))?)
}

/// Why the trial proves nothing about the player's accounts, or `None`: packets were lost elsewhere, or a
/// process was paused so long that a timely reply came late.
fn doubt(trial: &Trial, counts: &Counts, patience: Patience) -> Option<String> {
    let drops = trial.players.first.socket_drops;
    // The lag of a query, its time in the relay's socket, and the relay's longest pause.
    let away_us = counts.longest_away_us + counts.longest_wait_us + trial.lag_us.max.unwrap_or(0);
    if let Some(doubt) = counts.doubt() {
        Some(doubt)
    } else if drops > 0 {
        Some(format!("{drops} replies were dropped by the player's sockets"))
    } else if away_us > patience.away_most_us() {
        Some(format!("relay and player had no CPU for up to {} ms", away_us / 1000))
    } else {
        None
    }
}

/// The packets that were lost between the ends of a veth path so far: a busy host fetched them too late.
fn dropped_on(path: &LaidPath) -> Result<u64> {
    if matches!(path, LaidPath::Loopback) {
        return Ok(0);
    }
    Ok(Device::at_subject(path)?.dropped + Device::at_player(path)?.dropped)
}

/// The doubt about a trial of which so many packets were lost on the path.
fn lost_on_path(dropped: u64) -> Option<String> {
    (dropped > 0).then(|| format!("{dropped} packets were dropped on the path"))
}

/// Checks both identities, and compares every count with the relay's.
fn compare(trial: &Trial, counts: &Counts) -> Result<()> {
    trial.accounts.check()?;
    let truth = counts.expected();
    // The relay knows neither the queries that never left the player nor which truncated replies would have
    // fitted.
    let reported =
        Accounts { intended: trial.accounts.sent, unsent: 0, send_failed: 0, slipped: 0, ..trial.accounts };
    if reported != truth {
        bail!("the player reports\n  {reported:?}\nand the relay counted\n  {truth:?}\n  {counts:?}");
    }
    let causes = counts.expected_wrong_causes();
    if trial.wrong_causes.iter().filter(|(_, count)| **count > 0).ne(&causes) {
        bail!("the player reports {:?}, and the relay counted {causes:?}", trial.wrong_causes);
    }
    Ok(())
}
