//! Joins the threads' counts and the observations around them into one record.

mod causes;
mod connections;
mod player;
mod ports;
mod replay;
mod tls;

use std::collections::BTreeMap;

use kqps_dataset::Dataset;
use kqps_host::ledger::{Evidence, ledger};
use kqps_host::watch::WatchResult;
use kqps_kernel::errno;
use kqps_observation::trial::{DatasetFacts, Interval, LoadFacts, LoadMode};
use kqps_observation::{Accounts, IdentityViolated, Ledger, NonEmpty, SCHEMA, Trial};
use kqps_tls::Kind;

use crate::clock::ClockSteps;
use crate::connections::ConnectionCounts;
use crate::hostile::counts::HostileCounts;
use crate::loss::Loss;
use crate::plan::{LoadPlan, Plan};
use crate::replay::TRANSPORTS;
use crate::silences::SilenceRule;
use crate::tally::{Tally, per_second};
use crate::team::Team;
use crate::wire::xdp::PastCounts;
use causes::{by_name, lost_expected, response_rcodes, unsent_causes, wrong_causes, wrong_rcodes};
use connections::{connection_facts, left_closed};
use player::player;

pub use tls::{NO_EARLY_DATA, PACKED_AND_LOST};

/// The result of a thread at its end.
#[derive(Debug)]
pub(crate) struct ThreadResult {
    pub(crate) tid: u32,
    pub(crate) tally: Tally,
    /// How the wall clock was set meanwhile.
    pub(crate) clock: ClockSteps,
    /// For how long it sent.
    pub(crate) sent_ns: u64,
    /// How long its load lasted.
    pub(crate) played_ns: u64,
    /// For how long it waited for replies after sending.
    pub(crate) drain_ns: u64,
    /// Correct replies that came while it sent.
    pub(crate) correct_in_time: u64,
    /// Its sockets, and places for connections, by which a query of a capture went.
    pub(crate) paths_used: usize,
    /// Datagrams that its sockets dropped.
    pub(crate) drops: u64,
    /// Sockets that fell back from segmentation.
    pub(crate) fallbacks: u32,
    /// The counts of its connections; `None` without connections.
    pub(crate) connections: Option<ConnectionCounts>,
    /// The attempts of attackers; `None` of other threads.
    pub(crate) hostile: Option<HostileCounts>,
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
    /// The results of all threads, in their order.
    pub(crate) results: Vec<ThreadResult>,
    /// Whether cores were kept from deep sleep states.
    pub(crate) cores_awake: bool,
    /// Whether no other class was played beside this one.
    pub(crate) is_single: bool,
    pub(crate) watch_result: WatchResult,
    pub(crate) started_unix_ms: u64,
    pub(crate) started_monotonic_ns: u64,
    /// How much later than asked the trial began; `None` unless the plan has a time.
    pub(crate) late_start_ns: Option<u64>,
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
        self.attempts().map_or(Ok(()), |counts| counts.facts.check())
    }

    /// The attempts of attackers; `None` of other loads.
    fn attempts(&self) -> Option<HostileCounts> {
        HostileCounts::sum(self.results.iter().filter_map(|result| result.hostile.as_ref()))
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
    let ledger = if played.is_single {
        ledger_of(&[played.plan], &played.results, &played.watch_result)
    } else {
        Ledger::default()
    };
    let load = load(&played, &tally);
    let sending_ns = played.results.iter().map(|result| result.sent_ns).max().unwrap_or(0);
    let silence_rule = SilenceRule::new(played.plan, sending_ns, accounts.sent);
    let connections = connections(&played.results);
    let attempts = played.attempts();
    let lived = attempts.as_ref().map(|counts| ("lived".to_owned(), counts.lived.encode()));
    // The queries of a load of connections alone are not sent, and none is answered.
    let of_queries = |count: u64| if played.plan.has_connections_alone() { 0 } else { count };
    Trial {
        schema: SCHEMA,
        kind: "trial".into(),
        interrupted: played.interrupted,
        disturbed: played.watch_result.is_disturbed(),
        started_unix_ms: played.started_unix_ms,
        started_monotonic_ns: played.started_monotonic_ns,
        late_start_ns: played.late_start_ns,
        target: played.plan.targets[0].to_string(),
        targets: played.plan.targets.iter().map(ToString::to_string).collect(),
        dataset: dataset(&played),
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
        lost_causes: by_name(Loss::NAMES.iter().copied().map(String::from).zip(tally.lost_by)),
        lost_expected: lost_expected(&tally, played.plan),
        refused_at_times: held_back.refused,
        send_failed_causes: by_name(
            tally.send_errors.iter().map(|(&errno, &count)| (errno::name(errno), count)),
        ),
        response_rcodes: response_rcodes(&tally),
        request_bytes_mean: mean(tally.request_bytes, of_queries(accounts.sent)),
        response_bytes_mean: mean(tally.response_bytes, of_queries(accounts.correct)),
        replies: Some(tally.replies.facts()),
        latency_us: tally.latency.quantiles(),
        lag_us: tally.lag.quantiles(),
        gap_us: tally.gap.quantiles(),
        histograms: histograms(&tally, connections.as_ref()).into_iter().chain(lived).collect(),
        ledger,
        subject: played.watch_result.subject,
        hosts: NonEmpty::one(played.watch_result.host),
        intervals: intervals(&tally),
        sent_per_100ms: tally.sent_per_100ms,
        // The caller of the trial knows the speed of the cores.
        speed: None,
        stalls: None,
        residence: None,
        beside: Vec::new(),
        classes: Vec::new(),
        hostile: attempts.map(HostileCounts::into_facts),
        events: Vec::new(),
        // The program that started the subject knows it.
        upstream: None,
        silences: tally.timeline.silences(&silence_rule),
        parts: Vec::new(),
        start_skew_us: None,
        mishaps: tally.timeline.mishaps(),
        moments: tally.timeline.moments(),
    }
}

/// The ledger of all classes of a trial together, from the results of all their threads. It is empty if a class plays over
/// connections: their lost segments and packets are sent again, so no query is lost with one.
pub(crate) fn ledger_of(plans: &[&Plan], results: &[ThreadResult], seen: &WatchResult) -> Ledger {
    if !plans.iter().all(|plan| plan.wire.is_udp()) {
        return Ledger::default();
    }
    let sum = |of: fn(&ThreadResult) -> u64| results.iter().map(of).sum();
    let mut accounts = Accounts::default();
    for result in results {
        accounts.add(&result.tally.accounts);
    }
    ledger(&Evidence {
        accounts: &accounts,
        player_socket_drops: sum(|result| result.drops),
        messages_sent: sum(|result| result.tally.messages_sent),
        messages_received: sum(|result| result.tally.messages_received),
        ipv6: plans.iter().any(|plan| plan.targets[0].is_ipv6()),
        host: &seen.host,
        subject: seen.subject.as_ref(),
        side: seen.side,
        past_kernel: results.iter().any(|result| result.past.is_some()),
    })
}

/// The frames of each thread that came past the kernel.
fn past<'a>(played: &'a FinishedTrial<'_>) -> impl Iterator<Item = &'a PastCounts> {
    played.results.iter().filter_map(|result| result.past.as_ref())
}

fn dataset(FinishedTrial { plan, dataset: played, .. }: &FinishedTrial<'_>) -> DatasetFacts {
    if plan.hostile.is_some_and(|kind| !kind.has_queries()) {
        return DatasetFacts::default();
    }
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
    let of_tcp = connections.into_iter().filter(|counts| counts.are_of_tcp());
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

fn load(played: &FinishedTrial<'_>, tally: &Tally) -> LoadFacts {
    let plan = played.plan;
    let longest =
        |of: fn(&ThreadResult) -> u64| played.results.iter().map(of).max().unwrap_or(0) as f64 / 1e9;
    let duration_s = longest(|result| result.played_ns);
    let sending_s = longest(|result| result.sent_ns);
    let over = |count: f64, seconds: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
    let (mode, arrivals, outstanding, intended_qps) = match plan.load {
        LoadPlan::Open { rate_qps, arrivals, window } => {
            (LoadMode::Open, Some(arrivals.to_string()), window, Some(rate_qps))
        }
        LoadPlan::Closed { outstanding } => (LoadMode::Closed, None, Some(outstanding), None),
        LoadPlan::Limited { outstanding, rate_qps } => {
            (LoadMode::Closed, None, Some(outstanding), Some(rate_qps))
        }
    };
    let course = plan.course.as_ref().zip(intended_qps).map(|(course, rate_qps)| course.times(rate_qps));
    let mean_qps = course.as_ref().map(|course| over(course.count_until(duration_s), duration_s));
    let correct_in_time = played.results.iter().map(|result| result.correct_in_time).sum();
    // If the time ends a closed loop, the replies to its last window make no room for another query.
    let answered = if mode == LoadMode::Closed { correct_in_time } else { tally.accounts.correct };
    LoadFacts {
        mode,
        arrivals,
        outstanding,
        outstanding_mean: Some(over(tally.outstanding.sum_s(), duration_s)),
        intended_qps: mean_qps.or(intended_qps),
        // Replies decide when a closed loop sends, and a schedule does not wait for them.
        offered_qps: over(
            tally.accounts.sent as f64,
            if mode == LoadMode::Closed { duration_s } else { sending_s },
        ),
        answered_qps: over(answered as f64, duration_s),
        correct_in_time: Some(correct_in_time),
        duration_s,
        sending_s: Some(sending_s),
        timeout_s: plan.timeout.as_secs_f64(),
        drain_s: longest(|result| result.drain_ns),
        burst: plan.burst as u32,
        coalesce_us: Some(plan.coalesce.as_secs_f64() * 1e6),
        lag_allowed_us: Some(plan.lag_allowed.as_secs_f64() * 1e6),
        seed: Some(plan.seed),
        course,
    }
}

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

fn mean(sum: u64, count: u64) -> Option<f64> {
    (count > 0).then(|| sum as f64 / count as f64)
}
