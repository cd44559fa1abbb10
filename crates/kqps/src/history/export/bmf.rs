//! Bencher Metric Format: the newest run as JSON, benchmark → measure → value with its ends.
//! <https://bencher.dev/docs/reference/bencher-metric-format/>

use std::collections::BTreeMap;

use kqps_history::{Figure, Records};
use serde::Serialize;

use crate::print;

#[derive(Serialize)]
struct Metric {
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lower_value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upper_value: Option<f64>,
}

pub(super) fn json(records: &Records) -> serde_json::Result<String> {
    let mut benchmarks: BTreeMap<String, BTreeMap<&str, Metric>> = BTreeMap::new();
    for reading in records.entries.iter().last().into_iter().flat_map(|entry| &entry.readings) {
        let Some(Figure { value, low: lower_value, high: upper_value, .. }) = reading.figure else {
            continue;
        };
        let metric = Metric { value, lower_value, upper_value };
        benchmarks.entry(reading.key.subject()).or_default().insert(reading.key.kind.slug(), metric);
    }
    Ok(print::to_json(&benchmarks)? + "\n")
}
