//! Fits whose right values are known without the code.

use kqps_verdict::scaling::{Law, RatesAt, ScalingFit, fit};

/// Starts that lie this share above and below the law, as many above as below.
fn rates(law: &Law, sizes: &[u32], apart: f64) -> Vec<RatesAt> {
    let at = |workers: &u32| {
        let rate_qps = law.rate_qps(f64::from(*workers));
        RatesAt {
            workers: *workers,
            starts_qps: [apart, 0.0, -apart].map(|log| rate_qps * f64::exp(log)).into(),
        }
    };
    sizes.iter().map(at).collect()
}

fn near(value: f64, wanted: f64, share: f64) -> bool {
    (value / wanted - 1.0).abs() <= share
}

const LAW: Law = Law { alone_qps: 50_000.0, contention: 0.06, coherency: 0.002 };
const SIZES: [u32; 6] = [1, 2, 4, 8, 16, 32];

fn known(seed: u64) -> ScalingFit {
    fit(&rates(&LAW, &SIZES, 0.01), 0.0, seed).unwrap()
}

#[test]
fn rates_around_a_law_give_it_with_ranges_around_it() {
    let found = known(1);
    assert!(near(found.alone_qps, LAW.alone_qps, 1e-6), "{found:?}");
    for (constant, wanted) in [(found.contention, LAW.contention), (found.coherency, LAW.coherency)] {
        let range = constant.range.unwrap();
        assert!(near(constant.value, wanted, 1e-6), "{constant:?}");
        assert!(range.low < wanted && wanted < range.high && range.low > 0.0, "{constant:?}");
    }
    let (peak, range) = (found.peak.workers.unwrap(), found.peak.range.unwrap());
    assert!(near(peak, (0.94_f64 / 0.002).sqrt(), 1e-6));
    assert!(range.low.unwrap() < peak && peak < range.high.unwrap(), "{range:?}");
    let there = found.peak.rate.unwrap();
    assert!(near(there.rate_qps, LAW.rate_qps(peak), 1e-6) && !there.is_extrapolated, "{there:?}");
    assert!(!found.departs && found.departure < 1e-6, "{found:?}");
}

#[test]
fn beyond_what_was_measured_a_rate_has_a_range_and_a_mark() {
    let found = known(1);
    let workers: Vec<f64> = found.beyond.iter().map(|one| one.workers).collect();
    assert_eq!(workers, [64.0, 128.0]);
    for one in &found.beyond {
        assert!(one.is_extrapolated && near(one.rate_qps, LAW.rate_qps(one.workers), 1e-6), "{one:?}");
        let (low, high) = (one.low_qps.unwrap(), one.high_qps.unwrap());
        assert!(low < one.rate_qps && one.rate_qps < high, "{one:?}");
    }
    // The farther away, the less is known.
    let width = |at: usize| {
        let one = &found.beyond[at];
        (one.high_qps.unwrap() - one.low_qps.unwrap()) / one.rate_qps
    };
    assert!(width(1) > width(0));
    let within = found.curve.iter().find(|one| (one.workers - 8.0).abs() < 1e-9).unwrap();
    assert!(!within.is_extrapolated);
    assert!((within.high_qps.unwrap() - within.low_qps.unwrap()) / within.rate_qps < width(0));
}

#[test]
fn the_same_starts_and_seed_give_the_same_fit() {
    assert_eq!(known(7), known(7));
    assert_ne!(known(7).contention.range, known(8).contention.range, "the seed decides the draws");
}

#[test]
fn fewer_than_four_numbers_of_workers_are_refused() {
    assert_eq!(fit(&rates(&LAW, &SIZES[..3], 0.01), 0.0, 1), None);
    assert!(fit(&rates(&LAW, &SIZES[..4], 0.01), 0.0, 1).is_some());
    // A number that comes twice is one number, and a number without a rate is none.
    let mut rates = rates(&LAW, &[1, 2, 4, 4], 0.01);
    assert_eq!(fit(&rates, 0.0, 1), None);
    rates.push(RatesAt { workers: 8, starts_qps: vec![0.0, f64::NAN] });
    assert_eq!(fit(&rates, 0.0, 1), None);
}

#[test]
fn single_starts_give_the_law_without_a_range_and_without_a_rate_beyond() {
    let single: Vec<RatesAt> = rates(&LAW, &SIZES[..4], 0.0)
        .into_iter()
        .map(|one| RatesAt { starts_qps: one.starts_qps[..1].to_vec(), ..one })
        .collect();
    let found = fit(&single, 0.0, 1).unwrap();
    assert!(near(found.contention.value, LAW.contention, 1e-6));
    assert_eq!((found.contention.range, found.coherency.range, found.peak.range), (None, None, None));
    assert!(found.beyond.is_empty() && !found.departs);
    assert!(found.peak.workers.is_some(), "the law has a peak at 22 workers");
    assert_eq!(found.peak.rate, None, "8 workers were measured");
    assert!(found.curve.iter().all(|one| one.low_qps.is_none() && one.high_qps.is_none()));
}

#[test]
fn what_grows_faster_than_its_workers_has_constants_of_0_and_no_peak() {
    let linear = Law { contention: 0.0, coherency: 0.0, ..LAW };
    let mut rates = rates(&linear, &[1, 2, 3, 4], 0.01);
    for rate_qps in &mut rates[3].starts_qps {
        *rate_qps *= 1.005;
    }
    let found = fit(&rates, 0.0, 1).unwrap();
    assert_eq!((found.contention.value, found.coherency.value), (0.0, 0.0));
    assert_eq!(found.peak.workers, None);
    assert_eq!(found.peak.range.unwrap().high, None);
    // Nobody has seen more than so much for each worker.
    let high = found.beyond[0].high_qps.unwrap();
    assert!(high > 8.0 * LAW.alone_qps && high < 8.6 * LAW.alone_qps, "{high}");
}

#[test]
fn rates_that_do_not_follow_the_law_widen_its_ranges() {
    let mut bent = rates(&LAW, &SIZES, 0.01);
    for rate_qps in &mut bent[3].starts_qps {
        *rate_qps *= 1.2;
    }
    let (found, straight) = (fit(&bent, 0.0, 1).unwrap(), known(1));
    assert!(found.departs && found.departure > 0.03, "{found:?}");
    let width = |fit: &ScalingFit| {
        let range = fit.contention.range.unwrap();
        range.high - range.low
    };
    assert!(width(&found) > 3.0 * width(&straight), "{found:?}");
}
