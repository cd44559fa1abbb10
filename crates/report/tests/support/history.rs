//! A history of 90 runs: a step, several steps, a drift of the host, another kernel, outliers, runs without a figure.

use std::collections::BTreeMap;

use kqps_history::{Entry, Figure, Host, Key, Kind, Reading, Records};
use kqps_verdict::compare;

use super::sample::HOSTILE;

const FIRST_UNIX_MS: u64 = 1_795_000_000_000;

/// Half a day.
const APART_MS: u64 = 43_200_000;

pub(crate) const RUNS: usize = 90;

/// A series in a run: its figure and the rate of the echo.
type Course = fn(usize) -> (Option<f64>, Option<f64>);

struct Kept {
    cell: &'static str,
    kind: Kind,
    spread: f64,
    course: Course,
}

const KEPT: [Kept; 7] = [
    Kept {
        cell: "nsd",
        kind: Kind::Share,
        spread: 0.008,
        course: |run| (Some(if run < 80 { 0.51 } else { 0.47 }), Some(6e5)),
    },
    Kept { cell: "knot", kind: Kind::Share, spread: 0.01, course: steps },
    Kept { cell: "bind", kind: Kind::Share, spread: 0.012, course: with_gaps },
    Kept {
        cell: "nsd",
        kind: Kind::CpuPerMillion,
        spread: 0.01,
        course: |run| if run < 50 { (Some(1.9), Some(6e5)) } else { (Some(1.5), Some(7.5e5)) },
    },
    Kept {
        cell: HOSTILE,
        kind: Kind::Memory,
        spread: 0.0,
        course: |run| (Some(if run < 60 { 5.6e8 } else { 5.8e8 }), None),
    },
    Kept { cell: "knot", kind: Kind::P99AtHalf, spread: 0.05, course: |_| (Some(240.0), Some(6e5)) },
    Kept {
        cell: "new",
        kind: Kind::Ratio(compare::Figure::AnsweredRate),
        spread: 0.006,
        course: |run| (Some(if run < 86 { 1.02 } else { 1.06 }), None),
    },
];

fn steps(run: usize) -> (Option<f64>, Option<f64>) {
    let level = match run {
        0..20 => 0.40,
        20..45 => 0.44,
        45..70 => 0.42,
        _ => 0.46,
    };
    (Some(level), Some(6e5))
}

fn with_gaps(run: usize) -> (Option<f64>, Option<f64>) {
    let value = match run {
        12 | 13 | 40 | 89 => None,
        30 => Some(0.2),
        75 => Some(0.4),
        _ => Some(0.28),
    };
    (value, Some(6e5))
}

pub(crate) fn records() -> Records {
    let mut random = fastrand_like(7);
    let mut records = Records::default();
    let hosts = ["6.1.0-29-amd64", "6.12.48"].map(host);
    for run in 0..RUNS {
        let host = &hosts[usize::from(run >= 35)];
        let mut readings = Vec::new();
        for kept in &KEPT {
            let noise = (random() - 0.5) * 3.4 * kept.spread;
            let (value, ceiling_qps) = (kept.course)(run);
            readings.push(reading(
                kept,
                value.map(|value| value * noise.exp()),
                ceiling_qps.map(|qps| qps * (1.0 + (random() - 0.5) * 0.02)),
            ));
        }
        let folder =
            if run == 3 { format!("/runs/{HOSTILE}") } else { format!("/runs/20261{run:03}T0400Z-nightly") };
        records.entries.push(Entry {
            schema: 1,
            id: format!("{run:064}"),
            folder,
            started_unix_ms: FIRST_UNIX_MS + APART_MS * run as u64,
            study: "nightly".into(),
            kqps_version: "0.1.0".into(),
            host: host.id.clone(),
            readings,
        });
    }
    records.hosts = hosts.into_iter().map(|host| (host.id.clone(), host)).collect();
    records
}

/// A generator of numbers from 0 to 1 that needs no crate.
fn fastrand_like(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn host(kernel: &str) -> Host {
    let parts = [
        ("CPU model", format!("Example Processor {HOSTILE}")),
        ("number of cores", "2".into()),
        ("kernel", kernel.into()),
    ];
    let parts: BTreeMap<String, String> =
        parts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Host { id: format!("host of {kernel}"), parts }
}

fn reading(kept: &Kept, value: Option<f64>, ceiling_qps: Option<f64>) -> Reading {
    let is_ratio = matches!(kept.kind, Kind::Ratio(_));
    let key = Key {
        study: "nightly".into(),
        experiment: String::new(),
        cell: kept.cell.to_owned(),
        kind: kept.kind,
        reference: is_ratio.then(|| "reference (binary 1f2e3d4c)".to_owned()),
        conditions: BTreeMap::new(),
    };
    let has_interval = is_ratio || kept.kind == Kind::Share;
    let figure = value.map(|value| Figure {
        value,
        low: has_interval.then_some(value * 0.99),
        high: has_interval.then_some(value * 1.01),
        mde: has_interval.then_some(0.015),
        count: has_interval.then_some(6),
    });
    let absence = if value.is_none() { format!("the player was the limit {HOSTILE}") } else { String::new() };
    Reading {
        key,
        figure,
        absence,
        ceiling_qps,
        compared_at_qps: None,
        cores: "player 0, subject 1".into(),
        version: None,
        builds: Vec::new(),
    }
}
