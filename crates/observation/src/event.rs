//! Events of a scenario: something that happened to the subject, its path or its zones while it was loaded.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An event with its moments. Times are seconds since the trial began, on the player's clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventFacts {
    /// The event in words, such as `reload` or `loss 5%`.
    pub name: String,
    /// When it was due.
    pub due_s: f64,
    /// When it began: its signal was sent, its program started, its path changed. `None` if the trial ended before, or
    /// if it could not begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_s: Option<f64>,
    /// When it was done: its program ended well, the new serial was answered, the server answered again. `None` if that
    /// was not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_s: Option<f64>,
    /// Why it failed; `None` if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Counts of the event: `messages`, `records` and `bytes` of a transfer, and `whole` 1 if the server sent the whole zone in
    /// place of its changes; the `updates` that were sent, each of which was
    /// `accepted`, `refused` or `unanswered`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u64>,
    /// CPU time and memory of the subject meanwhile; `None` if its processes are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<EventUsage>,
}

/// CPU time and memory of the subject from the begin of an event until it was done, or until the load was over if that was not
/// seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventUsage {
    /// CPU seconds that its processes used, for the event and for queries meanwhile. `None` if its first process changed or
    /// ended, as after a restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// Resident memory of all its processes when the event began, bytes. Pages that several of them share count in each.
    pub rss_before_bytes: u64,
    /// The most resident memory of all its processes, read every 20 ms, bytes.
    pub rss_most_bytes: u64,
}

impl EventFacts {
    /// Whether it happened, as far as is known: it did not if it could not begin.
    pub fn happened(&self) -> bool {
        self.begun_s.is_some() || self.failure.is_none()
    }

    /// When it began, or was due if its begin is not known.
    pub fn at_s(&self) -> f64 {
        self.begun_s.unwrap_or(self.due_s)
    }
}

/// A time without a correct reply, while queries were due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Silence {
    /// When it began, seconds since the trial began.
    pub at_s: f64,
    /// How long it lasted, seconds.
    pub seconds: f64,
}
