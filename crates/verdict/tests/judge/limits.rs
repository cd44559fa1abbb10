//! Limits on the rate of responses: facts that show one, and facts that almost do.

use kqps_observation::{Place, Trial};
use kqps_verdict::warning::{
    Code, Effect, Surroundings, of_trial, rate_limited, truncated, unexplained_loss,
};

use super::facts::{place, subject_busy, trial};

/// A trial of 100,000 queries, of which the subject read `lost` and did not answer them.
fn unanswered(lost: u64) -> Trial {
    let mut silent = trial(100e3, lost);
    silent.ledger.places.clear();
    place(&mut silent, Place::SubjectUnanswered, lost);
    silent
}

#[test]
fn replies_that_slip_through_a_limit_are_no_answers() {
    // Every second limited response was sent as a slip.
    let mut slipping = unanswered(30_000);
    (slipping.accounts.truncated, slipping.accounts.slipped) = (30_000, 30_000);
    slipping.lost_expected = [("NXDOMAIN".into(), 29_000), ("NODATA".into(), 1_000)].into();
    let warning = rate_limited(&slipping).unwrap();
    assert_eq!(
        (warning.code, warning.effect(), warning.figure),
        (Code::RateLimited, Effect::Refuse, Some(30e3))
    );
    for words in [
        "one for every 2 responses",
        " 30000 queries were lost; of these, 1000 expected NODATA and 29000 NXDOMAIN. ",
        "rrl-whitelist-ratelimit: 0",
        "mod-rrl",
        "rate-limit { ... }",
        "ip-ratelimit: 0",
        "MaxQPSIPRule",
        "setDynBlocks",
        "PowerDNS",
    ] {
        assert!(warning.advice.contains(words), "{words}: {warning}");
    }
    // If the server is known, only its own settings are printed.
    slipping.subject.as_mut().unwrap().program = "nsd".into();
    let advice = rate_limited(&slipping).unwrap().advice;
    assert!(advice.contains("rrl-ratelimit: 0") && !advice.contains("mod-rrl"), "{advice}");
    // All limited responses slipped, and nothing was lost.
    let mut all = trial(100e3, 0);
    (all.accounts.truncated, all.accounts.slipped) = (90_000, 90_000);
    assert_eq!(rate_limited(&all).unwrap().effect(), Effect::Refuse);
    all.accounts.slipped = 10;
    assert_eq!(rate_limited(&all), None, "so few may be chance");
}

/// It may limit, or ignore queries at random: nothing shows which.
#[test]
fn a_subject_with_time_to_spare_that_keeps_silent_is_accused_of_nothing() {
    let mut silent = unanswered(40_000);
    assert_eq!(rate_limited(&silent), None);
    let warning = unexplained_loss(&silent).unwrap();
    assert_eq!(
        (warning.code, warning.effect(), warning.figure),
        (Code::UnexplainedLoss, Effect::DownOne, Some(40e3))
    );
    let advice = &warning.advice;
    assert!(advice.starts_with("The subject read 40000 queries and did not answer them"), "{advice}");
    assert!(advice.contains("Why is not known: it may limit") && !advice.contains("So the"), "{advice}");
    let codes: Vec<Code> =
        of_trial(&silent, &Surroundings::default()).iter().map(|warning| warning.code).collect();
    assert_eq!(codes, [Code::SingleHost, Code::UnexplainedLoss]);
    subject_busy(&mut silent, 0.97);
    assert_eq!(unexplained_loss(&silent), None, "it may have been overloaded");
    subject_busy(&mut silent, 0.5);
    silent.accounts.late = 1_000;
    assert_eq!(unexplained_loss(&silent), None, "queries wait in a queue");
    silent.accounts.late = 0;
    silent.hosts.first.network.udp4.no_ports = 40_000;
    assert_eq!(unexplained_loss(&silent), None, "no process listened");
    silent.hosts.first.network.udp4.no_ports = 0;
    (silent.accounts.correct, silent.accounts.lost) = (0, 100_000);
    assert_eq!(unexplained_loss(&silent), None, "it answers no query");
}

/// Every reply is cut, and none came whole: their answers may be too large, or limited.
#[test]
fn replies_that_are_mostly_truncated_are_named_without_a_cause() {
    let mut cut = trial(15e3, 0);
    cut.accounts.truncated = 15_000;
    let warning = truncated(&cut).unwrap();
    assert_eq!(
        (warning.code, warning.effect(), warning.figure),
        (Code::Truncated, Effect::DownOne, Some(15e3))
    );
    assert!(warning.advice.starts_with("15000 of 15000 correct replies were truncated (TC)"), "{warning}");
    assert!(warning.advice.contains("Either their answers are larger"), "{warning}");
    assert!(of_trial(&cut, &Surroundings::default()).contains(&warning));
    cut.accounts.slipped = 15_000;
    assert_eq!(truncated(&cut), None, "a limit is known");
    (cut.accounts.truncated, cut.accounts.slipped) = (1_499, 0);
    assert_eq!(truncated(&cut), None, "below a tenth");
    cut.accounts.truncated = 1_500;
    assert!(truncated(&cut).is_some());
}

#[test]
fn a_full_socket_buffer_is_no_limit() {
    let mut full = trial(100e3, 50_000);
    full.lost_expected = [("NXDOMAIN".into(), 25_000), ("NOERROR".into(), 25_000)].into();
    full.response_rcodes = [("NXDOMAIN".into(), 25_000), ("NOERROR".into(), 25_000)].into();
    assert_eq!(rate_limited(&full), None);
    // Not even if one kind was lost more often, since the counters show where.
    full.lost_expected = [("NXDOMAIN".into(), 50_000)].into();
    full.response_rcodes = [("NXDOMAIN".into(), 25_000), ("NOERROR".into(), 25_000)].into();
    assert_eq!(rate_limited(&full), None);
}

#[test]
fn losses_of_one_kind_of_answers_are_a_limit_wherever_the_subject_is() {
    let mut far = unanswered(40_000);
    far.ledger.places.clear();
    far.ledger.unexplained = 40_000;
    far.subject = None;
    far.lost_expected = [("NXDOMAIN".into(), 40_000)].into();
    far.response_rcodes = [("NXDOMAIN".into(), 10_000), ("NOERROR".into(), 50_000)].into();
    let warning = rate_limited(&far).unwrap();
    assert!(
        warning
            .advice
            .starts_with("80 % of the queries for NXDOMAIN were lost, and 0 % of those for NOERROR"),
        "{warning}"
    );
    // Losses of all kinds alike show nothing.
    far.lost_expected =
        [("NXDOMAIN".into(), 8_000), ("NODATA".into(), 16_000), ("NOERROR".into(), 16_000)].into();
    far.response_rcodes = [("NXDOMAIN".into(), 12_000), ("NOERROR".into(), 48_000)].into();
    assert_eq!(rate_limited(&far), None);
    far.lost_expected = [("unknown".into(), 40_000)].into();
    assert_eq!(rate_limited(&far), None);
}

#[test]
fn a_refusal_at_times_is_a_limit() {
    let mut refusing = trial(100e3, 0);
    refusing.refused_at_times = 500;
    let warning = rate_limited(&refusing).unwrap();
    assert!(warning.advice.starts_with("500 queries were answered with REFUSED"), "{warning}");
}
