//! Brings records of older schemas into the present form. A field that a newer schema added needs no code here: it
//! has a default if an older record lacks it.
//!
//! | schema | what changed |
//! | --- | --- |
//! | 1 to 3 | fields were added |
//! | 4 | a trial lists its hosts and players, and a host's UDP counters stand in `network` alone |

use serde_json::{Map, Value};

use super::table::Table;
use crate::SCHEMA;

/// The record of a table's row as the present schema has it.
pub(super) fn present(table: Table, schema: u32, mut record: Value) -> Value {
    if table == Table::Trials
        && schema < 4
        && let Some(trial) = record.pointer_mut("/outcome/measured").and_then(Value::as_object_mut)
    {
        list_hosts_and_players(trial);
    }
    // A run that goes on, and each of its old trials, then has the present schema.
    for place in ["/schema", "/outcome/measured/schema"] {
        if let Some(schema) = record.pointer_mut(place) {
            *schema = SCHEMA.into();
        }
    }
    record
}

fn list_hosts_and_players(trial: &mut Map<String, Value>) {
    if let Some(mut host) = trial.remove("host") {
        if let Some(host) = host.as_object_mut() {
            keep_udp_in_network(host);
        }
        trial.insert("hosts".to_owned(), Value::Array(vec![host]));
    }
    if let Some(player) = trial.remove("player") {
        trial.insert("players".to_owned(), Value::Array(vec![player]));
    }
}

/// The first schema had the sum of both address families only. It becomes that of IPv4.
fn keep_udp_in_network(host: &mut Map<String, Value>) {
    let Some(udp) = host.remove("udp") else { return };
    host.entry("network").or_insert_with(|| {
        let nothing = serde_json::to_value(crate::NetworkFacts::default()).unwrap_or_default();
        let mut network = nothing.as_object().cloned().unwrap_or_default();
        network.insert("udp4".to_owned(), udp);
        Value::Object(network)
    });
}
