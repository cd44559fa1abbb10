//! The lack of a player, in words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// A thread this busy over a whole trial is at its limit. The value is less than the limit for warnings, since
/// the kernel counts CPU time in hundredths of a second and a trial may last half a second.
pub(crate) const SATURATED: f64 = 0.9;

/// The player's lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlayerLack {
    /// Speed: its own threads were busy all the time.
    #[strum(serialize = "the player")]
    Threads,
    /// Its core: work other than its own, and than interrupts for its packets, filled it.
    #[strum(serialize = "the player, whose core other work filled")]
    Core,
    /// CPU time: the host did not give it enough, though neither its threads nor its cores were full.
    #[strum(serialize = "the player, which did not get the CPU")]
    CpuTime,
    /// Room in the receive buffers of its sockets, which dropped replies.
    #[strum(serialize = "the player, whose own sockets dropped replies")]
    Buffers,
    /// A host that takes its queries: the kernel refused them.
    #[strum(serialize = "the player, whose host refused to send its queries")]
    Sending,
    /// IDs: every ID of its sockets or connections was outstanding.
    #[strum(serialize = "the player, whose sockets had no free ID")]
    Ids,
}

impl PlayerLack {
    /// The player as the bottleneck, in words: `the player, which did not get the CPU`.
    pub fn in_words(self) -> &'static str {
        self.into()
    }

    /// Whether the words need the share of time that the player was busy.
    pub fn is_of_cpu(self) -> bool {
        matches!(self, Self::Threads | Self::Core | Self::CpuTime)
    }

    /// The lack of a player that had too little CPU time. `own` is how busy its busiest thread was, 0 to 1, with the
    /// interrupts for its packets, and `busy` the same with all other work on its core; `None` if it is not known.
    pub(crate) fn of_shares(own: Option<f64>, busy: Option<f64>) -> Option<Self> {
        match (own, busy) {
            (None, None) => None,
            (Some(own), _) if own >= SATURATED => Some(Self::Threads),
            (_, Some(busy)) if busy >= SATURATED => Some(Self::Core),
            _ => Some(Self::CpuTime),
        }
    }
}
