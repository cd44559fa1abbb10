//! Estimates whose right value is known without the code.

use kqps_verdict::estimate::Estimate;
use kqps_verdict::estimate::Evidence::{Answered, Met, Missed};

fn within(value: f64, wanted: f64, share: f64) -> bool {
    (value / wanted - 1.0).abs() <= share
}

#[test]
fn a_sharp_limit_lies_between_the_loads_that_met_the_goal_and_those_that_missed_it() {
    let start = [[Met(99_000.0); 6], [Missed(101_000.0); 6]].concat();
    let interval = Estimate::from_starts(&[start.clone(), start]).unwrap().interval();
    assert!(within(interval.median, 100_000.0, 0.002), "{interval:?}");
    assert!(interval.low > 97_500.0 && interval.high < 102_500.0, "{interval:?}");
    assert_eq!((interval.count, interval.coverage), (2, 0.95));
}

#[test]
fn where_half_of_the_trials_at_one_load_miss_it_that_load_is_the_estimate() {
    let start = [Met(50_000.0), Missed(50_000.0)].repeat(10);
    let interval = Estimate::from_starts(&[start]).unwrap().interval();
    assert!(within(interval.median, 50_000.0, 0.001), "{interval:?}");
}

#[test]
fn it_is_the_same_in_any_unit() {
    let start =
        |unit: f64| vec![Met(90.0 * unit), Missed(100.0 * unit), Met(96.0 * unit), Missed(97.0 * unit)];
    let of = |unit| Estimate::from_starts(&[start(unit)]).unwrap().interval();
    let (small, large) = (of(1.0), of(10_000.0));
    for (small, large) in [(small.low, large.low), (small.median, large.median), (small.high, large.high)] {
        assert!(within(large / 10_000.0, small, 1e-9), "{small} {large}");
    }
}

#[test]
fn rates_are_averaged_and_one_that_went_wrong_does_not_decide() {
    let rates = [100_500.0, 99_500.0, 100_200.0, 99_800.0, 100_000.0, 99_900.0, 100_100.0, 60_000.0];
    let start: Vec<_> = rates.into_iter().map(Answered).collect();
    let interval = Estimate::from_starts(&[start]).unwrap().interval();
    assert!(within(interval.median, 100_000.0, 0.005), "{interval:?}");
    assert!(interval.half_width() < 0.03, "{interval:?}");
}

#[test]
fn more_trials_and_more_starts_make_it_narrower() {
    let start =
        |repeat: usize| [Met(98_000.0), Missed(102_000.0), Met(99_500.0), Missed(100_500.0)].repeat(repeat);
    let width = |starts: usize, repeat| {
        Estimate::from_starts(&vec![start(repeat); starts]).unwrap().interval().half_width()
    };
    assert!(width(1, 4) < width(1, 1) && width(4, 1) < width(1, 1) && width(4, 4) < width(1, 4));
}

#[test]
fn without_a_bound_on_each_side_there_is_none() {
    for start in [vec![], vec![Met(1000.0); 5], vec![Missed(1000.0); 5]] {
        assert_eq!(Estimate::from_starts(&[start]), None);
    }
    assert_eq!(Estimate::from_starts(&[]), None);
    assert!(
        Estimate::from_starts(&[vec![Met(1000.0)], vec![Missed(1100.0)]]).is_some(),
        "starts are of one subject"
    );
}

#[test]
fn a_trial_that_went_wrong_for_another_reason_bounds_nothing() {
    // All trials of the greatest load met the goal, but one in which the host stood still.
    let mut start = vec![Met(1500.0); 12];
    start.push(Missed(1500.0));
    assert_eq!(Estimate::from_starts(&[start.clone()]), None);
    // The other way round.
    let mut slow = vec![Missed(1500.0); 12];
    slow.push(Met(1500.0));
    assert_eq!(Estimate::from_starts(&[slow]), None);
    // A greater load that missed it is a bound.
    start.extend([Missed(1700.0); 3]);
    let interval = Estimate::from_starts(&[start]).unwrap().interval();
    assert!((1500.0..1700.0).contains(&interval.median), "{interval:?}");
}

#[test]
fn a_share_of_itself_is_one_and_less_well_known_than_either() {
    let start: Vec<_> = [0.98, 0.99, 1.0, 1.01, 1.02].map(|one| Answered(one * 200_000.0)).into();
    let estimate = Estimate::from_starts(&vec![start; 3]).unwrap();
    let (one, share) = (estimate.interval(), estimate.over(&estimate).interval());
    assert!(within(share.median, 1.0, 0.002), "{share:?}");
    let ratio = share.half_width() / one.half_width();
    assert!((1.3..1.55).contains(&ratio), "the root of two: {ratio}");
    let half: Vec<_> = [0.98, 0.99, 1.0, 1.01, 1.02].map(|one| Answered(one * 100_000.0)).into();
    let half = Estimate::from_starts(&vec![half; 3]).unwrap().over(&estimate).interval();
    assert!(within(half.median, 0.5, 0.002), "{half:?}");
}
