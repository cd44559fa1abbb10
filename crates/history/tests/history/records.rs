//! Records of a history with one series or several, by hand.

use std::collections::BTreeMap;

use kqps_history::{Entry, Figure, Host, Key, Kind, Reading, Records};

/// When the first run began, milliseconds since 1970.
const FIRST_UNIX_MS: u64 = 1_795_000_000_000;

const DAY_MS: u64 = 86_400_000;

pub(crate) fn key(cell: &str, kind: Kind) -> Key {
    let conditions = BTreeMap::from([("load".to_owned(), "a search".to_owned())]);
    Key {
        study: "default".into(),
        experiment: String::new(),
        cell: cell.into(),
        kind,
        reference: None,
        conditions,
    }
}

pub(crate) fn reading(key: &Key, value: Option<f64>, ceiling_qps: Option<f64>) -> Reading {
    let figure = value.map(|value| Figure {
        value,
        low: Some(value * 0.99),
        high: Some(value * 1.01),
        mde: Some(0.01),
        count: Some(6),
    });
    Reading {
        key: key.clone(),
        figure,
        absence: if value.is_none() { "the player was the limit".into() } else { String::new() },
        ceiling_qps,
        compared_at_qps: None,
        cores: "player 0, subject 1".into(),
        version: Some("1.0".into()),
        builds: Vec::new(),
    }
}

pub(crate) fn host(kernel: &str) -> Host {
    let parts = BTreeMap::from([
        ("CPU model".to_owned(), "X".to_owned()),
        ("number of cores".to_owned(), "2".to_owned()),
        ("kernel".to_owned(), kernel.to_owned()),
    ]);
    Host { id: format!("host with {kernel}"), parts }
}

/// A run a day, each with the host and the readings that `of` returns for its number.
pub(crate) fn daily(count: usize, of: impl Fn(usize) -> (Host, Vec<Reading>)) -> Records {
    let mut records = Records::default();
    for number in 0..count {
        let (host, readings) = of(number);
        records.entries.push(Entry {
            schema: 1,
            id: format!("run {number:04}"),
            folder: format!("/runs/run-{number}"),
            started_unix_ms: FIRST_UNIX_MS + DAY_MS * number as u64,
            study: "default".into(),
            kqps_version: "0.1.0".into(),
            host: host.id.clone(),
            readings,
        });
        records.hosts.insert(host.id.clone(), host);
    }
    records
}

/// Figures that differ by up to half a percent.
pub(crate) fn around(middle: f64, number: usize) -> f64 {
    middle * (1.0 + ((number * number * 3 + number * 5) % 17) as f64 / 1_700.0 - 0.005)
}
