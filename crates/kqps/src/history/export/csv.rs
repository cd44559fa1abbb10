//! Every figure of every run as a row.

use kqps_history::{Entry, Reading, Records};
use kqps_report::csv;

const HEAD: [&str; 13] = [
    "began_unix_ms",
    "run",
    "study",
    "series",
    "figure",
    "value",
    "low",
    "high",
    "mde",
    "host",
    "ceiling_qps",
    "version",
    "absence",
];

/// Hex digits of a host's identity.
const SHORT: usize = 12;

pub(super) fn text(records: &Records) -> String {
    let rows = records
        .entries
        .iter()
        .flat_map(|entry| entry.readings.iter().map(move |reading| row(entry, reading)));
    csv(std::iter::once(HEAD.map(str::to_owned)).chain(rows))
}

fn row(entry: &Entry, reading: &Reading) -> [String; 13] {
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    let Reading { key, figure, ceiling_qps, version, absence, .. } = reading;
    let of = |part: fn(&kqps_history::Figure) -> Option<f64>| number(figure.as_ref().and_then(part));
    let reference = key.reference.as_ref().map_or(String::new(), |reference| format!(" beside {reference}"));
    [
        entry.started_unix_ms.to_string(),
        entry.name().to_owned(),
        entry.study.clone(),
        key.subject() + &reference,
        key.kind.slug().to_owned(),
        of(|figure| Some(figure.value)),
        of(|figure| figure.low),
        of(|figure| figure.high),
        of(|figure| figure.mde),
        entry.host.chars().take(SHORT).collect(),
        number(*ceiling_qps),
        version.clone().unwrap_or_default(),
        absence.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use kqps_history::{Figure, Key, Kind};

    use super::*;

    #[test]
    fn a_field_is_quoted_if_it_would_end_and_the_rows_end_as_on_unix() {
        let key = |cell: &str, reference: Option<&str>| Key {
            study: "default".into(),
            experiment: String::new(),
            cell: cell.into(),
            kind: Kind::Share,
            reference: reference.map(str::to_owned),
            conditions: [].into(),
        };
        let reading = |key: Key, figure: Option<Figure>, absence: &str| Reading {
            key,
            figure,
            absence: absence.into(),
            ceiling_qps: figure.map(|_| 1e6),
            compared_at_qps: None,
            cores: String::new(),
            version: figure.map(|_| "4.9 \"b\"".into()),
            builds: Vec::new(),
        };
        let figure = Figure { value: 0.5, low: Some(0.25), high: None, mde: Some(0.01), count: None };
        let entry = Entry {
            schema: 1,
            id: String::new(),
            folder: "/runs/a,b".into(),
            started_unix_ms: 1_700_000_000_000,
            study: "default".into(),
            kqps_version: String::new(),
            host: "0123456789abcdef".into(),
            readings: vec![
                reading(key("nsd", None), Some(figure), ""),
                reading(key("knot", Some("3.4")), None, "it\nended,\r\"early\""),
            ],
        };
        let records = Records { entries: vec![entry], ..Records::default() };
        assert_eq!(
            text(&records),
            "began_unix_ms,run,study,series,figure,value,low,high,mde,host,ceiling_qps,version,absence\n\
             1700000000000,\"a,b\",default,default: nsd,ceiling-share,0.5,0.25,,0.01,0123456789ab,1000000,\
             \"4.9 \"\"b\"\"\",\n\
             1700000000000,\"a,b\",default,default: knot beside 3.4,ceiling-share,,,,,0123456789ab,,,\
             \"it\nended,\r\"\"early\"\"\"\n"
        );
    }
}
