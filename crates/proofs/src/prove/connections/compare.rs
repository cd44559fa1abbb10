//! The comparison of a player's record with the counts of a server that made faults.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use kqps_faults::streams::{Counts, Expected, Fault};
use kqps_observation::{Accounts, ConnectionFacts, Trial};

use super::super::patience::Patience;
use super::bounded::{as_a_server_sees, count, merge, sums};
use super::mix::Mix;
use super::wire::Kind;

/// The words of a close without an error. The player counts it as a failure only if queries were open.
const NO_ERROR: &str = "closed with 0x0 (DOQ_NO_ERROR)";

/// A trial, with the counts of its server.
pub(super) struct CountedTrial {
    pub(super) trial: Trial,
    pub(super) counts: Counts,
    /// The longest time without CPU on the player's core.
    pub(super) player_away: Duration,
}

impl CountedTrial {
    /// Why the trial proves nothing about the player's accounts, or `None`: a process was paused so long that a timely
    /// reply came late.
    pub(super) fn doubt(&self, patience: Patience) -> Option<String> {
        let Self { trial, counts, player_away } = self;
        let (server_us, player_us) = (counts.longest_away_us, player_away.as_micros() as u64);
        let away_us = server_us + player_us + trial.lag_us.max.unwrap_or(0);
        let is_long = away_us > patience.away_most_us();
        let paused =
            || is_long.then(|| format!("server and player had no CPU for up to {} ms", away_us / 1000));
        counts.doubt().or_else(paused).or_else(|| unmade(trial, counts))
    }
}

/// Connections that were not made in time though the server made no fault: the host was too busy for their handshakes.
fn unmade(trial: &Trial, counts: &Counts) -> Option<String> {
    let failed = |failed: &BTreeMap<String, u64>| count(failed, "connect-timeout");
    let more = failed(&trial.connections.as_ref()?.failed).checked_sub(failed(&counts.expected().failed))?;
    (more > 0).then(|| format!("{more} connections were not made in time"))
}

/// Checks all equations, and compares every count with the server's.
pub(super) fn compare(trial: &Trial, counts: &Counts, kind: Kind, mix: &Mix) -> Result<()> {
    let connections = sums(trial)?;
    let mut truth = counts.expected();
    let raced = count(&connections.closed, "idle-race");
    ensure!(
        raced <= counts.count(Fault::HalfClose),
        "{raced} connections are said to have been closed while they were idle: {counts:?}"
    );
    ensure!(counts.beyond_limit == 0, "{} queries came beyond the limit of streams", counts.beyond_limit);
    let mut reported = reported(trial, connections);
    if kind == Kind::Quic {
        with_unseen(&mut reported, &mut truth, counts, mix)?;
        with_forgotten(&mut reported, counts)?;
        of_datagrams(connections, counts, mix)?;
    }
    if reported != truth {
        bail!("the player reports\n  {reported:?}\nand the server counted\n  {truth:?}\n  {counts:?}");
    }
    of_http(connections, counts, mix)?;
    let made = if kind == Kind::Tcp { counts.connections } else { counts.handshakes };
    // An attempt that was not finished when the player ended may have been finished for the server.
    ensure!(
        (connections.established..=connections.established + connections.unfinished).contains(&made),
        "the player reports {} connections, and the server counted {made}",
        connections.established
    );
    Ok(())
}

/// The player's report, as far as a server can know it.
fn reported(trial: &Trial, connections: &ConnectionFacts) -> Expected {
    let mut closed = as_a_server_sees(&connections.closed);
    // Connections that the player closes are no fault.
    closed.remove("player");
    // The server knows nothing of queries that never left the player.
    let accounts =
        Accounts { intended: trial.accounts.sent, unsent: 0, send_failed: 0, slipped: 0, ..trial.accounts };
    let (mut resets, mut goaways, mut ends, mut retries) =
        (BTreeMap::new(), BTreeMap::new(), BTreeMap::new(), 0);
    if let Some(http) = &connections.http {
        (resets, goaways) = (http.resets.clone(), http.goaways.clone());
    }
    if let Some(quic) = &connections.quic {
        let words = quic.failures.clone();
        (resets, ends) = words.into_iter().partition(|(words, _)| words.starts_with("stream reset"));
        ends.remove(NO_ERROR);
        retries = quic.retries;
    }
    Expected {
        accounts,
        lost: as_a_server_sees(&trial.lost_causes),
        wrong: trial.wrong_causes.clone(),
        attempts: connections.attempts,
        failed: connections.failed.clone(),
        closed,
        resets,
        goaways,
        ends,
        retries,
    }
}

/// Adds to what the server knows the queries that were on their way when it closed their connections of QUIC. It cannot
/// read them, nor know whether any was: the player reports such a connection as `quic-close`, and as `idle` otherwise.
/// What is certain: each of these queries is lost by `quic-close`, each connection that the server thinks was idle has
/// one at least if the player says otherwise, and a connection has no more of them than queries. A connection that the
/// server forgot may have one, too: the next query after its last one was lost by time.
fn with_unseen(reported: &mut Expected, truth: &mut Expected, counts: &Counts, mix: &Mix) -> Result<()> {
    let sent = reported.accounts.sent;
    let unseen = sent.checked_sub(truth.accounts.sent).with_context(|| {
        format!("the player reports {sent} queries, and the server read {}", truth.accounts.sent)
    })?;
    let (idle, idle_known) = (count(&reported.closed, "idle"), count(&truth.closed, "idle"));
    let raced = idle_known.saturating_sub(idle);
    let ended = count(&truth.closed, "quic-close") + idle_known + counts.count(Fault::Reset);
    let most = mix.outstanding * ended;
    ensure!(
        idle <= idle_known && raced <= counts.count(Fault::HalfClose) && raced <= unseen && unseen <= most,
        "{unseen} queries were on their way, {idle} of {idle_known} connections were idle: {counts:?}"
    );
    let forgotten = if mix.outstanding > 1 { 0 } else { unseen - raced };
    ensure!(
        forgotten <= counts.count(Fault::Reset),
        "{unseen} queries were on their way, at {raced} connections with one query each: {counts:?}"
    );
    truth.accounts.intended += unseen;
    truth.accounts.sent += unseen;
    truth.accounts.lost += unseen;
    for (cause, more) in [("quic-close", unseen - forgotten), ("reset", forgotten)] {
        if more > 0 {
            *truth.lost.entry(cause.to_owned()).or_default() += more;
        }
    }
    for closed in [&mut reported.closed, &mut truth.closed] {
        merge(closed, &["idle", "quic-close"], "quic-close");
    }
    Ok(())
}

/// Adds to what the player reports the connections that the server forgot, and that got no stateless reset for it. A
/// reset answers a packet. If the server had acknowledged the query before, the player sends none, and the query is lost
/// by time.
fn with_forgotten(reported: &mut Expected, counts: &Counts) -> Result<()> {
    let made = counts.count(Fault::Reset);
    if made == 0 {
        return Ok(());
    }
    let (seen, late) = (count(&reported.closed, "reset"), count(&reported.lost, "time"));
    let silent = made.saturating_sub(seen);
    ensure!(
        silent <= late && seen > 0,
        "of {made} connections that the server forgot {seen} were reset, and {late} queries were lost by time"
    );
    merge(&mut reported.lost, &["reset", "time"], "reset");
    for counts in [&mut reported.closed, &mut reported.ends] {
        let name = if counts.contains_key("reset") { "reset" } else { "stateless reset" };
        *counts.entry(name.to_owned()).or_default() += silent;
    }
    Ok(())
}

/// Compares datagrams. Those that the server sent are no more than a limit, since some arrive after the player closed
/// the connection.
fn of_datagrams(connections: &ConnectionFacts, counts: &Counts, mix: &Mix) -> Result<()> {
    let quic = connections.quic.as_ref().context("connections without QUIC")?;
    let datagrams = &counts.datagrams;
    ensure!(
        quic.datagrams_sent == datagrams.received
            && quic.datagrams_received <= datagrams.sent - datagrams.sent_dropped,
        "the player sent {} datagrams and received {}: {datagrams:?}",
        quic.datagrams_sent,
        quic.datagrams_received
    );
    let drops = mix.disorder.drop_every > 0;
    ensure!(
        drops == (datagrams.received_dropped > 0 && datagrams.sent_dropped > 0)
            && (!drops || quic.packets_lost > 0),
        "{} packets were lost: {datagrams:?}",
        quic.packets_lost
    );
    Ok(())
}

/// Checks what the player reports of HTTP alone. How many queries waited for a stream depends on when the player
/// learned of replies, which the server cannot know. With a limit some did.
fn of_http(connections: &ConnectionFacts, counts: &Counts, mix: &Mix) -> Result<()> {
    let Some(http) = &connections.http else { return Ok(()) };
    let forbidden: u64 = http.failures.values().sum();
    ensure!(
        forbidden == counts.count(Fault::Framing),
        "the server broke the rules {} times: {:?}",
        counts.count(Fault::Framing),
        http.failures
    );
    ensure!(
        mix.streams_most.is_none() || (http.blocked > 0 && http.blocked_s > 0.0),
        "no query waited for a stream: {http:?}"
    );
    Ok(())
}
