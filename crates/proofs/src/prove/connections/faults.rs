//! Every fault, alone and mixed with others: the player's counts equal the server's, to the last query and connection.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use kqps_faults::streams::{Counts, Fault, Plan, Server, ServerSettings};
use kqps_skips::Capability;

use super::super::patience::{ATTEMPTS, Patience, until_proved};
use super::super::{Bench, Size, pauses, player_ios, side_by_side};
use super::compare::{CountedTrial, compare};
use super::mix::{BY_URING, Mix, OF_ENDS, OF_REPLIES, OF_STREAMS, PAST_KERNEL, URING};
use super::wire::{Kind, Wired};
use crate::path;
use crate::program::finish;

/// The most queries on one connection, so that the server can still make up an ID that it has not seen.
const PER_CONNECTION: u64 = 30_000;

/// Trials that the small form makes at the same time, since each mostly waits for late replies.
const AT_A_TIME: usize = 7;

/// Trials past the kernel that it makes at the same time. More players on one core keep each other from finishing
/// handshakes in time, since a player there must read all that arrives itself.
const AT_A_TIME_PAST: usize = 2;

/// Queries of each part of the whole form, at least.
const WHOLE: u64 = 10_000_000;

/// The share of a fault that is alone. With a larger one, connections that end one after the other without a reply make
/// the player pause for so long that replies are late.
const SHARE_ALONE: f64 = 1.0 / 16.0;

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

impl Queries {
    /// The queries of a mix on a wire. The small form has fewer if each has a stream, so that it stays short.
    fn new(bench: &Bench, mix: &Mix, kind: Kind) -> Result<Self> {
        let small = if kind.has_streams() { mix.queries.0 / 2 } else { mix.queries.0 };
        let count = bench.choose(small, mix.queries.1);
        Ok(Self { file: bench.queries_with_answers(count)?, count })
    }
}

/// Compares trials of faults in replies, on every wire.
pub(super) fn of_replies(bench: &Bench) -> Result<()> {
    by_sockets(bench, &OF_REPLIES)
}

/// Compares trials of connections that end or are never made, on every wire.
pub(super) fn of_ends(bench: &Bench) -> Result<()> {
    by_sockets(bench, &OF_ENDS)
}

/// Compares trials whose queries wait for a stream, and trials whose datagrams are lost or change places.
pub(super) fn of_streams(bench: &Bench) -> Result<()> {
    by_sockets(bench, &OF_STREAMS)
}

/// Compares trials of a player by `io_uring`. Only the small form does without.
pub(super) fn by_uring(bench: &Bench) -> Result<()> {
    if !player_ios().contains(&URING) {
        ensure!(bench.size == Size::Small, "this host does not offer io_uring (`kqps probe`)");
        return Ok(());
    }
    by_sockets(bench, &BY_URING)
}

fn by_sockets(bench: &Bench, mixes: &[&'static Mix]) -> Result<()> {
    let seen = of_mixes(bench, mixes.iter().copied(), AT_A_TIME)?;
    let is_played = |kind: &Kind| mixes.iter().any(|mix| mix.kinds.contains(kind));
    let wires: Vec<&str> = Kind::ALL.into_iter().filter(is_played).map(Kind::name).collect();
    eprintln!("{seen} queries over {}: every count equals that of the server", wires.join(", "));
    Ok(())
}

/// Compares trials of a player whose connections pass the kernel, over veth paths.
pub(super) fn past_kernel(bench: &Bench) -> Result<()> {
    if let Some(reason) = path::lacks_frames() {
        let reason = format!("connections past the network stack: {reason}");
        return bench.leave_out(Capability::Networks, reason);
    }
    let seen = of_mixes(bench, PAST_KERNEL.into_iter(), AT_A_TIME_PAST)?;
    eprintln!(
        "{seen} queries past the kernel over tcp, tls and https: every count equals that of the server"
    );
    Ok(())
}

/// Compares trials of these mixes on every wire of theirs. The small form makes each once, some at the same time, the
/// whole form each fault alone first, and then all mixes in turn. Returns the number of queries.
fn of_mixes(bench: &Bench, mixes: impl Iterator<Item = &'static Mix>, at_a_time: usize) -> Result<u64> {
    let wires = Kind::ALL.into_iter().map(|kind| Wired::new(bench, kind)).collect::<Result<Vec<_>>>()?;
    let mixes: Vec<&Mix> = mixes.collect();
    let queries = mixes
        .iter()
        .map(|mix| wires.iter().map(|wired| Queries::new(bench, mix, wired.kind)).collect())
        .collect::<Result<Vec<Vec<_>>>>()?;
    let mut plays = Vec::new();
    for (mix, queries) in mixes.into_iter().zip(&queries) {
        for (wired, queries) in wires.iter().zip(queries) {
            let (faults, share) = (mix.faults(wired.kind), bench.choose(mix.shares.0, mix.shares.1));
            let is_left_out = bench.choose(mix.is_uncertain_over(wired.kind), false);
            if mix.kinds.contains(&wired.kind) && !faults.is_empty() && !is_left_out {
                plays.push(Play { mix, wired, faults, share, queries, seed: plays.len() as u64 + 1 });
            }
        }
    }
    match bench.size {
        Size::Small => Ok(side_by_side(&plays, at_a_time, |play| play.agreed(bench))?.iter().sum()),
        Size::Whole => each_alone(bench, &plays).and_then(|seen| again_and_again(bench, &plays, seen)),
    }
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
        until_proved(ATTEMPTS, |patience| {
            let seen = self.played(bench, patience)?;
            if let Some(doubt) = seen.doubt(patience) {
                return Ok(Err(doubt));
            }
            compare(&seen.trial, &seen.counts, self.wired.kind, self.mix)?;
            are_all_made(&self.faults, &seen.counts)?;
            Ok(Ok(seen.trial.accounts.sent))
        })
    }

    /// Plays the trial once, over a path that is laid for it.
    fn played(&self, bench: &Bench, patience: Patience) -> Result<CountedTrial> {
        let waits = patience.flags();
        let mut flags = vec!["-n", "1", "-T", "1", "--check", "answers"];
        flags.extend(waits.iter().map(String::as_str));
        flags.extend(self.mix.flags_over(self.wired.kind));
        let flags = self.wired.flags(&flags);
        let path = path::lay(self.mix.path())?;
        let settings = ServerSettings {
            listen: SocketAddr::new(path.subject_address(), 0),
            plan: Plan::from_faults(&self.faults, self.share)?,
            seed: self.seed,
            late_us: patience.late_us(),
            streams_most: self.mix.streams_most,
            disorder: self.mix.disorder,
            ..self.wired.server(bench)
        };
        let server = path.at_subject(|| Server::start(settings).map_err(io::Error::other))?;
        let pauses = pauses::watch(bench.kqps.player_cpu)?;
        let player = bench.kqps.start_load_over(&path, server.address(), &self.queries.file, &flags)?;
        let trial = finish(player)?.measured()?;
        Ok(CountedTrial { trial, counts: server.stop()?, player_away: pauses.stop()? })
    }
}

/// Checks that every fault was made, and that replies were cut at every offset.
fn are_all_made(faults: &[Fault], counts: &Counts) -> Result<()> {
    for fault in faults {
        ensure!(counts.count(*fault) > 0, "the server never made the fault {fault}");
    }
    let cut = counts.count(Fault::Split) as usize;
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
