//! Common parts of the tests over connections of any kind: a trial, and counts by cause.

use std::collections::BTreeMap;

use kqps_dataset::Format;
use kqps_observation::{ConnectionFacts, Trial};
use kqps_player::{Control, Plan, play};

use crate::support::{Queries, no_subject};

/// Plays `count` queries once.
pub(crate) fn played(count: usize, plan: &Plan) -> (Trial, ConnectionFacts) {
    let lines: Vec<String> = (0..count).map(|number| format!("q{number}.test A\n")).collect();
    let queries = Queries::new(lines.concat(), Format::Text);
    let trial = play(plan, &queries.dataset, &Control::new(plan.threads), no_subject).unwrap();
    assert_eq!(trial.accounts.intended, count as u64, "{:?}", trial.accounts);
    let connections = trial.connections.clone().expect("there are connections");
    (trial, connections)
}

/// Counts by name.
pub(crate) fn counts<const N: usize>(pairs: [(&str, u64); N]) -> BTreeMap<String, u64> {
    pairs.into_iter().map(|(cause, count)| (cause.to_owned(), count)).collect()
}
