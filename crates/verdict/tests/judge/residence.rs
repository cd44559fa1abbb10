//! A trial in which packets were stamped: its residence stands beside the players' latency, and it is not judged.

use kqps_observation::run::{Outcome, Purpose};
use kqps_observation::{HostFacts, Quantiles, ResidenceFacts, Trial};
use kqps_verdict::judge::{CellResidence, judge};

use super::facts::{SUBJECT, equal_starts, trial};

/// The verdict's residence for a trial. Checks that the verdict says nothing else because of it.
fn found(outcome: Outcome) -> CellResidence {
    let undisturbed = judge(&equal_starts().run);
    let mut rig = equal_starts();
    rig.add(SUBJECT, 0, 100, Purpose::Residence, Trial::default());
    let last = rig.run.trials.last_mut().unwrap();
    last.outcome = outcome;
    let number = last.number;
    let mut verdict = judge(&rig.run);
    let found = verdict.subjects[0].residence.take().unwrap();
    assert_eq!(found.trial, number);
    assert_eq!(verdict, undisturbed, "it is in no figure");
    found
}

fn quantiles(p50: u64) -> Quantiles {
    Quantiles { p50: Some(p50), p90: Some(2 * p50), p99: Some(3 * p50), ..Quantiles::default() }
}

/// It would be the worst trial of all: slow and lossy.
fn stamped(facts: ResidenceFacts) -> Trial {
    let mut trial = trial(100e3, 90_000);
    (trial.disturbed, trial.latency_us) = (true, quantiles(900));
    trial.residence = Some(ResidenceFacts { device: "eth1".into(), residence_us: quantiles(40), ..facts });
    trial
}

fn facts() -> ResidenceFacts {
    ResidenceFacts {
        one_in: 2,
        queries: 50_000,
        replies: 49_700,
        pairs: 49_600,
        unanswered: 400,
        unasked: 100,
        ..ResidenceFacts::default()
    }
}

#[test]
fn residence_stands_beside_the_latency_of_its_own_trial() {
    let found = found(Outcome::Measured(Box::new(stamped(facts()))));
    assert_eq!((found.residence_us, found.latency_us), (quantiles(40), quantiles(900)));
    assert_eq!((found.one_in, found.pairs, found.load_qps as u64), (2, 49_600, 100_000));
    assert!((found.stamped_share - 0.496).abs() < 1e-9, "of 100,000 that were sent");
    assert_eq!((found.doubt, found.failure), (None, None), "1 % may be missing");
}

#[test]
fn what_is_missing_is_a_doubt_and_what_is_impossible_is_no_residence() {
    let of = |facts| found(Outcome::Measured(Box::new(stamped(facts))));
    let dropped = of(ResidenceFacts { dropped: 7, ..facts() });
    assert_eq!(dropped.doubt.as_deref(), Some("7 packets found no room, and their queries are left out"));
    let unpaired =
        of(ResidenceFacts { pairs: 49_300, unanswered: 500, repeated: 200, unasked: 400, ..facts() });
    let expected =
        "of 50000 queries 500 had no reply and 200 could not be told apart, and 400 replies had no query";
    assert_eq!((unpaired.doubt.as_deref(), unpaired.failure), (Some(expected), None));
    let mut short = stamped(facts());
    short.accounts.intended += 20_000;
    short.accounts.unsent += 20_000;
    let short = found(Outcome::Measured(Box::new(short)));
    assert!(short.doubt.unwrap().starts_with("a player disturbed the trial"));
    let none = of(ResidenceFacts { pairs: 0, unanswered: 50_000, unasked: 49_700, ..facts() });
    assert!(none.failure.unwrap().starts_with("no reply was seen with its query at eth1: 50000 queries"));
    let wrong = of(ResidenceFacts { queries: 50_001, ..facts() });
    assert!(wrong.failure.unwrap().starts_with("the counts are impossible: 50001 queries"));
    assert_eq!(wrong.residence_us, Quantiles::default());
}

#[test]
fn a_host_that_cannot_stamp_and_a_subject_that_dies_give_the_reason() {
    let mut unstamped = trial(100e3, 0);
    let unreadable = [("residence".to_owned(), "Operation not permitted".to_owned())].into();
    unstamped.hosts.others = vec![HostFacts { unreadable, ..HostFacts::default() }];
    let without = found(Outcome::Measured(Box::new(unstamped)));
    assert_eq!(without.failure.as_deref(), Some("Operation not permitted"));
    let died = found(Outcome::Failed { reason: "it died".into(), output: Vec::new() });
    assert_eq!(died.failure.as_deref(), Some("it died"));
}
