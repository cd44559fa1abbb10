//! Texts of `/metrics`: counters by their label, and what an independent parser reads in a text.

use std::collections::BTreeMap;
use std::io::Write as _;

use serde::Deserialize;

use super::{Values, values_of};
use crate::python::script;

/// The content of a text, as the parser of Prometheus' client for Python reads it.
#[derive(Debug, Deserialize)]
struct Read {
    /// Family → its type.
    types: BTreeMap<String, String>,
    /// The name, the labels and the value of each sample.
    samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

/// The labelled values of a counter by its one label, without zeros.
pub(crate) fn labelled(values: &Values, counter: &str) -> BTreeMap<String, u64> {
    let begin = format!("{counter}_total{{");
    let found = values.iter().filter(|(name, value)| name.starts_with(&begin) && **value > 0.0);
    found.map(|(name, value)| (name.split('"').nth(1).unwrap().to_owned(), *value as u64)).collect()
}

/// Checks that an independent parser reads these texts, with these types of families in each, and the same values.
#[track_caller]
pub(crate) fn expect_valid(texts: &[&str], types: &[(&str, &str)]) {
    let Some(mut python) = script("openmetrics.py", "prometheus_client") else { return };
    let mut child = python.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let asked = serde_json::to_vec(texts).unwrap();
    child.stdin.take().unwrap().write_all(&asked).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}in {texts:?}", String::from_utf8_lossy(&output.stderr));
    let read: Vec<Read> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(read.len(), texts.len());
    for (read, text) in read.iter().zip(texts) {
        for (family, kind) in types {
            assert_eq!(read.types.get(*family).map(String::as_str), Some(*kind), "{family} in {text}");
        }
        let values = values_of(text);
        assert_eq!(read.samples.len(), values.len(), "{text}");
        for (name, labels, value) in &read.samples {
            let is_same = |found: &(&String, &f64)| {
                let has_labels = labels.iter().all(|(label, value)| {
                    let value = value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
                    found.0.contains(&format!("{label}=\"{value}\""))
                });
                found.0.split('{').next() == Some(name) && has_labels && (found.1 - value).abs() < 1e-9
            };
            assert!(values.iter().any(|found| is_same(&found)), "{name} {labels:?} {value} in {text}");
        }
    }
}
