//! A recording beside what must have been sent. A difference is an error. What the host may have caused, such as a
//! query that left late, is a doubt.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::expected::Due;
use super::recording::{Recorded, RecordedQuery};
use super::traffic::{Connection, Fate, Traffic};
use super::{MS_NS, Play};

/// The most by which a query may be off its time, nanoseconds; with a handshake before it, and without.
const WITHIN_NS: u64 = 200_000;
const WITHIN_AFTER_HANDSHAKE_NS: u64 = 2 * MS_NS;

/// The share of queries that may be off their times by more. A larger one is a doubt about the host.
const BEYOND: f64 = 0.01;

/// The most by which a connection may close before or after its captured time of idleness, nanoseconds. Captures count
/// that time in whole milliseconds, and a player looks at connections now and then.
const CLOSED_WITHIN_NS: u64 = 2 * MS_NS;
const CLOSED_LATE_NS: u64 = 20 * MS_NS;

/// Compares all but the times of queries. Returns a doubt about the host, if there is one.
pub(super) fn compare(play: &Play, traffic: &Traffic, dues: &[Due]) -> Result<Option<String>> {
    let Play { trial, recorded } = play;
    trial.accounts.check()?;
    let seen = &recorded.queries;
    ensure!(
        trial.accounts.sent == dues.len() as u64 && seen.len() == dues.len(),
        "{} queries were due, the player says that it sent {}, and {} were recorded",
        dues.len(),
        trial.accounts.sent,
        seen.len()
    );
    let pairs = paired(seen, dues)?;
    clients(&pairs)?;
    orders(&pairs)?;
    fates(play, traffic, dues)?;
    shown(recorded, &pairs)?;
    let replay = trial.replay.as_ref().context("the record has no replay")?;
    let all: BTreeSet<(u32, usize)> = dues.iter().map(|due| due.client).collect();
    ensure!(
        replay.clients_sharing == 0 && replay.joined == 0 && replay.clients >= all.len() as u64,
        "the record says {replay:?}"
    );
    connections(play, traffic, &pairs)
}

/// Each recorded query with what was due. The passes over a query follow each other.
fn paired<'a>(seen: &'a [RecordedQuery], dues: &'a [Due]) -> Result<Vec<(&'a RecordedQuery, &'a Due)>> {
    let mut by_number: BTreeMap<u32, Vec<&Due>> = BTreeMap::new();
    dues.iter().rev().for_each(|due| by_number.entry(due.number).or_default().push(due));
    seen.iter()
        .map(|one| {
            let due = by_number.get_mut(&one.number).and_then(Vec::pop);
            let due = due.with_context(|| format!("query {} was sent too often", one.number))?;
            Ok((one, due))
        })
        .collect()
}

/// Checks that each client has one address of the prefix, over UDP also one port, that no two clients share both, and
/// that the clients of a network are neighbours.
fn clients(pairs: &[(&RecordedQuery, &Due)]) -> Result<()> {
    let mut addresses: BTreeMap<(u32, usize), IpAddr> = BTreeMap::new();
    let mut ports: BTreeMap<(u32, usize), SocketAddr> = BTreeMap::new();
    for (seen, due) in pairs {
        let (from, client) = (seen.from, due.client);
        ensure!(is_of_prefix(from.ip()), "client {client:?} asked from {from}, which is not of the prefix");
        let known = *addresses.entry(client).or_insert(from.ip());
        ensure!(known == from.ip(), "client {client:?} asked from {known} and from {from}");
        if seen.connection.is_none() {
            let known = *ports.entry(client).or_insert(from);
            ensure!(known == from, "client {client:?} asked from {known} and from {from}");
        }
    }
    let apart: BTreeSet<IpAddr> = addresses.values().copied().collect();
    ensure!(apart.len() == addresses.len(), "{} clients have {} addresses", addresses.len(), apart.len());
    for network in Traffic::networks() {
        let block = u32::try_from(network.len().next_power_of_two()).expect("few clients");
        let mut blocks: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for ((slice, client), address) in &addresses {
            if let (true, IpAddr::V4(address)) = (network.contains(client), address) {
                blocks.entry(*slice).or_default().insert(address.to_bits() / block);
            }
        }
        ensure!(
            blocks.values().all(|blocks| blocks.len() == 1),
            "the clients {network:?} of one network are in different blocks of {block} addresses: {addresses:?}"
        );
    }
    Ok(())
}

/// Whether an address is of the clients' prefix.
fn is_of_prefix(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(address) if address.octets()[..3] == Ipv4Addr::new(198, 19, 40, 0).octets()[..3])
}

/// Checks that the queries of each client, or over TCP of each connection, came in their order.
fn orders(pairs: &[(&RecordedQuery, &Due)]) -> Result<()> {
    let mut last = BTreeMap::new();
    for (seen, due) in pairs {
        let now: (u64, u32) = (due.due_ns, due.number);
        if let Some(before) = last.insert((due.client, seen.connection), now) {
            ensure!(before.0 <= now.0, "query {} came after query {}", now.1, before.1);
            let is_same_time = before.0 == now.0;
            ensure!(!is_same_time || before.1 < now.1, "query {} came after query {}", now.1, before.1);
        }
    }
    Ok(())
}

/// Checks what became of the queries, as the echo's answers and the captured ones say.
fn fates(play: &Play, traffic: &Traffic, dues: &[Due]) -> Result<()> {
    let fates: BTreeMap<u32, Fate> = traffic.asked.iter().map(|one| (one.number, one.fate)).collect();
    let count = |fate| dues.iter().filter(|due| fates.get(&due.number) == Some(&fate)).count() as u64;
    let (rcodes, answers) = (count(Fate::OtherRcode), count(Fate::OtherAnswer));
    let accounts = play.trial.accounts;
    ensure!(
        accounts.wrong == rcodes + answers && accounts.correct + accounts.wrong == accounts.intended,
        "{rcodes} answers differ by their rcodes and {answers} otherwise, and the player says {accounts:?}"
    );
    let differences = &play.trial.differences;
    let listed = |kind: &str| differences.iter().find(|one| one.kind == kind).map_or(0, |one| one.count);
    ensure!(
        listed("rcode NXDOMAIN→NOERROR") == rcodes && listed("answer") == answers,
        "{rcodes} answers differ by their rcodes and {answers} otherwise, and the record has {differences:?}"
    );
    ensure!(
        play.recorded.responses == accounts.intended,
        "{} responses were recorded of {}",
        play.recorded.responses,
        accounts.intended
    );
    Ok(())
}

/// Checks that `kqps show` counts in the recording what was played.
fn shown(recorded: &Recorded, pairs: &[(&RecordedQuery, &Due)]) -> Result<()> {
    let shown = &recorded.shown;
    let over_tcp = pairs.iter().filter(|(seen, _)| seen.connection.is_some()).count() as u64;
    let all = pairs.len() as u64;
    let addresses: BTreeSet<IpAddr> = pairs.iter().map(|(seen, _)| seen.from.ip()).collect();
    let of = |value: &Value| value.as_u64().unwrap_or(0);
    let capture = &shown["capture"];
    let found = [
        of(&shown["queries"]),
        of(&capture["responses"]),
        of(&capture["transports"]["udp"]),
        of(&capture["transports"]["tcp"]),
        of(&capture["clients"]),
    ];
    let wanted = [all, all, all - over_tcp, over_tcp, addresses.len() as u64];
    ensure!(
        found == wanted,
        "queries, responses, over udp, over tcp and clients: kqps show has {found:?} of {wanted:?}"
    );
    Ok(())
}

/// Checks that each connection carried the queries that it had in the capture, and was closed after it had been idle
/// for as long as then. A thread that loses its core between looking at the clock and reading a reply counts from before
/// it lost the core, so that a connection may be closed too early by the player's greatest lag, and by the steps of the
/// wall clock. Returns a doubt if one was closed late.
fn connections(play: &Play, traffic: &Traffic, pairs: &[(&RecordedQuery, &Due)]) -> Result<Option<String>> {
    let recorded = &play.recorded;
    let early_ns = CLOSED_WITHIN_NS + play.excused_us() * 1000;
    let captured: BTreeMap<u32, usize> =
        traffic.asked.iter().filter_map(|one| Some((one.number, one.connection?))).collect();
    let mut played: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for (seen, due) in pairs {
        if let Some(connection) = seen.connection {
            played.entry(connection).or_default().push(due.number);
        }
    }
    ensure!(
        played.len() == traffic.connections.len(),
        "{} connections were made of {}",
        played.len(),
        traffic.connections.len()
    );
    let mut late = None;
    for (connection, numbers) in &played {
        let number = numbers.first().and_then(|first| captured.get(first));
        let number = *number.context("a connection carried a query that came by UDP")?;
        let wanted = traffic.asked.iter().filter(|one| one.connection == Some(number)).map(|one| one.number);
        ensure!(wanted.eq(numbers.iter().copied()), "connection {number} carried the queries {numbers:?}");
        let Connection { closed_ns, idle_ms, .. } = traffic.connections[number];
        if closed_ns.is_none() {
            continue;
        }
        let idle_ns = idle_ms * MS_NS;
        let closed_ns = recorded.closed_ns.get(connection).copied();
        let (closed_ns, answered_ns) = closed_ns
            .zip(recorded.answered_ns.get(connection).copied())
            .with_context(|| format!("connection {number} was not answered, or not closed"))?;
        let was_idle_ns = closed_ns.saturating_sub(answered_ns);
        ensure!(
            was_idle_ns + early_ns >= idle_ns,
            "connection {number} was closed after {was_idle_ns} ns, and was idle for {idle_ns} ns in the capture"
        );
        if was_idle_ns > idle_ns + CLOSED_LATE_NS {
            late = Some(format!("connection {number} was closed {} ns late", was_idle_ns - idle_ns));
        }
    }
    Ok(late)
}

/// Compares the times of queries with that of the first one. Returns a doubt if more than 1 % of them are off by more
/// than 200 µs and `excused_us`. Then the host held up the player or the recorder.
pub(super) fn times(play: &Play, dues: &[Due], excused_us: u64) -> Option<String> {
    let pairs = paired(&play.recorded.queries, dues).ok()?;
    let offset = |(seen, due): &(&RecordedQuery, &Due)| seen.at_ns as i64 - due.due_ns as i64;
    // A query with a handshake before it is no measure for the others.
    let first = pairs.iter().find(|(_, due)| !due.begins).or(pairs.first()).map(offset)?;
    let off_ns: Vec<(u64, bool)> =
        pairs.iter().map(|pair| ((offset(pair) - first).unsigned_abs(), pair.1.begins)).collect();
    let within_ns = |begins| excused_us * 1000 + if begins { WITHIN_AFTER_HANDSHAKE_NS } else { WITHIN_NS };
    let beyond = off_ns.iter().filter(|(off_ns, begins)| *off_ns > within_ns(*begins)).count();
    let beyond = beyond as f64 / pairs.len() as f64;
    let most_us = off_ns.iter().map(|(off_ns, _)| off_ns / 1000).max().unwrap_or(0);
    let found = format!(
        "{:.3} % are off by more than {} µs, at most by {most_us} µs",
        beyond * 100.0,
        within_ns(false) / 1000
    );
    eprintln!("{found}");
    (beyond > BEYOND).then_some(found)
}
