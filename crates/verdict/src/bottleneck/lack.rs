//! Why the player was the bottleneck.

use kqps_observation::Trial;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Losses, SATURATED, mean};
use crate::warning::{self, CpuLack};

/// What the player lacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlayerLack {
    /// Speed: its own threads were busy all the time.
    Threads,
    /// Its core: other work filled it.
    Core,
    /// CPU time: the host did not give it enough, though neither its threads nor its cores were full.
    CpuTime,
    /// Room in the receive buffers of its sockets, which dropped replies.
    Buffers,
    /// A host that takes its queries: the kernel refused them.
    Sending,
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
        }
    }

    /// Whether the words need the share of time that the player was busy.
    pub(super) fn is_of_cpu(self) -> bool {
        matches!(self, Self::Threads | Self::Core | Self::CpuTime)
    }

    /// What it lacked in trials whose queries it lost or did not send. The most queries decide.
    pub(super) fn of_losses(failed: &[&Trial], losses: &Losses) -> Self {
        let by_cpu = losses.player.saturating_sub(losses.refused + losses.dropped);
        match losses.refused.max(losses.dropped) {
            most if most == 0 || most <= by_cpu => Self::of_starved(failed),
            most if most == losses.refused => Self::Sending,
            _ => Self::Buffers,
        }
    }

    /// What it lacked in trials in which it did not keep its schedule: what most of these show, and of equals the first.
    fn of_starved(failed: &[&Trial]) -> Self {
        let causes: Vec<CpuLack> = failed.iter().filter_map(|trial| warning::starved_by(trial)).collect();
        let count = |cause| causes.iter().filter(|one| **one == cause).count();
        let order = [CpuLack::NotGiven, CpuLack::CoreTaken, CpuLack::Busy];
        match order.into_iter().max_by_key(|cause| count(*cause)).filter(|cause| count(*cause) > 0) {
            Some(CpuLack::NotGiven) => Self::CpuTime,
            Some(CpuLack::CoreTaken) => Self::Core,
            Some(CpuLack::Busy) => Self::Threads,
            None => Self::of_full(failed),
        }
    }

    /// What it lacked in trials in which it or its core was full.
    pub(super) fn of_full(failed: &[&Trial]) -> Self {
        let own = mean(failed.iter().filter_map(|trial| warning::busiest_own_time(trial)));
        let busy = mean(failed.iter().filter_map(|trial| warning::busiest_thread(trial)));
        match (own, busy) {
            (Some(own), _) if own >= SATURATED => Self::Threads,
            (_, Some(busy)) if busy >= SATURATED => Self::Core,
            _ => Self::CpuTime,
        }
    }
}
