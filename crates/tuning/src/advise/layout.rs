//! A layout: which cores receive and which answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a host receives queries and where its server answers them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Layout {
    /// Its kind.
    pub kind: Kind,
    /// Receive queues of the device.
    pub queues: u32,
    /// Further numbers of queues that are worth a trial, ascending. No rule gives the best number: CZ.NIC found 48
    /// queues best for 128 threads.
    pub queues_to_try: Vec<u32>,
    /// The cores that take packets through the network stack, ascending.
    pub queue_cpus: Vec<u32>,
    /// The cores that take the interrupts of the queues, ascending. The queues take turns over them. Empty if the
    /// device has no interrupts.
    pub interrupt_cpus: Vec<u32>,
    /// Whether receive packet steering (RPS) spreads the packets of every queue over `queue_cpus`.
    pub is_steered: bool,
    /// The cores of the server, ascending: one worker on each.
    pub worker_cpus: Vec<u32>,
    /// Queries a second that it carries at most. `None` without the time of a packet and of an answer.
    pub rate_qps: Option<f64>,
    /// The share of its time that each of `queue_cpus` spends receiving, at the rate that was asked for or else at
    /// `rate_qps`. `None` as for `rate_qps`.
    pub receive_busy: Option<f64>,
    /// Why it may be best.
    pub reason: String,
    /// Who found it, and where.
    pub source: String,
    /// The possible cost of the layout.
    pub cost: String,
    /// The settings that it changes, in their order. Empty if the host is so already.
    pub changes: Vec<(String, String)>,
}

/// A kind of layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Each core receives the packets that it answers.
    Together,
    /// Some cores receive, the others of the node answer.
    Split,
    /// A thread of each core receives, the other answers.
    Siblings,
    /// Cores of the device's node receive. Its other cores and those of other nodes answer.
    SecondNode,
    /// A core receives, and the cores that share its cache answer.
    Neighbours,
}

impl Kind {
    /// Its words in text.
    pub fn word(self) -> &'static str {
        match self {
            Self::Together => "together",
            Self::Split => "split",
            Self::Siblings => "siblings",
            Self::SecondNode => "second node",
            Self::Neighbours => "neighbours",
        }
    }
}
