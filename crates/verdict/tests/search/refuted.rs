//! Loads that met the goal and failed their re-test: they are no bounds, and neither is a greater load.

use kqps_observation::run::Purpose;
use kqps_verdict::search::{Goal, Preset, Probe, Start, bounds_found};

use super::simulate::{probe_of, search_with};

/// A trial long enough to settle a load at once.
fn settling(goal: &Goal, load_qps: f64, bad_ratio: f64) -> Probe {
    probe_of(load_qps, goal.sum_s, bad_ratio)
}

fn retest(goal: &Goal, load_qps: f64, bad_ratio: f64) -> Probe {
    Probe { purpose: Purpose::Retest, ..probe_of(load_qps, goal.final_s, bad_ratio) }
}

#[test]
fn a_load_that_failed_its_re_test_is_no_lower_bound() {
    let goal = Preset::Quick.goal();
    let [held, refuted, missed] = [(60_000.0, 0.0), (81_660.0, 0.0), (83_000.0, 0.1)]
        .map(|(load_qps, bad_ratio)| settling(&goal, load_qps, bad_ratio));
    let bounds = bounds_found(&goal, &[refuted, missed]);
    assert_eq!((bounds.lower_qps, bounds.drifted, bounds.retests), (Some(81_660.0), None, 0));

    let bounds = bounds_found(&goal, &[refuted, missed, retest(&goal, 81_660.0, 0.05)]);
    assert_eq!((bounds.lower_qps, bounds.throughput_qps), (None, None));
    assert_eq!((bounds.upper_qps, bounds.refuted_qps), (Some(83_000.0), Some(81_660.0)));
    assert_eq!((bounds.drifted, bounds.met_qps, bounds.missed_qps), (Some(true), None, Some(81_660.0)));

    // The load that held below it was not refuted, and counts.
    let bounds = bounds_found(&goal, &[held, refuted, missed, retest(&goal, 81_660.0, 0.05)]);
    assert_eq!((bounds.lower_qps, bounds.throughput_qps), (Some(60_000.0), Some(60_000.0)));
    assert_eq!((bounds.drifted, bounds.retests), (Some(true), 0));
    let retests = [retest(&goal, 81_660.0, 0.05), retest(&goal, 60_000.0, 0.0)];
    assert!(bounds_found(&goal, &[held, refuted, missed, retests[0], retests[1]]).retests == 1);
}

#[test]
fn one_bad_trial_of_two_is_as_much_as_the_goal_allows() {
    let goal = Preset::Quick.goal();
    let of = |goal: &Goal, retests: &[f64]| {
        let retests = retests.iter().map(|bad_ratio| retest(goal, 81_660.0, *bad_ratio));
        let probes: Vec<Probe> = [settling(goal, 81_660.0, 0.0), settling(goal, 83_000.0, 0.1)]
            .into_iter()
            .chain(retests)
            .collect();
        let bounds = bounds_found(goal, &probes);
        (bounds.lower_qps, bounds.drifted, bounds.retests)
    };
    assert_eq!(of(&goal, &[0.0]), (Some(81_660.0), Some(false), 1));
    assert_eq!(of(&goal, &[0.1, 0.0]), (Some(81_660.0), Some(false), 2));
    assert_eq!(of(&goal, &[0.1]), (None, Some(true), 0), "there was no time for the second");
    assert_eq!(of(&goal, &[0.1, 0.1]), (None, Some(true), 0));
    // Once no more trials are bad than the goal allows, the load is a bound, and the subject drifted.
    assert_eq!(of(&goal, &[0.1, 0.1, 0.0, 0.0]), (Some(81_660.0), Some(true), 4));
    let strict = Preset::Rfc2544.goal();
    assert_eq!(of(&strict, &[0.1, 0.0]), (None, Some(true), 0), "no trial may be bad");
}

#[test]
fn nothing_is_said_to_be_faster_that_failed_its_re_test() {
    let goal = Goal { max_qps: 200_000.0, ..Preset::Quick.goal() };
    let greatest = settling(&goal, 200_000.0, 0.0);
    assert!(bounds_found(&goal, &[greatest]).irregular);
    let bounds = bounds_found(&goal, &[greatest, retest(&goal, 200_000.0, 0.01)]);
    assert!(!bounds.irregular && bounds.lower_qps.is_none(), "{bounds:?}");
}

#[test]
fn after_a_failed_re_test_a_lesser_load_is_made_sure_of_and_tried_again() {
    let goal = Preset::Quick.goal();
    let start = Start { bounds_qps: Some((99_000.0, 100_500.0)) };
    // After six trials the subject becomes slower and answers 90,000 a second. Both bounds are settled by then.
    let slowing = |load_qps: f64, _, index| {
        let capacity_qps = if index < 6 { 100_000.0 } else { 90_000.0 };
        (1.0 - capacity_qps / load_qps).max(0.0_f64)
    };
    let searched = search_with(&goal, &start, slowing, 0.0);
    let bounds = searched.bounds;
    assert_eq!((bounds.drifted, bounds.refuted_qps), (Some(true), Some(99_000.0)));
    let lower_qps = bounds.lower_qps.unwrap();
    assert!((70_000.0..=90_000.0).contains(&lower_qps) && bounds.retests == 1, "{bounds:?}");
    let last = searched.probes.last().unwrap();
    assert_eq!((last.purpose, last.load_qps), (Purpose::Retest, lower_qps));
    assert!(searched.wall_s <= goal.limit_s);
}

#[test]
fn where_re_tests_fail_only_what_was_not_refuted_is_left() {
    let goal = Preset::Quick.goal();
    let start = Start { bounds_qps: Some((99_000.0, 100_500.0)) };
    // Each load is good three times, which settles it, and bad the fourth time.
    let tried = std::cell::RefCell::new(std::collections::BTreeMap::<u64, u32>::new());
    let fickle = |load_qps: f64, _, _| {
        let mut tried = tried.borrow_mut();
        let times = tried.entry(load_qps.to_bits()).or_default();
        *times += 1;
        if load_qps > 100_000.0 || *times > 3 { 0.1 } else { 0.0 }
    };
    let searched = search_with(&goal, &start, fickle, 0.0);
    let bounds = searched.bounds;
    assert!(bounds.drifted == Some(true) && bounds.retests == 0, "{bounds:?}");
    let retests = searched.probes.iter().filter(|probe| probe.purpose == Purpose::Retest);
    let least_qps = retests.map(|probe| probe.load_qps).reduce(f64::min);
    assert_eq!(bounds.refuted_qps, least_qps);
    assert!(least_qps < Some(99_000.0), "a lesser one was tried, too");
    // There was no time to re-test this one.
    assert!(bounds.lower_qps.is_none_or(|lower_qps| Some(lower_qps) < least_qps), "{bounds:?}");
    assert!(searched.wall_s <= goal.limit_s * 1.15 + 1.0);
}
