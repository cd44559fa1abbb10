//! Figures of a resolver in an Internet in a box: how many queries were answered rightly, and what it asked upstream for them.

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
