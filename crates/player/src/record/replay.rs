//! The facts of a replay.

use std::collections::BTreeMap;

use kqps_dataset::CaptureFacts;
use kqps_observation::{Accounts, CaptureContent, Replay, ReplayLane};

use super::causes::{by_name, named};
use super::connections::connection_facts;
use super::{FinishedTrial, ThreadResult};
use crate::connections::ConnectionCounts;
use crate::loss::Loss;
use crate::replay::TRANSPORTS;
use crate::tally::Tally;
use crate::team::Team;

/// How a capture was replayed; `None` unless the queries are one.
pub(super) fn replay(played: &FinishedTrial<'_>, connections: Option<&ConnectionCounts>) -> Option<Replay> {
    let (plan, capture) = (played.plan.replay.as_ref()?, played.dataset.capture()?);
    let first = played.teams.first()?.replay.as_ref()?;
    let (intended, not_played) = (by_transport(played, |of| of.intended), not_played(played));
    let window_queries: u64 = first.queries.iter().sum();
    let passed: u64 = intended.values().chain(not_played.values()).sum();
    Some(Replay {
        hash: played.dataset.hash(),
        capture: content(capture),
        from_s: plan.from.as_secs_f64(),
        to_s: first.window.end_ns as f64 / 1e9,
        speed: plan.speed,
        repeat: plan.repeat,
        gap_s: plan.gap.as_secs_f64(),
        pile: plan.pile,
        seed: plan.seed,
        clients: first.crowd.all().into(),
        addresses: first.crowd.used().into(),
        sockets: played.results.iter().map(|result| result.paths_used as u64).sum(),
        clients_sharing: sharing_of(played),
        window_queries,
        passes: if window_queries > 0 { passed as f64 / window_queries as f64 } else { 0.0 },
        played: intended,
        sent: by_transport(played, |of| of.sent),
        not_played,
        joined: connections.map_or(0, |counts| counts.joined),
        closed_early: connections.map_or(0, |counts| counts.closed_early),
        lanes: played.teams().filter_map(|(team, results)| lane(played, team, results)).collect(),
    })
}

/// The part of a lane; `None` of a team that plays the queries of all transports.
fn lane(played: &FinishedTrial<'_>, team: &Team, results: &[ThreadResult]) -> Option<ReplayLane> {
    let replay = team.replay.as_ref()?;
    let carried = replay.carried?;
    let mut tally = Tally::default();
    for result in results {
        tally.add(&result.tally);
    }
    let slipped = tally.held_back.counts(played.dataset).slipped;
    let asking = (0..replay.crowd.numbers()).filter(|client| replay.crowd.asks_by(*client, Some(carried)));
    Some(ReplayLane {
        transport: team.plan.wire.transport().word().to_owned(),
        share: replay.share,
        clients: asking.count() as u64,
        accounts: Accounts { slipped, ..tally.accounts },
        lost_causes: by_name(Loss::NAMES.iter().copied().map(String::from).zip(tally.lost_by)),
        latency_us: tally.latency.quantiles(),
        latency: tally.latency.encode(),
        connections: super::connections(results).map(|counts| connection_facts(&counts, &team.plan)),
    })
}

/// A note if clients share what each should have.
pub(super) fn sharing(played: &FinishedTrial<'_>) -> Option<String> {
    let count = sharing_of(played);
    (count > 0).then(|| {
        format!(
            "{count} clients shared a source address and a port, or a connection, with another; send from more \
             addresses (-a 127.1.0.0/16)"
        )
    })
}

fn sharing_of(played: &FinishedTrial<'_>) -> u64 {
    let replays = played.teams.iter().filter_map(|team| team.replay.as_ref());
    replays.map(|replay| replay.flows.sharing()).sum()
}

/// Sums a count of accounts over each transport.
fn by_transport(played: &FinishedTrial<'_>, count_of: fn(&Accounts) -> u64) -> BTreeMap<String, u64> {
    let mut by_transport = BTreeMap::new();
    for (team, results) in played.teams() {
        let count: u64 = results.iter().map(|result| count_of(&result.tally.accounts)).sum();
        *by_transport.entry(team.plan.wire.transport().word().to_owned()).or_default() += count;
    }
    by_transport
}

fn not_played(played: &FinishedTrial<'_>) -> BTreeMap<String, u64> {
    let mut counts = [0; TRANSPORTS.len()];
    for result in &played.results {
        counts.iter_mut().zip(result.not_played).for_each(|(sum, count)| *sum += count);
    }
    by_name(TRANSPORTS.into_iter().map(kqps_dataset::Carried::name).zip(counts).map(named))
}

fn content(capture: &CaptureFacts) -> CaptureContent {
    let by_transport = capture.by_transport.iter().map(|(carried, count)| (carried.name(), *count));
    CaptureContent {
        packets: capture.packets,
        queries: capture.queries,
        responses: capture.responses,
        further: capture.further,
        skipped: capture.skipped.clone(),
        duration_s: capture.duration_ns as f64 / 1e9,
        clients: capture.clients.into(),
        connections: capture.connections,
        places: capture.places.into(),
        by_transport: by_name(by_transport.map(named)),
        sorted: capture.sorted,
        retried: capture.retried,
        cookies: capture.cookies,
        keepalives: capture.keepalives,
        signatures: capture.signatures,
        answered: capture.answered,
    }
}
