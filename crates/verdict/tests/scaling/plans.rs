//! How many hosts a load takes.

use kqps_observation::fingerprint::CoreFacts;
use kqps_observation::{Cell, Fingerprint, Quantiles, Run};
use kqps_verdict::grade::Grade;
use kqps_verdict::interval::Interval;
use kqps_verdict::judge::{LoadPoint, RunVerdict, StartVerdict, judge};
use kqps_verdict::plan::{HostPlan, Requirements, of_run, sentence};
use kqps_verdict::search::Bounds;

/// A run with one server, whose rate is 90,000 to 110,000 q/s, and the p99 at loads of two starts: block, load and p99.
fn measured(latency: &[(u32, f64, u64)]) -> (Run, RunVerdict) {
    let core = |cpu| CoreFacts { cpu, ..CoreFacts::default() };
    let cell = Cell { name: "nsd".into(), workers: 1, subject_cpus: vec![1], ..Cell::default() };
    let run = Run {
        cells: vec![cell],
        fingerprint: Fingerprint { cores: (0..4).map(core).collect(), ..Fingerprint::default() },
        ..Run::default()
    };
    let mut verdict = judge(&run);
    let subject = &mut verdict.subjects[0];
    subject.figure_qps = Some(Interval { median: 1e5, low: 9e4, high: 1.1e5, coverage: 0.95, count: 6 });
    subject.grade = Grade::B;
    let point = |&(block, load_qps, p99): &(u32, f64, u64)| LoadPoint {
        block,
        load_qps,
        latency_us: Quantiles { p99: Some(p99), ..Quantiles::default() },
        bad_ratio: 0.0,
        trials: Vec::new(),
    };
    subject.latency = latency.iter().map(point).collect();
    (run, verdict)
}

fn planned(latency: &[(u32, f64, u64)], load_qps: f64, reserve: f64, p99_us: Option<f64>) -> HostPlan {
    let (run, verdict) = measured(latency);
    of_run(&run, &verdict, Requirements { load_qps, reserve, p99_us }).remove(0)
}

fn near(value: Option<f64>, wanted: f64) -> bool {
    value.is_some_and(|value| (value / wanted - 1.0).abs() < 1e-9)
}

#[test]
fn the_low_end_less_the_reserve_is_what_a_host_takes() {
    let plan = planned(&[], 2e6, 0.3, None);
    assert!(near(plan.by_rate_qps, 63_000.0) && near(plan.host_qps, 63_000.0), "{plan:?}");
    assert_eq!(plan.hosts, Some(32), "2,000,000 / 63,000 = 31.7");
    assert!(near(plan.each_qps, 62_500.0), "{plan:?}");
    let said = sentence(&plan).unwrap();
    assert_eq!(said, "32 hosts for 2,000,000 q/s and a reserve of 30 %: 62,500 q/s for each");
    assert!(plan.rests_on[0].contains("1 worker on 1 of 4 cores"), "{:?}", plan.rests_on);
}

#[test]
fn a_load_that_fits_exactly_takes_no_further_host() {
    assert_eq!(planned(&[], 90_000.0, 0.0, None).hosts, Some(1));
    assert_eq!(planned(&[], 630_000.0, 0.3, None).hosts, Some(10));
    assert_eq!(planned(&[], 630_001.0, 0.3, None).hosts, Some(11));
    assert_eq!(planned(&[], 1.0, 0.3, None).hosts, Some(1));
}

#[test]
fn latency_may_allow_less_than_the_rate() {
    let starts =
        [(0, 25e3, 300), (0, 50e3, 900), (0, 75e3, 4_000), (1, 26e3, 310), (1, 52e3, 800), (1, 78e3, 990)];
    let plan = planned(&starts, 1e6, 0.3, Some(1_000.0));
    assert!(near(plan.by_latency_qps, 50e3), "the worse of two starts: {plan:?}");
    assert_eq!(plan.hosts, Some(20));
    let loose = planned(&starts, 1e6, 0.3, Some(5_000.0));
    assert!(near(loose.host_qps, 63_000.0) && loose.hosts == Some(16), "the rate allows less: {loose:?}");
    assert!(loose.rests_on.iter().any(|one| one.contains("The limit of latency holds at the load")));
}

#[test]
fn a_load_above_one_that_was_too_slow_does_not_count() {
    let starts = [(0, 20e3, 100), (0, 40e3, 2_000), (0, 60e3, 500)];
    assert!(near(planned(&starts, 1e6, 0.3, Some(1_000.0)).by_latency_qps, 20e3));
}

/// Low loads are played in the first block alone; later blocks begin near the rate.
#[test]
fn a_start_that_began_above_the_limit_says_nothing_of_lower_loads() {
    let starts = [(0, 25e3, 300), (0, 50e3, 500), (0, 75e3, 900), (0, 95e3, 9_000), (1, 96e3, 8_000)];
    let plan = planned(&starts, 1e6, 0.0, Some(1_000.0));
    assert!(near(plan.by_latency_qps, 75e3), "{plan:?}");
    assert!(plan.rests_on.iter().any(|one| one.ends_with("rests on 1 start.")), "{:?}", plan.rests_on);
    // Its lowest load is too high all the same.
    let low = [(0, 25e3, 300), (0, 50e3, 500), (0, 75e3, 900), (1, 60e3, 8_000)];
    assert!(near(planned(&low, 1e6, 0.0, Some(1_000.0)).by_latency_qps, 50e3));
    // Nothing held below 20,000 q/s, where another start was too slow.
    let none = planned(&[(0, 20e3, 2_500), (1, 30e3, 300)], 1e6, 0.0, Some(1_000.0));
    assert!(none.refused.as_ref().unwrap().contains("20,000 q/s, p99 was 2,500 µs"), "{none:?}");
}

#[test]
fn a_host_takes_less_than_any_start_refuted() {
    let (run, mut verdict) = measured(&[(0, 50e3, 300), (0, 79e3, 900), (0, 80e3, 950), (1, 85e3, 990)]);
    let wanted = Requirements { load_qps: 8e5, reserve: 0.0, p99_us: Some(1_000.0) };
    let below = |load_qps: f64| load_qps * (1.0 - verdict.subjects[0].goal.width);
    let (of_refuted, of_upper) = (below(80e3), below(84e3));
    let start = |bounds| StartVerdict {
        start: 1,
        block: 0,
        bounds: Some(bounds),
        failure: None,
        trials: Vec::new(),
        is_searched: true,
    };
    let found_too_great = Bounds { upper_qps: Some(84e3), ..Bounds::default() };
    verdict.subjects[0].starts = vec![start(found_too_great)];
    let plan = of_run(&run, &verdict, wanted).remove(0);
    assert!(near(plan.by_rate_qps, of_upper) && near(plan.by_latency_qps, 80e3), "{plan:?}");
    let failed_again = Bounds { refuted_qps: Some(80e3), ..Bounds::default() };
    verdict.subjects[0].starts.push(start(failed_again));
    let plan = of_run(&run, &verdict, wanted).remove(0);
    assert!(near(plan.by_rate_qps, of_refuted) && near(plan.by_latency_qps, 79e3), "{plan:?}");
    assert!(plan.rests_on.iter().any(|one| one.starts_with("A start found 80,000 q/s too great")));
    // A start that failed shows nothing.
    for start in &mut verdict.subjects[0].starts {
        start.failure = Some("it died".into());
    }
    assert!(near(of_run(&run, &verdict, wanted).remove(0).by_rate_qps, 90_000.0));
}

#[test]
fn what_is_not_known_or_refused_gives_no_number() {
    let unknown = planned(&[], 1e6, 0.3, Some(1_000.0));
    assert!(unknown.refused.as_ref().unwrap().starts_with("Latency by load is not known"), "{unknown:?}");
    let slow = planned(&[(0, 20e3, 2_500), (1, 21e3, 2_600)], 1e6, 0.3, Some(1_000.0));
    let reason = slow.refused.as_ref().unwrap();
    assert!(reason.contains("20,000 q/s, p99 was 2,500 µs and above the limit"), "{reason}");
    let (run, mut verdict) = measured(&[]);
    verdict.subjects[0].figure_qps = None;
    verdict.subjects[0].reasons = vec!["wrong-answers: 1 reply was wrong.".into()];
    let wanted = Requirements { load_qps: 1e6, reserve: 0.3, p99_us: None };
    let refused = of_run(&run, &verdict, wanted).remove(0);
    assert_eq!(refused.refused.as_deref(), Some("wrong-answers: 1 reply was wrong."));
    for plan in [unknown, slow, refused] {
        assert_eq!((plan.hosts, plan.each_qps, plan.host_qps), (None, None, None));
        assert!(sentence(&plan).is_none() && plan.rests_on.is_empty());
    }
}
