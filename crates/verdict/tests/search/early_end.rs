//! Searches that end early, since no other load would do better, and searches that must not.

use kqps_observation::run::Purpose;
use kqps_verdict::search::{Futile, Goal, Next, Preset, Probe, Start, bounds_found, next_trial};

use super::simulate::{
    Searched, Shape, Subject, chance, probe_of, search, search_after, search_probing, search_with,
};

fn presets() -> impl Iterator<Item = Goal> {
    Preset::ALL.iter().map(|preset| preset.goal())
}

/// A search of a subject that leaves this share of the queries unanswered at any load.
fn filtered(goal: &Goal, share: f64, overload_qps: f64) -> Searched {
    search_with(goal, &Start::default(), |_, _, _| share, overload_qps)
}

#[test]
fn one_trial_with_many_wrong_answers_is_enough() {
    for goal in presets() {
        let wrong = Probe {
            purpose: Purpose::Ceiling,
            wrong_ratio: 0.97,
            bad_ratio: 0.97,
            ..probe_of(0.0, 1.0, 0.97)
        };
        let bounds = bounds_found(&goal, &[wrong]);
        assert_eq!(bounds.futile, Some(Futile::Wrong { ratio: 0.97 }), "{}", goal.name);
        assert!(!bounds.incomplete && !bounds.irregular && bounds.lower_qps.is_none());
        // The overload was answered correctly, but one trial of the search was not.
        let made =
            |rate_qps, duration_s, _| Probe { wrong_ratio: 0.5, ..probe_of(rate_qps, duration_s, 0.5) };
        let searched = search_probing(&goal, &Start::default(), made, 50_000.0);
        assert_eq!(searched.probes.len(), 2, "{}", goal.name);
    }
}

#[test]
fn as_many_wrong_answers_as_may_be_lost_do_not_end_it() {
    let goal = Preset::Quick.goal();
    let made = |rate_qps: f64, duration_s, _| {
        let over = (1.0 - 80_000.0 / rate_qps).max(0.0);
        Probe { wrong_ratio: 0.0005, ..probe_of(rate_qps, duration_s, over.max(0.0005)) }
    };
    let searched = search_probing(&goal, &Start::default(), made, 80_000.0);
    assert!(searched.bounds.futile.is_none() && searched.bounds.lower_qps.is_some(), "{:?}", searched.bounds);
    // A goal that allows more loss does not allow more wrong answers.
    let goal = Goal { loss: 0.05, ..goal };
    let made = |rate_qps, duration_s, _| Probe { wrong_ratio: 0.03, ..probe_of(rate_qps, duration_s, 0.03) };
    assert_eq!(search_probing(&goal, &Start::default(), made, 80_000.0).probes.len(), 2);
}

#[test]
fn two_spoiled_trials_at_the_beginning_do_not_use_up_the_time() {
    // The player spoiled them, so only the time that they took remains.
    let goal = Preset::Quick.goal();
    let overload = Probe { purpose: Purpose::Ceiling, answered_qps: 206_742.0, ..probe_of(0.0, 0.5, 0.0) };
    let overload = Probe { wall_s: overload.wall_s + 0.5 + 1.5, ..overload };
    let next = next_trial(&goal, &Start::default(), &[overload]);
    assert_eq!(next, Next::Trial { rate_qps: 198_500.0, duration_s: 0.5, purpose: Purpose::Search });
    let late = Probe { wall_s: goal.limit_s * 1.15, ..overload };
    assert!(matches!(next_trial(&goal, &Start::default(), &[late]), Next::Done(_)));
}

#[test]
fn a_subject_that_answers_nothing_is_asked_once() {
    for goal in presets() {
        let searched = filtered(&goal, 1.0, 0.0);
        assert_eq!((searched.probes.len(), searched.bounds.futile), (1, Some(Futile::Silent)));
    }
}

#[test]
fn a_loss_that_does_not_fall_with_the_load_ends_the_search_far_above_the_least_load() {
    for goal in presets() {
        // A small loss is compared over a wider range, for which a quick search has no time.
        let shares: &[f64] = if goal.limit_s > 60.0 { &[0.05, 0.3, 0.9, 1.0] } else { &[0.3, 0.9, 1.0] };
        for share in shares.iter().copied() {
            let searched = filtered(&goal, share, 20_000.0);
            let Some(Futile::Lossy { load_qps, ratio, less_qps, less_ratio }) = searched.bounds.futile else {
                panic!("{share} of {}: {:?}", goal.name, searched.bounds)
            };
            assert!(load_qps >= 4.0 * less_qps && less_qps > 20.0 * goal.min_qps, "{less_qps}");
            assert!((ratio - share).abs() < 1e-9 && (less_ratio - share).abs() < 1e-9);
            let most = if goal.final_s < 10.0 { 20.0 } else { 10.0 * 61.0 };
            assert!(searched.wall_s <= most, "{share} of {}: {} s", goal.name, searched.wall_s);
            assert!(!searched.bounds.incomplete, "it was not the time");
        }
    }
}

/// An overload without any answer in time, and with this many late ones a second.
fn late_overload(late_qps: f64) -> Probe {
    Probe { answered_qps: 0.0, late_qps, ..probe_of(0.0, 0.5, 1.0) }
}

#[test]
fn answers_that_are_all_late_at_any_load_end_the_search_with_the_timeout() {
    for goal in [Preset::Quick.goal(), Preset::Default.goal()] {
        // A reply after the end of a trial counts as lost.
        let far = |rate_qps, duration_s, _| Probe {
            late_qps: rate_qps * 0.4,
            timeout_s: 0.25,
            ..probe_of(rate_qps, duration_s, 1.0)
        };
        let searched = search_after(&goal, &Start::default(), far, late_overload(1_600.0));
        let Some(futile @ Futile::Late { less_qps, load_qps, .. }) = searched.bounds.futile else {
            panic!("{:?}", searched.bounds)
        };
        assert!(load_qps >= 4.0 * less_qps && searched.probes.len() < 10, "{:?}", searched.bounds);
        let said = futile.in_words(&|qps| format!("{qps} q/s"));
        assert!(said.starts_with("all answers came late (timeout 250 ms), at "), "{said}");
    }
}

#[test]
fn a_subject_that_is_late_under_overload_only_is_searched() {
    // Its queue takes longer than the timeout.
    let slow = |rate_qps, duration_s, _| {
        let is_over = rate_qps > 1_000.0;
        let late_qps = if is_over { 1_000.0 } else { 0.0 };
        Probe { late_qps, ..probe_of(rate_qps, duration_s, if is_over { 1.0 } else { 0.0 }) }
    };
    let goal = Preset::Quick.goal();
    let searched = search_after(&goal, &Start::default(), slow, late_overload(1_000.0));
    assert_eq!(searched.bounds.futile, None);
    assert!(searched.encloses(1_000.0), "{:?}", searched.bounds);
}

#[test]
fn losses_that_scatter_like_those_of_a_filter_end_it_too() {
    let goal = Preset::Quick.goal();
    for seed in 0..50 {
        let scattering = |_, _, index| 0.3 + 0.02 * (chance(seed, index) - 0.5);
        let searched = search_with(&goal, &Start::default(), scattering, 5_000.0);
        assert!(
            matches!(searched.bounds.futile, Some(Futile::Lossy { .. })),
            "{seed}: {:?}",
            searched.bounds
        );
    }
}

#[test]
fn a_subject_that_is_overloaded_is_searched_to_its_end() {
    // At any distance above the capacity, and for any shape of loss.
    for goal in [Preset::Quick.goal(), Preset::Default.goal()] {
        for begin in [1.0, 3.0, 30.0] {
            for shape in [Shape::Sharp, Shape::Soft, Shape::Noisy(0.1), Shape::Buffered(300.0), Shape::Gap] {
                let subject = Subject::new(shape, 40_000.0, 7);
                let bounds = search(&goal, &Start::default(), &subject, begin).bounds;
                assert!(
                    bounds.futile.is_none() && bounds.lower_qps.is_some(),
                    "{shape:?} {begin}: {bounds:?}"
                );
            }
        }
    }
}

#[test]
fn a_subject_whose_answers_dwindle_under_overload_is_searched_to_its_end() {
    let goal = Preset::Quick.goal();
    // The more load beyond its capacity, the less it answers.
    let choking =
        |load_qps: f64, _, _| if load_qps > 40_000.0 { 1.0 - (40_000.0 / load_qps).powi(2) } else { 0.0 };
    let bounds = search_with(&goal, &Start::default(), choking, 400_000.0).bounds;
    assert!(bounds.futile.is_none() && bounds.lower_qps.is_some_and(|qps| qps > 38_000.0), "{bounds:?}");
}
