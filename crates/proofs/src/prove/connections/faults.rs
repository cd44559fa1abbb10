//! Every fault, alone and mixed with others: the player's counts equal the server's, to the last query and connection.

use std::path::PathBuf;
use std::thread;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use kqps_faults::streams::{Counts, Expected, Fault, Plan, Server, ServerSettings, Stage};
use kqps_observation::{Accounts, Trial};

use super::super::{Bench, Size, player_ios};
use super::bounded::{as_a_server_sees, count, sums};
use super::wire::{Kind, Wired};

/// A reply after this time is late.
const TIMEOUT: &str = "500ms";
/// Delay of the replies that must be late, microseconds: far from the timeout and from the end of the drain.
const LATE_US: u64 = 1_000_000;
/// How long the player listens after its last query: long enough for late replies.
const DRAIN: &str = "1500ms";

/// The longest sum, microseconds, of a query's lag and the server's longest pause. It is less than the time that makes
/// a reply late.
const AWAY_MOST_US: u64 = 300_000;

/// The most queries on one connection, so that the server can still make up an ID that it has not seen.
const PER_CONNECTION: u64 = 30_000;

/// How often a trial is made. A trial in which a process was paused for long proves nothing, and is made again.
const ATTEMPTS: u32 = 3;

/// Trials that the small form makes at the same time, since each mostly waits for late replies.
const AT_A_TIME: usize = 4;

/// Queries of the whole form.
const WHOLE: u64 = 10_000_000;

/// The share of a fault that is alone. With a larger one, connections that end one after the other without a reply make
/// the player pause for so long that replies are late.
const SHARE_ALONE: f64 = 1.0 / 16.0;

/// Faults that go together, and how a player must use its connections so that their counts are certain.
struct Mix {
    what: &'static str,
    stages: &'static [Stage],
    /// The faults of those stages that it does not have.
    without: &'static [Fault],
    connections: u64,
    flags: &'static [&'static str],
    /// The share of each fault, in the small form and in the whole one.
    shares: (f64, f64),
    /// The queries of a trial likewise.
    queries: (u32, u32),
}

/// Many queries on each connection, whose replies have faults.
const REPLIES: Mix = Mix {
    what: "replies",
    stages: &[Stage::Reply],
    without: &[],
    connections: 16,
    flags: &["-c", "16", "-q", "2000"],
    shares: (0.05, 0.01),
    queries: (20_000, 300_000),
};

/// The same at a rate.
const REPLIES_AT_A_RATE: Mix =
    Mix { what: "replies at a rate", flags: &["-c", "16", "-Q", "20k"], ..REPLIES };

/// Connections that end with one open query each.
const ENDS: Mix = Mix {
    what: "ends",
    stages: &[Stage::End],
    without: &[],
    connections: 64,
    flags: &["-c", "64", "-q", "20k", "--outstanding-per-connection", "1"],
    shares: (0.02, 0.01),
    queries: (10_000, 300_000),
};

/// Connections that the server closes with many open queries.
const CLOSED: Mix = Mix {
    what: "closed with many open queries",
    stages: &[Stage::End],
    without: &[
        Fault::Reset,
        Fault::ResetInReply,
        Fault::TooLong,
        Fault::Garbage,
        Fault::Alert,
        Fault::NoNotify,
    ],
    connections: 16,
    flags: &["-c", "16", "-q", "5000", "--outstanding-per-connection", "16"],
    shares: (0.01, 0.002),
    queries: (10_000, 300_000),
};

/// Handshakes, one for each query. Resets leave no port in `TIME_WAIT`.
const HANDSHAKES: Mix = Mix {
    what: "handshakes",
    stages: &[Stage::Handshake],
    without: &[],
    connections: 64,
    flags: &[
        "-c",
        "64",
        "-q",
        "20k",
        "--queries-per-connection",
        "1",
        "--close",
        "rst",
        "-a",
        "127.1.0.0/16",
    ],
    shares: (0.02, 0.01),
    queries: (2_000, 20_000),
};

/// The I/O model of the mixes by it, and the same mixes.
const URING: &str = "uring";
const REPLIES_BY_URING: Mix =
    Mix { what: "replies by uring", flags: &["-c", "16", "-q", "2000", "--io", URING], ..REPLIES };
const ENDS_BY_URING: Mix = Mix {
    what: "ends by uring",
    flags: &["-c", "64", "-q", "20k", "--outstanding-per-connection", "1", "--io", URING],
    ..ENDS
};
const HANDSHAKES_BY_URING: Mix = Mix {
    what: "handshakes by uring",
    flags: &[
        "-c",
        "64",
        "-q",
        "20k",
        "--queries-per-connection",
        "1",
        "--close",
        "rst",
        "-a",
        "127.1.0.0/16",
        "--io",
        URING,
    ],
    ..HANDSHAKES
};

const MIXES: [&Mix; 8] = [
    &REPLIES,
    &REPLIES_AT_A_RATE,
    &ENDS,
    &CLOSED,
    &HANDSHAKES,
    &REPLIES_BY_URING,
    &ENDS_BY_URING,
    &HANDSHAKES_BY_URING,
];

impl Mix {
    /// Its faults on a wire.
    fn faults(&self, kind: Kind) -> Vec<Fault> {
        let is_of_it = |fault: &Fault| {
            self.stages.contains(&fault.stage())
                && !self.without.contains(fault)
                && (kind == Kind::Tls || !fault.needs_tls())
        };
        Fault::ALL.into_iter().filter(is_of_it).collect()
    }
}

/// A trial to make.
struct Play<'a> {
    mix: &'a Mix,
    wired: &'a Wired,
    faults: Vec<Fault>,
    share: f64,
    queries: &'a Queries,
    seed: u64,
}

/// The queries of a trial.
struct Queries {
    file: PathBuf,
    count: u32,
}

/// Compares trials of every mix on every wire. The small form makes each once, the whole form each fault alone first,
/// and then all mixes in turn.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    let wires = Kind::ALL.into_iter().map(|kind| Wired::new(bench, kind)).collect::<Result<Vec<_>>>()?;
    let ios = player_ios();
    let is_offered = |mix: &&Mix| !mix.flags.contains(&URING) || ios.contains(&URING);
    let mixes: Vec<&Mix> = MIXES.into_iter().filter(is_offered).collect();
    let queries = mixes
        .iter()
        .map(|mix| {
            let count = bench.choose(mix.queries.0, mix.queries.1);
            Ok(Queries { file: bench.queries_with_answers(count)?, count })
        })
        .collect::<Result<Vec<_>>>()?;
    let mut plays = Vec::new();
    for (mix, queries) in mixes.into_iter().zip(&queries) {
        for wired in &wires {
            let (faults, share) = (mix.faults(wired.kind), bench.choose(mix.shares.0, mix.shares.1));
            if !faults.is_empty() {
                plays.push(Play { mix, wired, faults, share, queries, seed: plays.len() as u64 + 1 });
            }
        }
    }
    let seen = match bench.size {
        Size::Small => once(bench, &plays)?,
        Size::Whole => each_alone(bench, &plays).and_then(|seen| again_and_again(bench, &plays, seen))?,
    };
    eprintln!("{seen} queries over tcp and tls: every count equals that of the server");
    Ok(())
}

/// Makes each trial once, some at the same time. Returns the number of queries.
fn once(bench: &Bench, plays: &[Play<'_>]) -> Result<u64> {
    let mut seen = 0;
    for some in plays.chunks(AT_A_TIME) {
        seen += thread::scope(|scope| {
            let begun: Vec<_> = some.iter().map(|play| scope.spawn(move || play.agreed(bench))).collect();
            begun.into_iter().try_fold(0, |sum, one| {
                let sent = one.join().map_err(|_| anyhow!("a trial's thread panicked"))??;
                Ok::<u64, anyhow::Error>(sum + sent)
            })
        })?;
    }
    Ok(seen)
}

/// Makes a trial of each fault alone, on each wire that has it. Returns the number of queries.
fn each_alone(bench: &Bench, plays: &[Play<'_>]) -> Result<u64> {
    let mut seen = 0;
    for play in plays {
        for fault in &play.faults {
            let alone = Play { faults: vec![*fault], share: SHARE_ALONE, ..*play };
            seen += alone.agreed(bench)?;
        }
    }
    Ok(seen)
}

/// Makes one trial after the other, until enough queries are compared. Returns their number.
fn again_and_again(bench: &Bench, plays: &[Play<'_>], mut seen: u64) -> Result<u64> {
    for (round, play) in (1..).zip(plays.iter().cycle()) {
        if seen >= WHOLE {
            break;
        }
        let again = Play { faults: play.faults.clone(), seed: play.seed + 100 * round, ..*play };
        seen += again.agreed(bench)?;
        eprintln!("{seen} queries agree");
    }
    Ok(seen)
}

impl Play<'_> {
    /// Makes the trial until it proves something, and compares it. Returns the number of queries.
    fn agreed(&self, bench: &Bench) -> Result<u64> {
        let names: Vec<&str> = self.faults.iter().map(|fault| fault.name()).collect();
        let (what, wire) = (self.mix.what, self.wired.kind.name());
        let sent = self.proved(bench).with_context(|| {
            format!("{what} over {wire} with seed {} and faults {}", self.seed, names.join(", "))
        })?;
        eprintln!("{sent} queries over {wire} agree ({what}: {})", names.join(", "));
        Ok(sent)
    }

    fn proved(&self, bench: &Bench) -> Result<u64> {
        ensure!(
            u64::from(self.queries.count) < self.mix.connections * PER_CONNECTION,
            "so many queries use up the IDs of their connections"
        );
        let mut flags = vec!["-n", "1", "-T", "1", "-t", TIMEOUT, "--drain", DRAIN, "--lag", "1m"];
        flags.extend(["--check", "answers"]);
        flags.extend(self.mix.flags);
        let flags = self.wired.flags(&flags);
        let mut doubts = Vec::new();
        for _ in 0..ATTEMPTS {
            let server = Server::start(ServerSettings {
                wire: self.wired.wire.clone(),
                plan: Plan::of(&self.faults, self.share)?,
                seed: self.seed,
                late_us: LATE_US,
                cpu: Some(bench.kqps.subject_cpu),
                ..ServerSettings::default()
            })?;
            let trial = bench.kqps.trial(server.address(), &self.queries.file, &flags)?;
            let counts = server.stop()?;
            match doubt(&trial, &counts) {
                None => {
                    compare(&trial, &counts, self.wired.kind)?;
                    are_all_made(&self.faults, &counts)?;
                    return Ok(trial.accounts.sent);
                }
                Some(doubt) => doubts.push(doubt),
            }
        }
        bail!("no trial of {ATTEMPTS} proves anything: {}", doubts.join(" | "));
    }
}

/// Why the trial proves nothing about the player's accounts, or `None`: a process was paused so long that a timely
/// reply came late.
fn doubt(trial: &Trial, counts: &Counts) -> Option<String> {
    let away_us = counts.longest_away_us + trial.lag_us.max.unwrap_or(0);
    let is_long = away_us > AWAY_MOST_US;
    let paused = || is_long.then(|| format!("server and player had no CPU for up to {} ms", away_us / 1000));
    counts.doubt().or_else(paused)
}

/// Checks all equations, and compares every count with the server's.
fn compare(trial: &Trial, counts: &Counts, kind: Kind) -> Result<()> {
    let connections = sums(trial)?;
    let truth = counts.expected();
    let raced = count(&connections.closed, "idle-race");
    ensure!(
        raced <= counts.of(Fault::HalfClose),
        "{raced} connections are said to have been closed while they were idle: {counts:?}"
    );
    let mut closed = as_a_server_sees(&connections.closed);
    // What the player closes is no fault.
    closed.remove("player");
    // The server knows nothing of queries that never left the player.
    let accounts =
        Accounts { intended: trial.accounts.sent, unsent: 0, send_failed: 0, slipped: 0, ..trial.accounts };
    let reported = Expected {
        accounts,
        lost: as_a_server_sees(&trial.lost_causes),
        wrong: trial.wrong_causes.clone(),
        attempts: connections.attempts,
        failed: connections.failed.clone(),
        closed,
    };
    if reported != truth {
        bail!("the player reports\n  {reported:?}\nand the server counted\n  {truth:?}\n  {counts:?}");
    }
    let made = if kind == Kind::Tls { counts.handshakes } else { counts.connections };
    // An attempt that was not finished when the player ended may have been finished for the server.
    ensure!(
        (connections.established..=connections.established + connections.unfinished).contains(&made),
        "the player reports {} connections, and the server counted {made}",
        connections.established
    );
    Ok(())
}

/// Checks that every fault was made, and that replies were cut at every offset.
fn are_all_made(faults: &[Fault], counts: &Counts) -> Result<()> {
    for fault in faults {
        ensure!(counts.of(*fault) > 0, "the server never made the fault {fault}");
    }
    let cut = counts.of(Fault::Split) as usize;
    // In TLS every other round of cuts goes through messages instead of records.
    let is_long = cut > 3 * counts.longest_cut;
    ensure!(
        !is_long || counts.cut_at.len() + 1 == counts.longest_cut,
        "{cut} replies of {} bytes were cut at {} offsets",
        counts.longest_cut,
        counts.cut_at.len()
    );
    Ok(())
}
