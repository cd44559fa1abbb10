//! Every figure of every run as a row (RFC 4180, with the line ends of Unix).

use kqps_history::{Entry, Reading, Records};

const HEAD: &str =
    "began_unix_ms,run,study,series,figure,value,low,high,mde,host,ceiling_qps,version,absence\n";

/// Hex digits of a host's identity.
const SHORT: usize = 12;

pub(super) fn text(records: &Records) -> String {
    let rows = records
        .entries
        .iter()
        .flat_map(|entry| entry.readings.iter().map(move |reading| row(entry, reading)));
    std::iter::once(HEAD.to_owned()).chain(rows).collect()
}

fn row(entry: &Entry, reading: &Reading) -> String {
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    let Reading { key, figure, ceiling_qps, version, absence, .. } = reading;
    let of = |part: fn(&kqps_history::Figure) -> Option<f64>| number(figure.as_ref().and_then(part));
    let reference = key.reference.as_ref().map_or(String::new(), |reference| format!(" beside {reference}"));
    let fields = [
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
    ];
    fields.map(|field| quoted(&field)).join(",") + "\n"
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_a_field_is_quoted() {
        assert_eq!(quoted("nsd"), "nsd");
        assert_eq!(quoted("a, \"b\"\nc"), "\"a, \"\"b\"\"\nc\"");
    }
}
