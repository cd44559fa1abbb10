//! Replies that a class got for its queries.

use kqps_observation::Trial;

use super::ClassFigures;

/// The name of the rcode of a server that does not want to answer (RFC 1035, section 4.1.1).
const REFUSED: &str = "REFUSED";

/// The figures of a class of this name. `is_beside_others` is true for the good clients beside other classes.
pub(super) fn class(name: &str, trial: &Trial, is_beside_others: bool) -> ClassFigures {
    let accounts = &trial.accounts;
    let bytes = |mean: Option<f64>, count: u64| (mean.unwrap_or(0.0) * count as f64).round() as u64;
    let request_bytes = bytes(trial.request_bytes_mean, accounts.sent);
    let response_bytes = match &trial.replies {
        Some(replies) => bytes(replies.bytes_mean, replies.count),
        // Older records have the sizes of correct replies alone.
        None => bytes(trial.response_bytes_mean, accounts.correct),
    };
    let limited = accounts.slipped + trial.refused_at_times + accounts.lost;
    ClassFigures {
        name: name.to_owned(),
        request_bytes,
        response_bytes,
        amplification: (request_bytes > 0).then(|| response_bytes as f64 / request_bytes as f64),
        truncated: accounts.truncated,
        slipped: accounts.slipped,
        refused: trial.response_rcodes.get(REFUSED).copied().unwrap_or(0),
        dropped: accounts.lost,
        wrongly_limited: is_beside_others.then_some(limited),
        silence: trial.silences.first().copied(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kqps_observation::trial::ReplyFacts;
    use kqps_observation::{Accounts, Silence};

    use super::*;

    /// A class whose 1,000 queries of 40 bytes got 600 replies of 300 bytes on average.
    fn limited() -> Trial {
        Trial {
            accounts: Accounts {
                intended: 1_010,
                sent: 1_000,
                correct: 500,
                wrong: 100,
                lost: 390,
                late: 10,
                truncated: 200,
                slipped: 150,
                ..Accounts::default()
            },
            request_bytes_mean: Some(40.0),
            response_bytes_mean: Some(350.0),
            replies: Some(ReplyFacts { count: 600, bytes_mean: Some(300.0), ..ReplyFacts::default() }),
            response_rcodes: BTreeMap::from([("NOERROR".into(), 500), ("REFUSED".into(), 100)]),
            refused_at_times: 30,
            silences: vec![Silence { at_s: 2.0, seconds: 0.3 }, Silence { at_s: 1.0, seconds: 0.1 }],
            ..Trial::default()
        }
    }

    #[test]
    fn amplification_is_bytes_out_for_each_byte_in() {
        let figures = class("attack", &limited(), false);
        assert_eq!((figures.request_bytes, figures.response_bytes), (40_000, 180_000));
        assert_eq!(figures.amplification, Some(4.5));
        let older = Trial { replies: None, ..limited() };
        assert_eq!(class("attack", &older, false).amplification, Some(350.0 * 500.0 / 40_000.0));
        let silent = Trial { request_bytes_mean: None, ..Trial::default() };
        assert_eq!(class("idle", &silent, false).amplification, None);
    }

    #[test]
    fn a_limit_is_shown_by_slips_refusals_and_lost_queries() {
        let figures = class("attack", &limited(), false);
        let counts = [figures.truncated, figures.slipped, figures.refused, figures.dropped];
        assert_eq!((counts, figures.wrongly_limited), ([200, 150, 100, 390], None));
        assert!(figures.shows_limit() && !class("idle", &Trial::default(), false).shows_limit());
        assert_eq!(figures.silence, Some(Silence { at_s: 2.0, seconds: 0.3 }));
        // For the good clients 150 slipped, 30 were refused at times, and 390 had no reply.
        assert_eq!(class("good", &limited(), true).wrongly_limited, Some(570));
    }
}
