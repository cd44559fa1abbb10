//! Figures of the event in each load of a cell: how long it took, and what it cost the clients.

use kqps_observation::{EventUsage, Run, Trial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::measured::{Spread, spread_of};
use crate::scenario::{self, Effect};

/// Figures of the events of a cell over its loads, also if the rate is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventCosts {
    /// Seconds from the begin of the event until it was done; `None` if that was never seen.
    pub seconds: Option<Spread>,
    /// The longest time without a correct reply that touches the event's time, seconds; 0 without one.
    pub silence_s: Option<Spread>,
    /// Answers that the clients lost because of the event.
    pub lost: Option<Spread>,
    /// CPU seconds of the subject from the begin of the event until it was done.
    #[serde(default)]
    pub cpu_s: Option<Spread>,
    /// The most resident memory of the subject meanwhile, bytes.
    #[serde(default)]
    pub memory_bytes: Option<Spread>,
    /// Updates that were accepted, as a share of those that were sent, 0 to 1.
    pub accepted: Option<Spread>,
}

/// The figures of the events in the trials of a cell; `None` if they have no events.
pub(super) fn costs(run: &Run, cell: u32) -> Option<EventCosts> {
    let measured = run.trials_of(cell as usize).filter_map(|one| one.measured());
    let trials: Vec<&Trial> = measured.filter(|trial| !trial.events.is_empty()).collect();
    (!trials.is_empty()).then(|| EventCosts {
        seconds: spread_of(trials.iter().filter_map(|trial| seconds(trial))),
        silence_s: spread_of(trials.iter().filter_map(|trial| silence_s(&effect(trial)?))),
        lost: spread_of(trials.iter().filter_map(|trial| Some(effect(trial)?.lost? as f64))),
        cpu_s: spread_of(trials.iter().filter_map(|trial| usage(trial)?.cpu_s)),
        memory_bytes: spread_of(trials.iter().filter_map(|trial| Some(usage(trial)?.rss_most_bytes as f64))),
        accepted: spread_of(trials.iter().filter_map(|trial| accepted(trial))),
    })
}

fn seconds(trial: &Trial) -> Option<f64> {
    let event = trial.events.first()?;
    Some(event.done_s? - event.begun_s?)
}

/// CPU time and memory of the subject during the event, if it is known when that was done.
fn usage(trial: &Trial) -> Option<EventUsage> {
    trial.events.first().filter(|event| event.done_s.is_some())?.usage
}

/// The effect on the good clients, which are the first class.
fn effect(trial: &Trial) -> Option<Effect> {
    scenario::figures(trial)?.effects.into_iter().next()
}

fn silence_s(effect: &Effect) -> Option<f64> {
    // Before anything was answered, a silence says nothing.
    effect.answered_before.map(|_| effect.silence.map_or(0.0, |silence| silence.seconds))
}

fn accepted(trial: &Trial) -> Option<f64> {
    let counts = &trial.events.first()?.counts;
    let sent = *counts.get("updates").filter(|sent| **sent > 0)?;
    Some(counts.get("accepted").copied().unwrap_or(0) as f64 / sent as f64)
}

#[cfg(test)]
mod tests {
    use kqps_observation::EventFacts;

    use super::*;

    #[test]
    fn a_share_of_the_updates_is_accepted() {
        let counted = |pairs: &[(&str, u64)]| {
            let counts = pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
            let event = EventFacts { counts, begun_s: Some(4.0), done_s: Some(4.5), ..EventFacts::default() };
            Trial { events: vec![event], ..Trial::default() }
        };
        assert_eq!(accepted(&counted(&[("updates", 4), ("accepted", 3)])), Some(0.75));
        assert_eq!(accepted(&counted(&[("updates", 4), ("refused", 4)])), Some(0.0));
        assert_eq!(accepted(&counted(&[])), None);
        assert_eq!(seconds(&counted(&[])), Some(0.5));
    }

    #[test]
    fn a_silence_needs_answers_before_it() {
        let effect = |answered_before, silence| Effect { answered_before, silence, ..Effect::default() };
        let silence = kqps_observation::Silence { at_s: 4.0, seconds: 0.3 };
        assert_eq!(silence_s(&effect(Some(1.0), Some(silence))), Some(0.3));
        assert_eq!(silence_s(&effect(Some(1.0), None)), Some(0.0));
        assert_eq!(silence_s(&effect(None, Some(silence))), None);
    }
}
