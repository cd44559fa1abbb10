//! Joins the threads' counts and the observations around them into one record.

mod connections;
mod replay;

use std::collections::BTreeMap;

use kqps_dataset::Dataset;
use kqps_host::ledger::{Evidence, ledger};
use kqps_host::watch::WatchResult;
use kqps_kernel::errno;
use kqps_message::rcode;
use kqps_observation::subject::ThreadFacts;
use kqps_observation::trial::{
    DatasetFacts, Interval, LoadFacts, LoadMode, PlayerFacts, UNSENT_CONNECTIONS, UNSENT_IDS, UNSENT_LATE,
    UNSENT_WINDOW,
};
use kqps_observation::{Accounts, IdentityViolated, Ledger, NonEmpty, SCHEMA, Trial};
use kqps_tls::Kind;

use crate::connections::ConnectionCounts;
use crate::loss::Loss;
use crate::plan::{LoadPlan, Plan, Wire};
use crate::replay::TRANSPORTS;
use crate::reply::Cause;
use crate::tally::{Tally, per_second};
use crate::team::Team;
use crate::wire::xdp::{self, PastCounts};
use connections::{connection_facts, left_closed, no_port_left};

/// What a thread returns when it ends.
#[derive(Debug)]
pub(crate) struct ThreadResult {
    pub(crate) tid: u32,
    pub(crate) tally: Tally,
    /// For how long it sent.
    pub(crate) played_ns: u64,
    /// For how long it waited for replies after sending.
    pub(crate) drain_ns: u64,
    /// Correct replies that came while it sent.
    pub(crate) correct_in_time: u64,
    /// Datagrams that its sockets dropped.
    pub(crate) drops: u64,
    /// Sockets that fell back from segmentation.
    pub(crate) fallbacks: u32,
    /// The counts of its connections; `None` without connections.
    pub(crate) connections: Option<ConnectionCounts>,
    /// Queries of a capture that no thread plays, as far as this one counts them.
    pub(crate) not_played: [u64; TRANSPORTS.len()],
    /// The frames that came past the kernel; `None` if none could.
    pub(crate) past: Option<PastCounts>,
    /// Whether it ran before all others on its core.
    pub(crate) real_time: bool,
    /// For how long it spun with nothing to do.
    pub(crate) awake_ns: u64,
    /// For how long its core was withheld from it.
    pub(crate) withheld_ns: u64,
}

/// A trial that is over.
pub(crate) struct FinishedTrial<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) teams: &'a [Team],
    pub(crate) dataset: &'a Dataset,
    /// The names of the I/O models.
    pub(crate) io: String,
    /// Those of all threads, in their order.
    pub(crate) results: Vec<ThreadResult>,
    /// Whether cores were kept from deep sleep states.
    pub(crate) cores_awake: bool,
    pub(crate) watch_result: WatchResult,
    pub(crate) started_unix_ms: u64,
    pub(crate) started_monotonic_ns: u64,
    pub(crate) interrupted: bool,
    /// Options that could not be met as asked.
    pub(crate) notes: Vec<String>,
}

impl FinishedTrial<'_> {
    /// Each team with the results of its threads.
    fn teams(&self) -> impl Iterator<Item = (&Team, &[ThreadResult])> {
        let results = &*self.results;
        self.teams.iter().map(move |team| (team, results.get(team.threads.clone()).unwrap_or_default()))
    }

    /// Checks the identities of connections, of each team by itself.
    pub(crate) fn check_connections(&self) -> Result<(), IdentityViolated> {
        for (team, results) in self.teams() {
            let Some(counts) = connections(results) else { continue };
            let sent = results.iter().map(|result| result.tally.accounts.sent).sum();
            connection_facts(&counts, &team.plan).check(sent)?;
        }
        Ok(())
    }

    /// The kept connections that could not be made before the load, at targets that took others.
    fn left_closed(&self) -> u64 {
        let of_team =
            |(team, results): (&Team, &[ThreadResult])| Some(left_closed(&connections(results)?, team));
        self.teams().filter_map(of_team).sum()
    }

    /// The sockets of all threads, and their places for connections.
    fn sockets(&self) -> usize {
        self.teams.iter().map(Team::sockets).sum()
    }

    /// Queries that were unsent for want of a free ID, over UDP, and for want of room on a connection.
    fn unsent_for_room(&self) -> (u64, u64) {
        let of = |is_udp: bool| {
            let teams = self.teams().filter(|(team, _)| team.plan.wire.is_udp() == is_udp);
            teams.flat_map(|(_, results)| results).map(|result| result.tally.unsent_for_ids).sum()
        };
        (of(true), of(false))
    }
}

pub(crate) fn trial(played: FinishedTrial<'_>) -> Trial {
    let mut tally = Tally::default();
    for result in &played.results {
        tally.add(&result.tally);
    }
    let held_back = tally.held_back.counts(played.dataset);
    let accounts = Accounts { slipped: held_back.slipped, ..tally.accounts };
    let drops = played.results.iter().map(|result| result.drops).sum();
    // Lost segments and packets of a connection are sent again, so no query is lost with one.
    let ledger = if played.plan.wire.is_udp() {
        ledger(&evidence(&played, &accounts, &tally, drops))
    } else {
        Ledger::default()
    };
    let load = load(&played, &tally);
    let connections = connections(&played.results);
    // The queries of a load of connections alone are not sent, and none is answered.
    let of_queries = |count: u64| if played.plan.has_connections_alone() { 0 } else { count };
    Trial {
        schema: SCHEMA,
        kind: "trial".into(),
        interrupted: played.interrupted,
        disturbed: played.watch_result.is_disturbed(),
        started_unix_ms: played.started_unix_ms,
        started_monotonic_ns: played.started_monotonic_ns,
        target: played.plan.targets[0].to_string(),
        targets: played.plan.targets.iter().map(ToString::to_string).collect(),
        dataset: dataset(played.dataset),
        transport: played.plan.wire.transport(),
        connections: connections.as_ref().map(|counts| connection_facts(counts, played.plan)),
        players: NonEmpty::one(player(&played, (&tally, connections.as_ref()), &load, drops)),
        load,
        accounts,
        unsent_causes: unsent_causes(&tally, played.unsent_for_room()),
        replay: replay::replay(&played, connections.as_ref()),
        differences: tally.differences.facts(played.dataset),
        wrong_causes: wrong_causes(&tally),
        wrong_rcodes: wrong_rcodes(&tally),
        lost_causes: by_name(Loss::NAMES.into_iter().map(String::from).zip(tally.lost_by)),
        lost_expected: lost_expected(&tally, played.plan),
        refused_at_times: held_back.refused,
        send_failed_causes: by_name(
            tally.send_errors.iter().map(|(&errno, &count)| (errno::name(errno), count)),
        ),
        response_rcodes: response_rcodes(&tally),
        request_bytes_mean: mean(tally.request_bytes, of_queries(accounts.sent)),
        response_bytes_mean: mean(tally.response_bytes, of_queries(accounts.correct)),
        latency_us: tally.latency.quantiles(),
        lag_us: tally.lag.quantiles(),
        gap_us: tally.gap.quantiles(),
        histograms: histograms(&tally, connections.as_ref()),
        ledger,
        subject: played.watch_result.subject,
        hosts: NonEmpty::one(played.watch_result.host),
        intervals: intervals(&tally),
        sent_per_100ms: tally.sent_per_100ms,
        // The caller of the trial knows the speed of the cores.
        speed: None,
        stalls: None,
        beside: Vec::new(),
        mishaps: tally.course.mishaps(),
    }
}

/// What the ledger of packets rests on.
fn evidence<'a>(
    played: &'a FinishedTrial<'_>,
    accounts: &'a Accounts,
    tally: &Tally,
    drops: u64,
) -> Evidence<'a> {
    Evidence {
        accounts,
        player_socket_drops: drops,
        messages_sent: tally.messages_sent,
        messages_received: tally.messages_received,
        ipv6: played.plan.targets[0].is_ipv6(),
        host: &played.watch_result.host,
        subject: played.watch_result.subject.as_ref(),
        side: played.watch_result.side,
        past_kernel: past(played).next().is_some(),
    }
}

/// The frames of each thread that came past the kernel.
fn past<'a>(played: &'a FinishedTrial<'_>) -> impl Iterator<Item = &'a PastCounts> {
    played.results.iter().filter_map(|result| result.past.as_ref())
}

fn dataset(played: &Dataset) -> DatasetFacts {
    DatasetFacts {
        path: played.path().display().to_string(),
        hash: played.hash(),
        queries: played.queries(),
        skipped: played.skipped(),
        skipped_causes: by_name(played.skipped_causes().map(|(cause, count)| (cause.into(), count))),
        check: Some(played.check().name().into()),
    }
}

/// The connections of these threads; `None` without connections.
fn connections(results: &[ThreadResult]) -> Option<ConnectionCounts> {
    let all = results.iter().filter_map(|result| result.connections.as_ref());
    all.fold(None, |sum, counts| {
        let mut sum = sum.unwrap_or_default();
        sum.add(counts);
        Some(sum)
    })
}

/// All histograms by name. Those of connections are left out if there are none.
fn histograms(tally: &Tally, connections: Option<&ConnectionCounts>) -> BTreeMap<String, String> {
    let of_all = [("latency", &tally.latency), ("lag", &tally.lag), ("gap", &tally.gap)];
    let of_replies = connections.into_iter().flat_map(|counts| {
        [("first query", &counts.first_query), ("write to reply", &counts.write_to_reply)]
    });
    let of_replies = of_replies.filter(|(_, times)| !times.is_empty());
    // Over QUIC a connection is made by its handshake.
    let of_tcp = connections.into_iter().filter(|counts| counts.quic.is_none());
    let of_connections = of_tcp.map(|counts| ("connect", &counts.connect)).chain(of_replies);
    let named =
        of_all.into_iter().chain(of_connections).map(|(name, times)| (name.to_owned(), times.encode()));
    named.chain(handshake_histograms(connections)).collect()
}

/// The histograms of handshakes by kind, such as `handshake resumed`.
fn handshake_histograms(
    connections: Option<&ConnectionCounts>,
) -> impl Iterator<Item = (String, String)> + '_ {
    let of_tls = connections.and_then(|counts| counts.tls.as_ref());
    let all = of_tls.into_iter().flat_map(|tls| Kind::NAMES.into_iter().zip(&tls.handshakes));
    all.filter(|(_, times)| !times.is_empty())
        .map(|(kind, times)| (format!("handshake {kind}"), times.encode()))
}

fn unsent_causes(tally: &Tally, (for_ids, for_connections): (u64, u64)) -> BTreeMap<String, u64> {
    let for_window = tally.unsent_for_window;
    let late = tally.accounts.unsent - for_window - for_ids - for_connections;
    let room = [(UNSENT_IDS, for_ids), (UNSENT_CONNECTIONS, for_connections)];
    by_name([(UNSENT_LATE, late), (UNSENT_WINDOW, for_window)].into_iter().chain(room).map(named))
}

fn named((name, count): (&str, u64)) -> (String, u64) {
    (name.into(), count)
}

/// Lost queries by their expected reply. A connection that was lost without a query expects none.
fn lost_expected(tally: &Tally, plan: &Plan) -> BTreeMap<String, u64> {
    if plan.has_connections_alone() {
        return by_name([("unknown", tally.accounts.lost)].map(named).into_iter());
    }
    by_name(tally.lost_expected.iter().map(|(what, &count)| (what.to_string(), count)))
}

/// Wrong replies by cause; statuses by their number.
fn wrong_causes(tally: &Tally) -> BTreeMap<String, u64> {
    let causes = Cause::NAMES.into_iter().zip(tally.wrong_causes).filter(|(name, _)| *name != Cause::STATUS);
    let statuses = tally.wrong_statuses.iter();
    let statuses = statuses.map(|(status, &count)| (format!("{}-{status}", Cause::STATUS), count));
    by_name(causes.map(named).chain(statuses))
}

fn wrong_rcodes(tally: &Tally) -> BTreeMap<String, u64> {
    by_name(tally.wrong_rcodes().map(|((expected, got), count)| {
        (format!("expected {}, got {}", rcode::RcodeName(expected), rcode::RcodeName(got)), count)
    }))
}

fn response_rcodes(tally: &Tally) -> BTreeMap<String, u64> {
    let rcodes = (0..).zip(tally.rcodes).chain(tally.extended_rcodes.clone());
    by_name(rcodes.map(|(code, count)| (rcode::RcodeName(code).to_string(), count)))
}

fn load(played: &FinishedTrial<'_>, tally: &Tally) -> LoadFacts {
    let plan = played.plan;
    let longest =
        |of: fn(&ThreadResult) -> u64| played.results.iter().map(of).max().unwrap_or(0) as f64 / 1e9;
    let duration_s = longest(|result| result.played_ns);
    let per_s = |count: f64| if duration_s > 0.0 { count / duration_s } else { 0.0 };
    let (mode, arrivals, outstanding, intended_qps) = match plan.load {
        LoadPlan::Open { rate_qps, arrivals, window } => {
            (LoadMode::Open, Some(arrivals.to_string()), window, Some(rate_qps))
        }
        LoadPlan::Closed { outstanding } => (LoadMode::Closed, None, Some(outstanding), None),
    };
    let correct_in_time = played.results.iter().map(|result| result.correct_in_time).sum();
    // The replies to the last window of a closed loop make no room for another query.
    let answered = if mode == LoadMode::Closed { correct_in_time } else { tally.accounts.correct };
    LoadFacts {
        mode,
        arrivals,
        outstanding,
        outstanding_mean: Some(per_s(tally.outstanding_us as f64 / 1e6)),
        intended_qps,
        offered_qps: per_s(tally.accounts.sent as f64),
        answered_qps: per_s(answered as f64),
        correct_in_time: Some(correct_in_time),
        duration_s,
        timeout_s: plan.timeout.as_secs_f64(),
        drain_s: longest(|result| result.drain_ns),
        burst: plan.burst as u32,
        coalesce_us: Some(plan.coalesce.as_secs_f64() * 1e6),
        lag_allowed_us: Some(plan.lag_allowed.as_secs_f64() * 1e6),
        seed: Some(plan.seed),
    }
}

/// The notes on queries that found no free ID over UDP, and no room on a connection.
const NO_ROOM: [&str; 2] = [
    "queries were unsent because every ID of every socket was outstanding; use more sockets (-c)",
    "queries were unsent because every connection had as many as it takes; use more connections (-c)",
];

/// The same notes for a replay, in which a query goes by its client's socket or connection.
const NO_ROOM_IN_REPLAY: [&str; 2] = [
    "queries were unsent because all 65,536 IDs that their client may use were outstanding",
    "queries were unsent because their connection, or every place for one, had as many as it takes",
];

/// The notes on connections for which this host had nothing left, of a replay as well.
const NONE_LEFT: &str =
    "connections failed because this host had no descriptor or memory left; use fewer connections (-c)";
const NONE_LEFT_IN_REPLAY: &str = "connections failed because this host had no descriptor or memory left; play \
                                   fewer slices (--pile) or a shorter window (--window)";

fn player(
    played: &FinishedTrial<'_>,
    (tally, connections): (&Tally, Option<&ConnectionCounts>),
    load: &LoadFacts,
    socket_drops: u64,
) -> PlayerFacts {
    let segment_fallbacks = played.results.iter().map(|result| result.fallbacks).sum();
    let mut notes = played.notes.clone();
    let mut note = |count: u64, words: &str| {
        if count > 0 {
            notes.push(format!("{count} {words}"));
        }
    };
    let (for_ids, for_connections) = played.unsent_for_room();
    let [ids, places] = if played.plan.replay.is_some() { NO_ROOM_IN_REPLAY } else { NO_ROOM };
    note(for_ids, ids);
    note(for_connections, places);
    let cut_short = if played.interrupted { tally.cut_short } else { 0 };
    note(
        cut_short,
        "of the lost queries were given up before their timeout, because the second signal ended the drain",
    );
    note(tally.wrong_late, "replies were wrong and came after the timeout; they count as unsolicited");
    note(u64::from(segment_fallbacks), "sockets fell back from segmented to single sends");
    if let Some(counts) = connections {
        let none_left = if played.plan.replay.is_some() { NONE_LEFT_IN_REPLAY } else { NONE_LEFT };
        note(counts.failed[Loss::Local.number()], none_left);
        note(
            counts.failed[Loss::Address.number()],
            "connections failed because their source address is not one of this host's, or does not reach the target; \
             send from another one (-a)",
        );
        note(
            played.left_closed(),
            "kept connections were not open when the load began, which then opened those that it needed",
        );
        notes.extend(played.teams.iter().find_map(|team| no_port_left(counts, load, &team.plan)));
    }
    notes.extend(replay::sharing(played));
    notes.extend(xdp::notes(past(played)));
    notes.extend(window_not_filled(load, played.plan, played.sockets()));
    PlayerFacts {
        io: played.io.clone(),
        notes,
        threads: played.plan.threads as u32,
        sockets: played.sockets() as u32,
        cpu_s: played.watch_result.player_cpu_s,
        cpus: played.plan.cpus.clone(),
        real_time: !played.results.is_empty() && played.results.iter().all(|result| result.real_time),
        cores_awake: played.cores_awake,
        socket_drops,
        segment_fallbacks,
        per_thread: per_thread(played),
    }
}

/// The facts of each thread. A thread that spins through its waits is not busy meanwhile.
fn per_thread(played: &FinishedTrial<'_>) -> Vec<ThreadFacts> {
    let mut threads = played.watch_result.player_threads.clone();
    for thread in &mut threads {
        let result = played.results.iter().find(|result| result.tid == thread.tid);
        let awake_s = result.map_or(0.0, |result| result.awake_ns as f64 / 1e9).min(thread.cpu_s);
        thread.awake_s = awake_s;
        thread.withheld_s = result.map_or(0.0, |result| result.withheld_ns as f64 / 1e9);
        thread.busy = (thread.busy - awake_s / played.watch_result.host.wall_s).max(0.0);
    }
    threads
}

/// A note if the window did not limit a closed loop. By Little's law, the mean number of outstanding queries
/// is the rate times the mean time that a query was outstanding. If it is less than half of the window, the
/// window was not the limit. `flows` are the sockets or connections.
fn window_not_filled(load: &LoadFacts, plan: &Plan, flows: usize) -> Option<String> {
    let window = load.outstanding.filter(|_| load.mode == LoadMode::Closed)?;
    let mean = load.outstanding_mean?;
    let (each, what) = match &plan.wire {
        Wire::Udp(_) => (IDS, "sockets have only"),
        Wire::Tcp(tcp) => {
            let most = tcp.uses_of_connection().map_or(tcp.outstanding, |most| most.min(tcp.outstanding));
            (u64::from(most), "connections take only")
        }
        Wire::Quic(quic) => {
            let most = quic.uses_of_connection().map_or(quic.outstanding, |most| most.min(quic.outstanding));
            (u64::from(most), "connections take only")
        }
        // Each lane fills a part of the window by rules of its own.
        Wire::Captured(_) => return None,
    };
    let room = flows as u64 * each;
    let why = if room < window {
        let advice =
            if plan.replay.is_some() { "as many as the capture has clients" } else { "use more (-c)" };
        format!("{flows} {what} {room} queries at once, {advice}")
    } else {
        "replies came faster than the player refilled it, or the trial was too short for it".into()
    };
    (mean < window as f64 / 2.0)
        .then(|| format!("of the window of {window} only {mean:.0} were outstanding on average: {why}"))
}

/// Query IDs of one socket.
const IDS: u64 = 1 << 16;

fn intervals(tally: &Tally) -> Vec<Interval> {
    let sent = per_second(&tally.sent_per_100ms);
    let correct = per_second(&tally.correct_per_100ms);
    let at = |bins: &[u64], index: usize| bins.get(index).copied().unwrap_or(0);
    (0..sent.len().max(correct.len()))
        .map(|index| Interval {
            at_s: index as u64 + 1,
            sent: at(&sent, index),
            correct: at(&correct, index),
        })
        .collect()
}

/// Counts by name, without zeros.
fn by_name(counts: impl Iterator<Item = (String, u64)>) -> BTreeMap<String, u64> {
    counts.filter(|(_, count)| *count > 0).collect()
}

fn mean(sum: u64, count: u64) -> Option<f64> {
    (count > 0).then(|| sum as f64 / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Close;
    use crate::plan::TcpPlan;
    use crate::plan::tests::{plan, tcp_plan};

    #[test]
    fn without_a_port_the_note_says_how_many_addresses_are_enough() {
        let load = LoadFacts { duration_s: 10.0, ..LoadFacts::default() };
        let said = |close, ports| {
            let mut counts = ConnectionCounts { attempts: 30_000, ports, ..ConnectionCounts::default() };
            counts.failed[Loss::Ports.number()] = 7;
            let wire = Wire::Tcp(TcpPlan { close, ..tcp_plan(2000) });
            no_port_left(&counts, &load, &Plan { wire, ..plan("127.0.0.1:53".parse().unwrap()) }).unwrap()
        };
        // 2,000 open ones, and 180,000 in TIME_WAIT.
        let note = said(Close::Fin, 1000);
        assert!(
            note.contains("7 connections failed") && note.contains("need 182 source addresses"),
            "{note}"
        );
        assert!(said(Close::Rst, 1000).contains("need 2 source addresses of 1000 ports each"));
        assert!(!said(Close::Fin, 0).contains("need"), "the kernel chose");
        let none = ConnectionCounts::default();
        let wire = Wire::Tcp(tcp_plan(1));
        assert_eq!(no_port_left(&none, &load, &Plan { wire, ..plan("[::1]:53".parse().unwrap()) }), None);
    }
}
