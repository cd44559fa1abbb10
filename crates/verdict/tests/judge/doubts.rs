//! Doubts that no single trial shows: a lower bound that no longer holds, a subject that was not steady, a host
//! that changed meanwhile. Each reaches the verdict on the cell.

use kqps_observation::run::{Outcome, Purpose};
use kqps_observation::trial::Interval;
use kqps_observation::{Question, Run};
use kqps_verdict::caveats;
use kqps_verdict::compare::{Figure, within_run};
use kqps_verdict::judge::judge;
use kqps_verdict::warning::{Code, Effect};

use super::facts::{Rig, SUBJECT, closed, knee, six_starts, subject, trial};

/// Whether the subject's figure has a warning of this code, which lowers its grade.
fn is_lowered_for(rig: &Rig, code: Code) -> bool {
    let verdict = subject(rig);
    assert!(verdict.figure_qps.is_some(), "{:?}", verdict.reasons);
    let found = verdict.warnings.iter().find(|warning| warning.code == code);
    found.is_some_and(|warning| warning.effect() == Effect::DownOne)
}

#[test]
fn half_of_the_searches_drifted() {
    let mut rig = six_starts(2e6, |_| {});
    for (drifted, is_doubt) in [(2, false), (3, true)] {
        let retests = rig.run.trials.iter_mut().filter(|one| one.purpose == Purpose::Retest);
        for one in retests.take(drifted) {
            let Outcome::Measured(retest) = &mut one.outcome else { unreachable!() };
            **retest = trial(retest.load.intended_qps.unwrap(), 5_000);
        }
        assert_eq!(is_lowered_for(&rig, Code::Drifted), is_doubt, "{drifted} of 6");
        let case = within_run(&rig.run, SUBJECT as usize, SUBJECT as usize, Figure::ReliableRate);
        let has_doubt = case.doubts.iter().any(|doubt| doubt.contains("has a doubtful figure, drifted: "));
        assert_eq!((has_doubt, case.refusals), (is_doubt, 0), "{:?}", case.doubts);
    }
}

#[test]
fn a_search_without_its_re_test_says_so() {
    let mut rig = six_starts(2e6, |_| {});
    let untested = |rig: &Rig| {
        subject(rig).reasons.into_iter().find(|reason| reason.contains("whether it drifted is not known"))
    };
    assert_eq!(untested(&rig), None);
    rig.run.trials.retain(|one| one.block > 1 || one.purpose != Purpose::Retest);
    assert!(
        untested(&rig).unwrap().starts_with("2 of 6 searches have no undisturbed trial"),
        "{:?}",
        untested(&rig)
    );
}

#[test]
fn what_a_run_did_not_look_for_is_said_of_its_figures() {
    let said = |run: &Run| caveats::of_run(run, &judge(run)).join(" ");
    let open = said(&six_starts(2e6, |_| {}).run);
    assert!(open.contains("steady state was not looked for"), "{open}");
    assert!(open.contains("No minimum detectable effect"), "{open}");
    let mut rig = six_starts(2e6, |_| {});
    assert!(said(&rig.run).contains("No canary was played"));
    rig.run.question = Some(Question::default());
    assert_eq!(said(&rig.run), "No canary was played: a host that changed during the run may not show.");
    rig.add(1, 5, 51, Purpose::Canary, closed(1000.0));
    assert_eq!(said(&rig.run), "", "a study states its warm-up with its question");
    assert_eq!(said(&Rig::new(2e6).run), "", "without a figure there is nothing to say it of");
}

#[test]
fn a_subject_that_still_climbs_while_it_warms_up() {
    for (step, is_doubt) in [(0, false), (300, true)] {
        let mut rig = six_starts(2e6, |_| {});
        let bin = |at_s| Interval { at_s, sent: 100_000, correct: 90_000 + step * at_s };
        let mut warm_up = closed(90_000.0);
        warm_up.load.duration_s = 10.0;
        warm_up.intervals = (1..=10).map(bin).collect();
        rig.add(SUBJECT, 0, 100, Purpose::WarmUp, warm_up);
        // The warm-up came first.
        let warm_up = rig.run.trials.pop().unwrap();
        let first = rig.run.trials.iter().position(|one| one.start == 100).unwrap();
        rig.run.trials.insert(first, warm_up);
        assert_eq!(is_lowered_for(&rig, Code::NoSteadyState), is_doubt, "{step} a second");
    }
}

#[test]
fn a_host_that_changed_between_two_canaries() {
    for (answered_qps, is_doubt) in [(990.0, false), (970.0, true)] {
        let mut rig = Rig::new(2e6);
        rig.add(1, 0, 50, Purpose::Canary, closed(1000.0));
        for block in 0..6 {
            rig.search(block, knee(200_000.0));
        }
        rig.add(1, 5, 51, Purpose::Canary, closed(answered_qps));
        assert_eq!(is_lowered_for(&rig, Code::Canary), is_doubt, "{answered_qps}");
    }
}
