//! Why a combination of factors has no cell.

use std::collections::BTreeMap;

use kqps_observation::Run;
use kqps_observation::question::Experiment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why there is no cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Absence {
    /// The run left the combination out, for this reason.
    Skipped(String),
    /// The study does not contain the combination.
    NotPlanned,
}

/// Looks up the combination among those that the run left out.
pub(super) fn look_up(run: &Run, experiment: &Experiment, values: &BTreeMap<String, String>) -> Absence {
    let found = run.skipped.iter().find(|(what, _)| names(what, experiment, values));
    found.map_or(Absence::NotPlanned, |(_, why)| Absence::Skipped(why.clone()))
}

/// Whether a key of [`Run::skipped`] names a combination. The key may begin with the experiment's name and a
/// colon. Then follow `FACTOR=VALUE` items, separated by semicolons, or bare values, and all must match.
fn names(what: &str, experiment: &Experiment, values: &BTreeMap<String, String>) -> bool {
    let rest = match what.split_once(": ") {
        Some((name, rest)) if name == experiment.name => rest,
        Some(_) => return false,
        None => what,
    };
    let is_so = |word: &str| match word.split_once('=') {
        Some((name, value)) => values.get(name).is_some_and(|other| other == value),
        None => values.values().any(|value| value == word),
    };
    // A study that names no subject measures the echo.
    let rest = rest.strip_prefix("echo ").unwrap_or(rest);
    rest.split(';').all(|word| is_so(word.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(what: &str) -> Absence {
        let run = Run { skipped: [(what.into(), "no uring".into())].into(), ..Run::default() };
        let experiment = Experiment { name: "udp".into(), ..Experiment::default() };
        let values = [("io", "uring"), ("workers", "2")].map(|(name, value)| (name.into(), value.into()));
        look_up(&run, &experiment, &values.into())
    }

    #[test]
    fn a_combination_is_left_out_when_all_that_is_named_is_so() {
        for what in ["uring", "echo uring", "io=uring", "udp: io=uring; workers=2", "udp: uring; 2"] {
            assert_eq!(why(what), Absence::Skipped("no uring".into()), "{what}");
        }
        for what in ["mmsg", "tcp: io=uring", "io=uring; workers=4", "workers=uring", "echo", "", "udp: "] {
            assert_eq!(why(what), Absence::NotPlanned, "{what}");
        }
    }
}
