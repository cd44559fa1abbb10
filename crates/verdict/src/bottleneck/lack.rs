//! Why the player was the bottleneck.

use kqps_observation::Trial;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Losses, SATURATED, mean};
use crate::warning;

/// What the player lacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlayerLack {
    /// Speed: its own threads were busy all the time.
    Threads,
    /// Its core: work other than its own, and than interrupts for its packets, filled it.
    Core,
    /// CPU time: the host did not give it enough, though neither its threads nor its cores were full.
    CpuTime,
    /// Room in the receive buffers of its sockets, which dropped replies.
    Buffers,
    /// A host that takes its queries: the kernel refused them.
    Sending,
    /// IDs: every ID of its sockets or connections was outstanding.
    Ids,
}

impl PlayerLack {
    /// The player as the bottleneck, in words: `the player, which did not get the CPU`.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Threads => "the player",
            Self::Core => "the player, whose core other work filled",
            Self::CpuTime => "the player, which did not get the CPU",
            Self::Buffers => "the player, whose own sockets dropped replies",
            Self::Sending => "the player, whose host refused to send its queries",
            Self::Ids => "the player, whose sockets had no free ID",
        }
    }

    /// Whether the words need the share of time that the player was busy.
    pub fn is_of_cpu(self) -> bool {
        matches!(self, Self::Threads | Self::Core | Self::CpuTime)
    }

    /// What it lacked in trials most of whose bad queries it lost or did not send. The most queries decide. `None` if
    /// that was CPU time, and nothing is known of its threads and cores.
    pub(super) fn of_losses(failed: &[&Trial], losses: &Losses) -> Option<Self> {
        let known = [
            (losses.without_id, Self::Ids),
            (losses.dropped, Self::Buffers),
            (losses.refused, Self::Sending),
        ];
        let by_cpu = losses.player.saturating_sub(known.iter().map(|(count, _)| count).sum());
        let most = known.into_iter().max_by_key(|(count, _)| *count);
        match most.filter(|(count, _)| *count > by_cpu) {
            Some((_, lack)) => Some(lack),
            None => Self::of_starved(failed),
        }
    }

    /// What it lacked in trials in which it did not keep its schedule: what most of these show, and of equals the last of
    /// `order`, which the host explains least.
    pub(super) fn of_starved(failed: &[&Trial]) -> Option<Self> {
        let lacks: Vec<Self> = failed.iter().filter_map(|trial| warning::starved_by(trial)).collect();
        let count = |lack: &Self| lacks.iter().filter(|one| *one == lack).count();
        let order = [Self::CpuTime, Self::Core, Self::Threads, Self::Ids];
        let most = order.into_iter().max_by_key(count).filter(|lack| count(lack) > 0);
        most.or_else(|| Self::of_full(failed))
    }

    /// What it lacked in trials in which it or its core was full. `None` if nothing is known of its threads and cores.
    pub(super) fn of_full(failed: &[&Trial]) -> Option<Self> {
        let own = mean(failed.iter().filter_map(|trial| warning::busiest_player(trial)));
        let busy = mean(failed.iter().filter_map(|trial| warning::busiest_thread(trial)));
        Self::of_shares(own, busy)
    }

    /// What a player lacked that had too little CPU time. `own` is how busy its busiest thread was, 0 to 1, with the
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
