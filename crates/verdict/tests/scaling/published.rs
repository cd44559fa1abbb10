//! Series that others published, as the studies have them.

use kqps_verdict::scaling::{RatesAt, fit};

const UNBOUND: &str = include_str!("../../../../studies/unbound-scaling.toml");
const KNOT: &str = include_str!("../../../../studies/knot-epic.toml");

/// The rates of a study file's published series, each at 1, 2, 3, … workers.
fn series(study: &str) -> Vec<Vec<f64>> {
    let lists = study.lines().filter_map(|line| line.strip_prefix("rates_qps = [")?.strip_suffix(']'));
    lists.map(|list| list.split(',').map(|rate| rate.trim().parse().unwrap()).collect()).collect()
}

fn rates(series: &[f64]) -> Vec<RatesAt> {
    let at = |(workers, rate_qps): (u32, &f64)| RatesAt { workers, starts_qps: vec![*rate_qps] };
    (1..).zip(series).map(at).collect()
}

#[test]
fn every_series_of_the_unbound_study_follows_the_law() {
    let all = series(UNBOUND);
    // Nine, and two of them once more beside players on several hosts.
    assert_eq!(all.len(), 11);
    for series in &all {
        let found = fit(&rates(series), 0.0, 1).unwrap();
        assert!((found.alone_qps / series[0] - 1.0).abs() < 0.06, "{series:?}: {found:?}");
        assert!((0.0..0.3).contains(&found.contention.value), "{series:?}: {found:?}");
        assert!((0.0..0.1).contains(&found.coherency.value), "{series:?}: {found:?}");
        assert!(found.departure < 0.07, "{series:?}: {found:?}");
        // The rate rises up to four workers in each.
        assert!(found.peak.workers.is_none_or(|peak| peak > 3.0), "{series:?}: {found:?}");
        for (one, rate_qps) in found.curve.iter().filter(|one| one.workers.fract() == 0.0).zip(series) {
            assert!((one.rate_qps / rate_qps - 1.0).abs() < 0.12, "{series:?}: {one:?}");
        }
        // A single rate for each number of workers shows no scatter, so nothing is said of more workers.
        assert!(found.contention.range.is_none() && found.beyond.is_empty(), "{series:?}: {found:?}");
    }
}

/// The study says so: processes, which share less, scale further than threads.
#[test]
fn a_port_for_each_process_scales_further_than_threads_at_one_socket() {
    let all = series(UNBOUND);
    let at_four = |series: &[f64]| {
        let found = fit(&rates(series), 0.0, 1).unwrap();
        found.curve.last().unwrap().rate_qps / found.alone_qps
    };
    let (threads, port_each) = (at_four(&all[3]), at_four(&all[7]));
    assert!(port_each > 1.1 * threads, "{port_each} {threads}");
}

/// The article on 128 threads has a rate at 128 threads, and none at fewer.
#[test]
fn one_number_of_threads_is_refused() {
    assert!(series(KNOT).is_empty());
    assert_eq!(fit(&[RatesAt { workers: 128, starts_qps: vec![10_000_000.0] }], 0.0, 1), None);
}
