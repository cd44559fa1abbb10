//! Whether records are those of one trial.

use crate::Trial;

use super::{MergeError, Part};

/// Checks each record by itself, and all of them against the first.
pub(super) fn check(parts: &[Part]) -> Result<(), MergeError> {
    let first = parts.first().ok_or(MergeError::Nothing)?;
    for part in parts {
        check_alone(part)?;
        check_against(part, first)?;
    }
    if parts.len() > 1 && parts.iter().any(|part| part.trial.replay.is_some()) {
        return Err(MergeError::Replay { players: parts.len() });
    }
    Ok(())
}

fn check_alone(part: &Part) -> Result<(), MergeError> {
    let trial = &part.trial;
    let (players, hosts) = (trial.players.iter().count(), trial.hosts.iter().count());
    if (players, hosts) != (1, 1) {
        return Err(MergeError::NotOne { host: part.host.clone(), players, hosts });
    }
    let of_connections = || trial.connections.as_ref().map(|facts| facts.check(trial.sent_on_connections()));
    let checked = trial.accounts.check().and_then(|()| of_connections().unwrap_or(Ok(())));
    checked.map_err(|violated| MergeError::Identity { host: part.host.clone(), violated })
}

fn check_against(part: &Part, first: &Part) -> Result<(), MergeError> {
    /// A property that must be equal, and how a record has it.
    type Equal = (&'static str, fn(&Trial) -> String);
    const EQUAL: [Equal; 8] = [
        ("the kind of load", |trial| format!("{:?}", trial.load.mode).to_lowercase()),
        ("the arrivals", |trial| trial.load.arrivals.clone().unwrap_or_else(|| "none".into())),
        ("the transport", |trial| trial.transport.word().into()),
        ("the target", |trial| trial.target.clone()),
        ("the hash of the queries", |trial| trial.dataset.hash.clone()),
        ("the check of answers", |trial| trial.dataset.check.clone().unwrap_or_else(|| "none".into())),
        ("the timeout", |trial| format!("{} s", trial.load.timeout_s)),
        ("whether connections are the load", |trial| {
            trial.connections.as_ref().is_some_and(|facts| facts.alone).to_string()
        }),
    ];
    for (what, of) in EQUAL {
        let (value, other_value) = (of(&part.trial), of(&first.trial));
        if value != other_value {
            let (host, other) = (part.host.clone(), first.host.clone());
            return Err(MergeError::Differs { host, other, what, value, other_value });
        }
    }
    Ok(())
}
