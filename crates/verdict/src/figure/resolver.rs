//! Figures of a resolver in an Internet in a box: how many queries were answered rightly, and what it asked upstream for them.

use kqps_observation::moments::{Moment, bucket_end_us};
use kqps_observation::{Histogram, Trial, UpstreamFacts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Hits and misses of a resolver whose servers all take one time to answer. A hit is a right reply that came sooner than that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheFigures {
    /// Hits as a share of the queries sent, 0 to 1. Queries without a right reply in time are misses.
    pub hits_share: f64,
    /// The median latency of hits, microseconds.
    pub hit_us: Option<u64>,
    /// The median latency of other right replies, and of lost queries, which count with the timeout, microseconds.
    pub miss_us: Option<u64>,
}

/// Correct replies in time as a share of the queries sent, 0 to 1; `None` if no trial is one of a resolver.
pub(super) fn right_share(trials: &[&Trial]) -> Option<f64> {
    share(trials, |trial| trial.accounts.correct)
}

/// Upstream queries by UDP and TCP for each query sent; `None` if no trial is one of a resolver.
pub(super) fn upstream_per_query(trials: &[&Trial]) -> Option<f64> {
    share(trials, |trial| trial.upstream.as_ref().map_or(0, UpstreamFacts::queries))
}

/// The latency within which a warm cache answers, microseconds.
const WARM_US: f64 = 10_000.0;

/// The share of the due queries that a warm cache answers within that time.
const WARM_SHARE: f64 = 0.99;

/// The time over which the share is taken, seconds.
const WARM_WINDOW_S: f64 = 1.0;

/// Mean time from the begin of each load until the resolver answers rightly within 10 ms 99 % of the queries that are due: in the
/// second from then on, and in all of the load from then on. `None` if a load has no moments, or ends before.
pub(super) fn warm_after_s(trials: &[&Trial]) -> Option<f64> {
    let each: Option<Vec<f64>> = trials.iter().map(|trial| warm_after(&trial.moments)).collect();
    let each = each.filter(|each| !each.is_empty())?;
    Some(each.iter().sum::<f64>() / each.len() as f64)
}

fn warm_after(moments: &[Moment]) -> Option<f64> {
    let soon = |moment: &Moment| {
        let is_soon = |(bucket, _): &&(u16, u64)| bucket_end_us(*bucket) <= WARM_US;
        moment.latencies.iter().filter(is_soon).map(|(_, count)| count).sum::<u64>()
    };
    let is_warm = |moments: &[Moment]| {
        let (due, soon) = moments
            .iter()
            .fold((0, 0), |(due, in_time), moment| (due + moment.intended, in_time + soon(moment)));
        due > 0 && soon as f64 >= WARM_SHARE * due as f64
    };
    let from = (0..moments.len()).find(|&from| {
        let rest = &moments[from..];
        let end_s = rest[0].at_s + WARM_WINDOW_S;
        let next = rest.iter().take_while(|moment| moment.at_s < end_s).count();
        let lasts = rest.last().is_some_and(|last| last.at_s + last.seconds >= end_s - last.seconds / 2.0);
        lasts && is_warm(&rest[..next]) && is_warm(rest)
    })?;
    Some(moments[from].at_s)
}

/// Hits and misses in trials, of which each server took `delay_ms` to answer; `None` without a latency, or without a delay.
pub(super) fn cache(trials: &[&Trial], delay_ms: u32) -> Option<CacheFigures> {
    let delay_us = u64::from(delay_ms) * 1000;
    let mut latency = Histogram::default();
    let recorded = trials.iter().filter_map(|trial| Histogram::decode(trial.histograms.get("latency")?));
    recorded.for_each(|recorded| latency.add(&recorded));
    if latency.is_empty() || delay_us == 0 {
        return None;
    }
    let (mut hits, mut misses) = (Histogram::default(), Histogram::default());
    for (time_us, count) in latency.times() {
        let side = if time_us < delay_us { &mut hits } else { &mut misses };
        side.record_many_us(time_us, count);
    }
    let sent: u64 = trials.iter().map(|trial| trial.accounts.sent).sum();
    let median = |side: &Histogram| side.at_most_us(0.5).filter(|_| !side.is_empty());
    Some(CacheFigures {
        // Wrong replies have no latency.
        hits_share: hits.len() as f64 / sent.max(1) as f64,
        hit_us: median(&hits),
        miss_us: median(&misses),
    })
}

fn share(trials: &[&Trial], of: impl Fn(&Trial) -> u64) -> Option<f64> {
    let of_resolver = || trials.iter().filter(|trial| trial.upstream.is_some());
    let sent: u64 = of_resolver().map(|trial| trial.accounts.sent).sum();
    let counted: u64 = of_resolver().map(|trial| of(trial)).sum();
    (sent > 0).then(|| counted as f64 / sent as f64)
}

#[cfg(test)]
mod tests {
    use kqps_observation::Accounts;

    use super::*;

    #[test]
    fn replies_that_come_sooner_than_any_server_are_hits() {
        let mut latency = Histogram::default();
        latency.record_many_us(300, 80);
        latency.record_many_us(21_000, 15);
        latency.record_many_us(63_000, 5);
        let histograms = [("latency".to_owned(), latency.encode())].into();
        // A fifth of 125 queries had a wrong reply.
        let accounts = Accounts { sent: 125, ..Accounts::default() };
        let trial = Trial { histograms, accounts, ..Trial::default() };
        let found = cache(&[&trial, &trial], 20).unwrap();
        assert_eq!((found.hits_share, found.hit_us), (0.64, Some(300)));
        assert!(latency.are_same(found.miss_us.unwrap(), 21_000), "{found:?}");
        assert_eq!(cache(&[&trial], 0), None, "without a delay both look alike");
        assert_eq!(cache(&[&Trial::default()], 20), None);
        assert_eq!(cache(&[&trial], 1000).unwrap().miss_us, None);
    }

    #[test]
    fn a_cold_cache_is_warm_when_99_of_100_are_answered_soon_from_then_on() {
        // Bucket 80 ends at 2^10.125 µs, and bucket 110 at 2^13.875 µs, which is 15 ms.
        let moment = |at: u32, soon: u64| Moment {
            at_s: f64::from(at) / 10.0,
            seconds: 0.1,
            intended: 100,
            answered: 100,
            latencies: vec![(80, soon), (110, 100 - soon)],
            ..Moment::default()
        };
        let load = |soon: &dyn Fn(u32) -> u64| {
            let moments = (0..30).map(|at| moment(at, soon(at))).collect();
            Trial { moments, ..Trial::default() }
        };
        let warm = |soon: &dyn Fn(u32) -> u64| warm_after_s(&[&load(soon)]);
        assert_eq!(warm(&|at| if at < 7 { 50 } else { 100 }), Some(0.7));
        assert_eq!(warm(&|_| 99), Some(0.0));
        assert_eq!(warm(&|_| 98), None);
        assert_eq!(warm(&|at| if at < 25 { 50 } else { 100 }), None, "less than a second of it was seen");
        assert_eq!(warm(&|at| if at == 15 { 0 } else { 100 }), Some(1.6), "a relapse counts");
        let (one, other) = (load(&|_| 100), load(&|at| if at < 10 { 0 } else { 100 }));
        assert_eq!(warm_after_s(&[&one, &other]), Some(0.5));
        assert_eq!((warm_after_s(&[]), warm_after_s(&[&one, &Trial::default()])), (None, None));
    }

    #[test]
    fn shares_are_those_of_all_trials_together() {
        let trial = |sent, correct, tld| Trial {
            accounts: Accounts { sent, correct, ..Accounts::default() },
            upstream: Some(UpstreamFacts {
                udp: [("tld".to_owned(), tld)].into(),
                tcp: [("hosting".to_owned(), 10)].into(),
                ..UpstreamFacts::default()
            }),
            ..Trial::default()
        };
        let (one, other) = (trial(100, 90, 30), trial(300, 300, 50));
        assert_eq!(right_share(&[&one, &other]), Some(390.0 / 400.0));
        assert_eq!(upstream_per_query(&[&one, &other]), Some(100.0 / 400.0));
        let server = Trial { upstream: None, ..trial(100, 90, 0) };
        assert_eq!((right_share(&[&server]), upstream_per_query(&[])), (None, None));
    }
}
