//! Where packets were lost: `docs/method/ledger.md`.

pub use kqps_catalogue::Place;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a loss was found: by a counter of drops, or by the difference of two counters of passages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum FoundBy {
    Drops,
    Passages,
}

/// Packets lost at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Placed {
    /// The place.
    pub place: Place,
    /// The number of packets.
    pub count: u64,
    /// How the loss was found.
    pub by: FoundBy,
    /// Whether other traffic on this host moves the same counter.
    pub shared: bool,
}

/// The stages that queries and their replies pass, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StageName {
    /// The schedule called for the query.
    Intended,
    /// The player's kernel took it.
    Sent,
    /// It reached IP on the subject's side.
    SubjectReceived,
    /// It passed the filters there, and IP passed it to UDP.
    SubjectDelivered,
    /// The subject read it from its socket.
    SubjectRead,
    /// The subject's kernel passed the reply to IP.
    SubjectReplied,
    /// The reply passed the filters there.
    SubjectTransmitted,
    /// The reply reached IP on the player's side.
    PlayerReceived,
    /// It passed the filters there, and IP passed it to UDP.
    PlayerDelivered,
    /// The player read it.
    Answered,
}

/// How many queries or replies passed a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stage {
    /// The stage.
    pub name: StageName,
    /// How many passed. The count may be slightly wrong if `shared` is true.
    pub count: u64,
    /// Whether other traffic on this host moves the same counter.
    pub shared: bool,
}

/// Places whose losses could not be separated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Merged {
    /// The places, in the order in which packets pass them.
    pub places: Vec<Place>,
    /// The reason, in a sentence without its full stop.
    pub reason: String,
}

/// All losses of a trial by place. `bad = Σ places + unexplained − surplus`, where bad counts queries that were
/// intended and have no reply at all: unsent, refused by the kernel, or lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ledger {
    /// In the order of [`Place`], without places that lost nothing. A place has two entries if counters of
    /// drops account for only a part of its loss.
    pub places: Vec<Placed>,
    /// Losses that nothing explains. Negative only in records of earlier versions, which had `surplus` in it.
    pub unexplained: i64,
    /// Packets beyond the losses that the counters show as dropped: of other traffic, or replies that the player did not
    /// need.
    #[serde(default)]
    pub surplus: u64,
    /// How many passed each stage from intended to answered, for the stages that could be counted by
    /// themselves.
    #[serde(default)]
    pub stages: Vec<Stage>,
    /// Places between which no stage could be counted.
    #[serde(default)]
    pub merged: Vec<Merged>,
}

impl Ledger {
    /// Packets that the counters show beyond the losses, in records of earlier versions, too.
    pub fn beyond(&self) -> u64 {
        self.surplus + u64::try_from(-self.unexplained).unwrap_or(0)
    }

    /// Packets lost at one place.
    pub fn at(&self, place: Place) -> u64 {
        self.places.iter().filter(|placed| placed.place == place).map(|placed| placed.count).sum()
    }
}
