//! The zone of queries: the longest name that all their names end with.

use kqps_dataset::Dataset;
use kqps_message::HEADER_BYTES;
use kqps_message::name::NameText;

/// Queries that are read. More would rarely change the zone.
const READ_MOST: usize = 10_000;

/// The zone in presentation form. An error if the names have nothing in common.
pub(super) fn of_queries(dataset: &Dataset) -> Result<String, String> {
    let mut common: Option<Vec<Vec<u8>>> = None;
    for query in dataset.iter().take(READ_MOST) {
        let Some(labels) = query.message.get(HEADER_BYTES..).map(labels) else { continue };
        common = Some(match common {
            None => labels,
            Some(common) => common
                .into_iter()
                .zip(labels)
                .take_while(|(one, other)| one == other)
                .map(|(one, _)| one)
                .collect(),
        });
    }
    let labels = common.unwrap_or_default();
    if labels.is_empty() {
        return Err(
            "the names of the queries have no zone in common; write a scenario with a name of its own".into(),
        );
    }
    let mut wire = Vec::new();
    for label in labels.iter().rev() {
        wire.push(u8::try_from(label.len()).unwrap_or(0));
        wire.extend(label);
    }
    wire.push(0);
    Ok(NameText(&wire).to_string())
}

/// The labels of the name at the beginning, in lower case, the last one first.
fn labels(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut labels = Vec::new();
    while let Some((&length, rest)) = bytes.split_first() {
        if length == 0 || usize::from(length) > rest.len() || length > 63 {
            break;
        }
        let (label, rest) = rest.split_at(usize::from(length));
        labels.push(label.to_ascii_lowercase());
        bytes = rest;
    }
    labels.reverse();
    labels
}
