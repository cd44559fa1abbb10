//! Searches of simulated subjects: the bounds must enclose the truth, and must come soon enough.

use kqps_observation::run::Purpose;
use kqps_verdict::search::{Goal, Next, Preset, Probe, Start, bounds_found, next_trial};

use super::simulate::{Searched, Shape, Subject, probe_of, search, search_with};

/// Searches of subjects of one shape whose capacities spread over a decade, with an overload that answers from
/// 90 to 120 % of the capacity.
fn searches(goal: &Goal, shape: Shape) -> Vec<(Subject, Searched)> {
    let starts = 0..100_u64;
    starts
        .map(|seed| {
            let share = seed as f64 / 100.0;
            let subject = Subject::new(shape, 50_000.0 * 10f64.powf(share), seed);
            let overload_share = 0.9 + 0.3 * ((share * 7.77) % 1.0);
            (subject, search(goal, &Start::default(), &subject, overload_share))
        })
        .collect()
}

fn enclosing(goal: &Goal, searches: &[(Subject, Searched)]) -> usize {
    searches.iter().filter(|(subject, searched)| searched.encloses(subject.truth_qps(goal))).count()
}

fn seconds(searches: &[(Subject, Searched)]) -> Vec<f64> {
    let mut seconds: Vec<f64> = searches.iter().map(|(_, searched)| searched.wall_s).collect();
    seconds.sort_by(f64::total_cmp);
    seconds
}

#[test]
fn bounds_of_a_steady_subject_always_enclose_the_truth_within_the_width() {
    for &preset in Preset::ALL {
        let goal = preset.goal();
        for shape in [Shape::Sharp, Shape::Soft] {
            let found = searches(&goal, shape);
            assert_eq!(enclosing(&goal, &found), 100, "{preset} {shape:?}");
            for (subject, searched) in &found {
                let bounds = &searched.bounds;
                let (lower_qps, upper_qps) = (bounds.lower_qps.unwrap(), bounds.upper_qps.unwrap());
                assert!(bounds.drifted == Some(false) && !bounds.irregular, "{subject:?} {bounds:?}");
                assert!(
                    bounds.incomplete || (upper_qps - lower_qps) / upper_qps <= goal.width * 1.001,
                    "{subject:?} {bounds:?}"
                );
                let throughput_qps = bounds.throughput_qps.unwrap();
                assert!(throughput_qps >= lower_qps * (1.0 - goal.loss) && throughput_qps <= lower_qps);
            }
        }
    }
}

#[test]
fn quick_typically_takes_twelve_seconds_and_never_twenty_with_a_steady_subject() {
    let goal = Preset::Quick.goal();
    let sharp = seconds(&searches(&goal, Shape::Sharp));
    assert!(sharp[50] < 12.0 && sharp[90] < 15.0, "median {}, ninth decile {}", sharp[50], sharp[90]);
    for shape in [Shape::Sharp, Shape::Soft, Shape::Gap, Shape::Buffered(100.0)] {
        let longest = *seconds(&searches(&goal, shape)).last().unwrap();
        assert!(longest < 20.0, "{shape:?} took {longest:.1} s");
    }
}

#[test]
fn noise_costs_time_within_limits_and_the_bounds_stay_near() {
    // When a quick search runs out of time, it falls back on a load a fifth below all failed ones. A few of its
    // bounds fail their re-test with no time left for another.
    for (preset, noise, least, median_s) in
        [(Preset::Quick, 0.1, 0.7, 18.0), (Preset::Default, 0.02, 0.96, 120.0)]
    {
        let goal = preset.goal();
        let found = searches(&goal, Shape::Noisy(noise));
        assert!(seconds(&found)[50] < median_s, "{preset}: {:.1} s", seconds(&found)[50]);
        let standing = found.iter().filter(|(_, searched)| searched.bounds.lower_qps.is_some()).count();
        assert!(standing >= if preset == Preset::Quick { 95 } else { 100 }, "{preset}: {standing}");
        for (subject, searched) in &found {
            let before = searched.probes.iter().take_while(|probe| probe.purpose != Purpose::Retest);
            let before = bounds_found(&goal, &before.copied().collect::<Vec<_>>());
            let lower_qps = before.lower_qps.expect("a lower bound is found in spite of noise");
            let truth_qps = subject.truth_qps(&goal);
            assert!(lower_qps > truth_qps * least && lower_qps < truth_qps * (1.0 + noise), "{before:?}");
            let stands_qps = searched.bounds.lower_qps.unwrap_or(lower_qps);
            assert!(stands_qps > truth_qps * 0.7 && stands_qps <= lower_qps, "{:?}", searched.bounds);
        }
    }
}

#[test]
fn a_subject_that_stalls_now_and_then_is_not_mistaken_for_a_slow_one() {
    let goal = Preset::Default.goal();
    let enclosing = enclosing(&goal, &searches(&goal, Shape::Stalling));
    assert!(enclosing >= 98, "only {enclosing} of 100 enclose the truth");
}

#[test]
fn the_smallest_upper_bound_counts_where_a_lower_load_loses_more() {
    let goal = Preset::Default.goal();
    let subject = Subject::new(Shape::Gap, 100_000.0, 0);
    // A first guess in the gap: the search goes down, since nothing above an upper bound is reliable.
    let bounds = search(&goal, &Start::default(), &subject, 0.63).bounds;
    assert!(bounds.lower_qps.unwrap() <= 60_000.0 && bounds.upper_qps.unwrap() <= 65_000.0, "{bounds:?}");
    // A first guess at the top never meets the gap.
    let bounds = search(&goal, &Start::default(), &subject, 1.0).bounds;
    assert!(bounds.lower_qps.unwrap() > 98_000.0, "{bounds:?}");
}

#[test]
fn a_buffer_hides_loss_unless_latencies_show_it() {
    let goal = Preset::Quick.goal();
    let subject = Subject::new(Shape::Buffered(3_000.0), 100_000.0, 0);
    let answer = |load_qps, duration_s, index| subject.bad_ratio(load_qps, duration_s, index);
    let fooled = search_with(&goal, &Start::default(), answer, 100_000.0).bounds;
    assert!(fooled.lower_qps.unwrap() > 104_000.0, "{fooled:?}");

    let searched = search(&goal, &Start::default(), &subject, 1.0);
    let bounds = &searched.bounds;
    // The goal's sum and the longest trial are three seconds: 1 % of loss can still hide in them.
    assert!(bounds.lower_qps.unwrap() < 102_100.0, "{bounds:?}");
    assert!((bounds.hidden_share.unwrap() - 4_096.0 / (3.0 * bounds.lower_qps.unwrap())).abs() < 1e-9);
    assert!(searched.probes.iter().any(|probe| probe.duration_s >= 3.0));

    let goal = Preset::Default.goal();
    let bounds = search(&goal, &Start::default(), &subject, 1.0).bounds;
    assert!(bounds.lower_qps.unwrap() < 100_300.0, "{bounds:?}");
}

#[test]
fn the_greatest_load_that_holds_is_irregular() {
    let goal = Goal { max_qps: 200_000.0, ..Preset::Quick.goal() };
    let subject = Subject::new(Shape::Sharp, 1e6, 0);
    let bounds = search(&goal, &Start::default(), &subject, 0.1).bounds;
    assert_eq!(bounds.lower_qps, Some(200_000.0));
    assert_eq!(bounds.upper_qps, None);
    assert!(bounds.irregular && bounds.drifted == Some(false));
}

#[test]
fn a_subject_that_answers_nearly_the_greatest_load_is_tried_at_it() {
    let goal = Goal { max_qps: 200_000.0, ..Preset::Quick.goal() };
    let first_qps = |answered_qps| {
        let overload = Probe { answered_qps, purpose: Purpose::Ceiling, ..Probe::default() };
        match next_trial(&goal, &Start::default(), &[overload]) {
            Next::Trial { rate_qps, .. } => rate_qps,
            other => panic!("{other:?}"),
        }
    };
    assert!((first_qps(199_000.0) - 200_000.0).abs() < 1e-6);
    assert!(first_qps(150_000.0) < 150_000.0);
}

#[test]
fn the_greatest_load_that_holds_above_one_that_does_not_is_irregular() {
    let goal = Goal { max_qps: 200_000.0, ..Preset::Quick.goal() };
    let probe = |load_qps, bad_ratio| probe_of(load_qps, goal.sum_s, bad_ratio);
    let holds_below = [probe(100_000.0, 0.0), probe(101_000.0, 0.1)];
    assert!(!bounds_found(&goal, &holds_below).irregular);
    let [below, upper] = holds_below;
    let bounds = bounds_found(&goal, &[below, upper, probe(200_000.0, 0.0)]);
    assert_eq!((bounds.lower_qps, bounds.upper_qps), (Some(100_000.0), Some(101_000.0)));
    assert!(bounds.irregular);
}

#[test]
fn a_lower_bound_has_one_re_test() {
    let goal = Preset::Quick.goal();
    let subject = Subject::new(Shape::Sharp, 100_000.0, 0);
    let start = Start { bounds_qps: Some((99_000.0, 100_500.0)) };
    let mut probes = search(&goal, &start, &subject, 1.0).probes;
    let retest = probes.last_mut().unwrap();
    assert_eq!((retest.purpose, retest.load_qps), (Purpose::Retest, 99_000.0));
    // A queue of this length would need longer trials.
    retest.under_way = Some(1e6);
    let Next::Done(bounds) = next_trial(&goal, &start, &probes) else { panic!("it goes on") };
    assert!(bounds.drifted == Some(false) && bounds.retests == 1, "{bounds:?}");
    // A re-test at another load, from an older kqps, has no effect.
    probes.last_mut().unwrap().bad_ratio = 0.1;
    probes.push(Probe { purpose: Purpose::Retest, ..probe_of(98_000.0, goal.final_s, 0.0) });
    assert_eq!(bounds_found(&goal, &probes).drifted, Some(true));
    let untested: Vec<Probe> = probes.into_iter().filter(|probe| probe.purpose != Purpose::Retest).collect();
    let bounds = bounds_found(&goal, &untested);
    assert!(bounds.lower_qps.is_some() && bounds.drifted.is_none() && bounds.retests == 0);
}

#[test]
fn a_subject_that_fails_even_the_least_load_has_no_figure() {
    // It answers the same rate at any load, less than the least load.
    let goal = Preset::Quick.goal();
    let subject = Subject::new(Shape::Sharp, 8.0, 0);
    let bounds = search(&goal, &Start::default(), &subject, 10.0).bounds;
    assert_eq!((bounds.lower_qps, bounds.throughput_qps, bounds.futile), (None, None, None));
    assert_eq!(bounds.upper_qps, Some(goal.min_qps));
}

#[test]
fn a_warm_start_takes_half_the_trials() {
    let goal = Preset::Quick.goal();
    let subject = Subject::new(Shape::Sharp, 123_000.0, 0);
    let cold = search(&goal, &Start::default(), &subject, 1.2);
    let bounds_qps = cold.bounds.lower_qps.zip(cold.bounds.upper_qps);
    let warm = search(&goal, &Start { bounds_qps }, &subject, 1.2);
    assert_eq!(warm.bounds.lower_qps, cold.bounds.lower_qps);
    assert_eq!(warm.probes.len(), 3 + 3 + 1, "both bounds and one re-test");
}
