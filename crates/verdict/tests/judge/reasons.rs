//! A trial that was repeated for the reasons of its drops: it is reported, and not judged.

use kqps_observation::run::{Outcome, Purpose};
use kqps_verdict::judge::judge;

use super::facts::{SUBJECT, equal_starts, trial};

#[test]
fn a_trial_repeated_for_the_reasons_of_its_drops_gives_them_and_nothing_else() {
    let whole = equal_starts();
    let undisturbed = judge(&whole.run);
    let of = whole.run.trials.iter().rposition(|one| one.purpose == Purpose::Search).unwrap() as u64 + 1;
    let purpose = Purpose::Reasons { of };

    // It would be the worst trial of all: slow, lossy and wrong.
    let mut disturbed = trial(200e3, 100_000);
    disturbed.disturbed = true;
    disturbed.accounts.correct -= 7;
    disturbed.accounts.wrong = 7;
    let reasons = [("NO_SOCKET", 3), ("SOCKET_RCVBUFF", 90_000)];
    let counts = reasons.map(|(name, count)| (name.to_string(), count));
    disturbed.hosts.first.drop_reasons = Some(counts.clone().into());
    let mut rig = equal_starts();
    rig.add(SUBJECT, 0, 100, purpose, disturbed);
    let number = rig.run.trials.len() as u64;
    let mut verdict = judge(&rig.run);
    let found = verdict.subjects[0].drop_reasons.take().unwrap();
    assert_eq!((found.trial, found.repeats, found.lost, &found.failure), (number, of, 100_000, &None));
    assert_eq!(found.counts, [counts[1].clone(), counts[0].clone()]);
    assert_eq!(verdict, undisturbed);

    // A subject that dies in it is no crash of the cell either.
    let outcome = Outcome::Failed { reason: "it died".into(), output: Vec::new() };
    let last = rig.run.trials.last_mut().unwrap();
    (last.purpose, last.outcome) = (purpose, outcome);
    let mut verdict = judge(&rig.run);
    assert_eq!(verdict.subjects[0].drop_reasons.take().unwrap().failure.as_deref(), Some("it died"));
    assert_eq!(verdict, undisturbed);
}
