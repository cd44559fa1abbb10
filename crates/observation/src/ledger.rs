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

/// All losses of a trial, placed. `bad = Σ places + unexplained`, where bad is what was intended and has no
/// reply at all: unsent, refused by the kernel, or lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// In the order of [`Place`]; only places that lost something.
    pub places: Vec<Placed>,
    /// What no counter explains; negative when the counters explain more than was lost.
    pub unexplained: i64,
}

impl Ledger {
    /// Packets lost at one place.
    pub fn at(&self, place: Place) -> u64 {
        self.places.iter().filter(|placed| placed.place == place).map(|placed| placed.count).sum()
    }
}
