//! What the threads counted and what was seen around them, joined into one record.

use std::collections::BTreeMap;

use kqps_dataset::Dataset;
use kqps_host::ledger::{Evidence, ledger};
use kqps_host::watch::Seen;
use kqps_kernel::errno;
use kqps_message::rcode;
use kqps_observation::trial::{DatasetFacts, Interval, Load, LoadMode, PlayerFacts};
use kqps_observation::{SCHEMA, Trial};

use crate::io::Chosen;
use crate::plan::{LoadPlan, Plan};
use crate::reply::Cause;
use crate::tally::{Tally, per_second};

/// What a thread brings back.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) tally: Tally,
    /// For how long it sent.
    pub(crate) played_ns: u64,
    /// For how long it listened after that.
    pub(crate) drain_ns: u64,
    /// Datagrams that its sockets dropped.
    pub(crate) drops: u64,
    /// Sockets that fell back from segmentation.
    pub(crate) fallbacks: u32,
}

/// A trial that is over.
pub(crate) struct Played<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) dataset: &'a Dataset,
    pub(crate) chosen: Chosen,
    pub(crate) heard: Vec<Heard>,
    pub(crate) seen: Seen,
    pub(crate) started_unix_ms: u64,
    pub(crate) started_monotonic_ns: u64,
    pub(crate) interrupted: bool,
}

/// The record of a trial.
pub(crate) fn trial(played: Played<'_>) -> Trial {
    let mut tally = Tally::default();
    for heard in &played.heard {
        tally.add(&heard.tally);
    }
    let accounts = tally.accounts;
    let drops = played.heard.iter().map(|heard| heard.drops).sum();
    let ledger = ledger(&Evidence {
        accounts: &accounts,
        player_socket_drops: drops,
        messages_sent: tally.messages_sent,
        messages_heard: tally.messages_heard,
        ipv6: played.plan.target.is_ipv6(),
        host: &played.seen.host,
        subject: played.seen.subject.as_ref(),
        side: played.seen.side,
    });
    Trial {
        schema: SCHEMA,
        kind: "trial".into(),
        interrupted: played.interrupted,
        started_unix_ms: played.started_unix_ms,
        started_monotonic_ns: played.started_monotonic_ns,
        target: played.plan.target.to_string(),
        dataset: DatasetFacts {
            path: played.dataset.path().display().to_string(),
            hash: played.dataset.hash(),
            queries: played.dataset.queries(),
        },
        load: load(&played, &tally),
        accounts,
        wrong_causes: by_name(
            Cause::ALL.map(Cause::name).into_iter().map(String::from).zip(tally.wrong_causes),
        ),
        send_failed_causes: by_name(
            tally.send_errors.iter().map(|(&errno, &count)| (errno::name(errno), count)),
        ),
        response_rcodes: by_name((0..).map(|code| rcode::Shown(code).to_string()).zip(tally.rcodes)),
        request_bytes_mean: mean(tally.request_bytes, accounts.sent),
        response_bytes_mean: mean(tally.response_bytes, accounts.correct),
        latency_us: tally.latency.quantiles(),
        lag_us: tally.lag.quantiles(),
        gap_us: tally.gap.quantiles(),
        histograms: BTreeMap::from([
            ("latency".into(), tally.latency.encode()),
            ("lag".into(), tally.lag.encode()),
            ("gap".into(), tally.gap.encode()),
        ]),
        player: player(&played, &tally, drops),
        ledger,
        subject: played.seen.subject,
        host: played.seen.host,
        intervals: intervals(&tally),
        sent_per_100ms: tally.sent_per_100ms,
    }
}

fn load(played: &Played<'_>, tally: &Tally) -> Load {
    let plan = played.plan;
    let longest = |of: fn(&Heard) -> u64| played.heard.iter().map(of).max().unwrap_or(0) as f64 / 1e9;
    let duration_s = longest(|heard| heard.played_ns);
    let rate = |count: u64| if duration_s > 0.0 { count as f64 / duration_s } else { 0.0 };
    let (mode, arrivals, outstanding, intended_qps) = match plan.load {
        LoadPlan::Open { rate_qps, arrivals } => {
            (LoadMode::Open, Some(arrivals.to_string()), None, Some(rate_qps))
        }
        LoadPlan::Closed { outstanding } => (LoadMode::Closed, None, Some(outstanding), None),
    };
    Load {
        mode,
        arrivals,
        outstanding,
        intended_qps,
        offered_qps: rate(tally.accounts.sent),
        answered_qps: rate(tally.accounts.correct),
        duration_s,
        timeout_s: plan.timeout.as_secs_f64(),
        drain_s: longest(|heard| heard.drain_ns),
        burst: plan.burst as u32,
    }
}

fn player(played: &Played<'_>, tally: &Tally, socket_drops: u64) -> PlayerFacts {
    let mut notes = Vec::new();
    if tally.unsent_for_ids > 0 {
        let count = tally.unsent_for_ids;
        notes.push(format!(
            "{count} queries were unsent because every ID of their socket was outstanding; use more sockets"
        ));
    }
    let segment_fallbacks = played.heard.iter().map(|heard| heard.fallbacks).sum();
    if segment_fallbacks > 0 {
        notes.push(format!("{segment_fallbacks} sockets fell back from segmented to single sends"));
    }
    PlayerFacts {
        io: played.chosen.name().into(),
        notes,
        threads: played.plan.threads as u32,
        sockets: played.plan.sockets.max(played.plan.threads) as u32,
        cpu_s: played.seen.player_cpu_s,
        cpus: played.plan.cpus.clone(),
        socket_drops,
        segment_fallbacks,
        per_thread: played.seen.player_threads.clone(),
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

/// Counts by name, without those that are 0.
fn by_name(counts: impl Iterator<Item = (String, u64)>) -> BTreeMap<String, u64> {
    counts.filter(|(_, count)| *count > 0).collect()
}

fn mean(sum: u64, count: u64) -> Option<f64> {
    (count > 0).then(|| sum as f64 / count as f64)
}
