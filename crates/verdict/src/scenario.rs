//! The figures of a load by a scenario: what each event did to each class of clients, and what each class got for what it
//! sent. METHOD, "Effects of an event" and "Figures of a class" have the rules.

mod class;
mod effect;

use kqps_observation::{EventFacts, Silence, Trial};
use schemars::JsonSchema;
use serde::Serialize;

/// The name of the clients of a load without classes, and of the first class of a load with several.
pub const GOOD: &str = "good";

/// The figures of a load by a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ScenarioFigures {
    /// Event by event in the order in which they happened, the effect on each class in its order. An event that could not
    /// begin has none, and neither has an event after which nothing was due. For events in the same bin of the moments,
    /// the last has the effects of all.
    pub effects: Vec<Effect>,
    /// Each class; one called `good` for a load without classes.
    pub classes: Vec<ClassFigures>,
}

/// Effect of an event on a class. Times are seconds since the trial began, on the player's clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Effect {
    /// The event in words, such as `reload`.
    pub event: String,
    /// When it began, or was due if its begin is not known.
    pub at_s: f64,
    /// The name of the class.
    pub class: String,
    /// How long its time is, seconds from `at_s` on: a second, or until it was done or the answers were back if that took
    /// longer, and not beyond the next event or the end of the load.
    pub span_s: f64,
    /// Queries that were due in the bins of that time.
    pub intended: u64,
    /// The share of the due queries that was answered before the event, 0 to 1; `None` if nothing was answered before.
    pub answered_before: Option<f64>,
    /// Answers that were lost because of it: those of the share before, minus those that came, over the bins from the
    /// event until the answers were back. `None` without a share before.
    pub lost: Option<u64>,
    /// The longest time without a correct reply that touches the time of the event. `None` if there is none, or if one as
    /// long came before it and touches the time of no event.
    pub silence: Option<Silence>,
    /// Seconds until at least 99 % of the share before was answered again, 0 if no bin fell below. `None` without a share
    /// before, or if the answers were not back before the next event or the end of the load.
    pub recovered_s: Option<f64>,
    /// The 99th percentile of latency before the event, microseconds, from the same bins as the share before.
    pub p99_before_us: Option<f64>,
    /// The greatest 99th percentile of a bin within the event's time, microseconds; `None` without a reply.
    pub p99_worst_us: Option<f64>,
}

impl Effect {
    /// Lost answers as a share of the queries that were due in the event's time, 0 to 1.
    pub fn lost_share(&self) -> Option<f64> {
        (self.intended > 0).then(|| self.lost.map(|lost| lost as f64 / self.intended as f64))?
    }

    /// The outcome of a class that got fewer answers to the end of the event's time, in words: `below 99 % to the end of
    /// 1.2 s`. `None` of any other class.
    pub fn never_back(&self) -> Option<String> {
        let is_away = self.answered_before.is_some() && self.recovered_s.is_none();
        is_away.then(|| format!("below 99 % to the end of {:.1} s", self.span_s))
    }

    /// Whether the class lost anything: answers, or time in which none came.
    pub fn lost_something(&self) -> bool {
        self.lost.is_some_and(|lost| lost > 0) || self.silence.is_some()
    }
}

/// Replies that a class of clients got for its queries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ClassFigures {
    /// Its name.
    pub name: String,
    /// Bytes of DNS in the queries that it sent.
    pub request_bytes: u64,
    /// Bytes of DNS in the replies that came in time, right or wrong.
    pub response_bytes: u64,
    /// Bytes of replies for each byte of queries; `None` if nothing was sent.
    pub amplification: Option<f64>,
    /// Correct replies that were truncated (TC).
    pub truncated: u64,
    /// How many of these were truncated to nothing, though the answer would have fitted: the slips of response rate
    /// limiting.
    pub slipped: u64,
    /// Replies in time with REFUSED.
    pub refused: u64,
    /// Queries without any reply: lost ones. A server that drops by its limit and a server that is overloaded look alike.
    pub dropped: u64,
    /// Queries of the good clients beside other classes that a limit hit: slipped replies, REFUSED to queries that were
    /// answered at other times, and queries without a reply. `None` for other classes, and without them.
    pub wrongly_limited: Option<u64>,
    /// The longest time without a correct reply; `None` if none was recorded.
    pub silence: Option<Silence>,
}

impl ClassFigures {
    /// Whether replies show that the server limits this class.
    pub fn shows_limit(&self) -> bool {
        self.slipped > 0 || self.refused > 0
    }
}

/// The figures of a load; `None` if it has neither classes nor events nor silences.
pub fn figures(trial: &Trial) -> Option<ScenarioFigures> {
    let has_none = trial.classes.is_empty() && trial.events.is_empty() && trial.silences.is_empty();
    if has_none {
        return None;
    }
    let classes = classes(trial);
    let is_beside_others = classes.len() > 1;
    let happened = happened(trial);
    let of_class = |(name, trial): &(&str, &Trial)| effect::effects(name, trial, &happened);
    let mut effects: Vec<(usize, Effect)> = classes.iter().flat_map(of_class).collect();
    effects.sort_by_key(|(event, _)| *event);
    let of_class = |(number, (name, trial)): (usize, &(&str, &Trial))| {
        class::class(name, trial, is_beside_others && number == 0)
    };
    Some(ScenarioFigures {
        effects: effects.into_iter().map(|(_, effect)| effect).collect(),
        classes: classes.iter().enumerate().map(of_class).collect(),
    })
}

/// The classes of a trial with their names.
fn classes(trial: &Trial) -> Vec<(&str, &Trial)> {
    if trial.classes.is_empty() {
        return vec![(GOOD, trial)];
    }
    trial.classes.iter().map(|class| (&*class.name, &class.trial)).collect()
}

/// The events that happened, by their time.
fn happened(trial: &Trial) -> Vec<&EventFacts> {
    let mut happened: Vec<&EventFacts> = trial.events.iter().filter(|event| event.happened()).collect();
    happened.sort_by(|one, other| one.at_s().total_cmp(&other.at_s()));
    happened
}
