//! Where the lost packets went: `docs/METHOD.md`, "The drop ledger".

use serde::{Deserialize, Serialize};

/// The places where a query or its reply can be lost, in the order in which it passes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)] // the names are METHOD's
pub enum Place {
    PlayerUnsent,
    PlayerSend,
    PathOut,
    NicOut,
    NicIn,
    Softnet,
    FilterIn,
    SubjectSocketBuffer,
    SubjectUnanswered,
    SubjectSend,
    FilterOut,
    PathBack,
    PlayerSocketBuffer,
}

/// How a loss was found: by a counter of drops, or by the difference of two counters of passages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum FoundBy {
    Drops,
    Passages,
}

/// Packets lost at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// Where.
    pub place: Place,
    /// How many packets.
    pub count: u64,
    /// How it was found.
    pub by: FoundBy,
    /// Whether other traffic on this host moves the same counter.
    pub shared: bool,
}

/// What queries and their replies pass, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StageName {
    /// The schedule called for it.
    Intended,
    /// The player's kernel took it.
    Sent,
    /// It reached IP on the subject's side.
    SubjectReceived,
    /// It passed the filters there, and was given to UDP.
    SubjectDelivered,
    /// The subject read it from its socket.
    SubjectRead,
    /// The subject's reply was given to IP.
    SubjectReplied,
    /// The reply passed the filters there.
    SubjectTransmitted,
    /// The reply reached IP on the player's side.
    PlayerReceived,
    /// It passed the filters there, and was given to UDP.
    PlayerDelivered,
    /// The player read it.
    Answered,
}

/// How many queries, or replies to them, passed a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// Which.
    pub name: StageName,
    /// How many passed. May be a little off where `shared`.
    pub count: u64,
    /// Whether other traffic on this host moves the same counter.
    pub shared: bool,
}

/// Places that could not be told apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merged {
    /// In order.
    pub places: Vec<Place>,
    /// Why not, in a sentence without its full stop.
    pub reason: String,
}

/// All losses of a trial, placed. `bad = Σ places + unexplained`, where bad is what was intended and has no
/// reply at all: unsent, refused by the kernel, or lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// In the order of [`Place`]; only places that lost something. A place has two entries where counters of
    /// drops account for a part only.
    pub places: Vec<Placed>,
    /// What nothing explains; negative when the counters explain more than was lost.
    pub unexplained: i64,
    /// What passed, from intended to answered: the stages that could be counted by themselves.
    #[serde(default)]
    pub stages: Vec<Stage>,
    /// Places between which no stage could be counted.
    #[serde(default)]
    pub merged: Vec<Merged>,
}

impl Ledger {
    /// Packets lost at one place.
    pub fn at(&self, place: Place) -> u64 {
        self.places.iter().filter(|placed| placed.place == place).map(|placed| placed.count).sum()
    }
}
