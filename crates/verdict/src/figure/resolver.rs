//! Figures of a resolver in an Internet in a box: how many queries were answered rightly, and what it asked upstream for them.

use kqps_observation::Trial;

/// Correct replies in time as a share of the queries sent, 0 to 1; `None` if no trial is one of a resolver.
pub(super) fn right_share(trials: &[&Trial]) -> Option<f64> {
    share(trials, |trial| trial.accounts.correct)
}

/// Upstream queries by UDP and TCP for each query sent; `None` likewise.
pub(super) fn upstream_per_query(trials: &[&Trial]) -> Option<f64> {
    share(trials, |trial| trial.upstream.as_ref().map_or(0, |upstream| upstream.queries()))
}

fn share(trials: &[&Trial], of: impl Fn(&Trial) -> u64) -> Option<f64> {
    let of_resolver = || trials.iter().filter(|trial| trial.upstream.is_some());
    let sent: u64 = of_resolver().map(|trial| trial.accounts.sent).sum();
    let counted: u64 = of_resolver().map(|trial| of(trial)).sum();
    (sent > 0).then(|| counted as f64 / sent as f64)
}

#[cfg(test)]
mod tests {
    use kqps_observation::{Accounts, UpstreamFacts};

    use super::*;

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
