//! The result of loading zones.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The number of zones and records that were loaded, and what is wrong with them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ZonesLoaded {
    /// The number of zones that the server answers from.
    pub zones: u64,
    /// The number of zones whose files did not load. The server answers SERVFAIL for them.
    pub broken: u64,
    /// The number of zones whose files did not load this time, and which stay as they were.
    pub kept: u64,
    /// The number of records of all zones.
    pub records: u64,
    /// The time that loading took, in seconds.
    pub load_s: f64,
    /// The memory that the zones take, in bytes, summed over all processes.
    pub memory_bytes: u64,
    /// The differences from the zones served before; `None` after the first load.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// The first of the zones whose files did not load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faulty: Vec<Faulty>,
}

/// How the zones whose files did load differ from those served before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Changes {
    /// The number of zones that were not served before.
    pub added: u64,
    /// The number of zones whose records have changed.
    pub changed: u64,
    /// The number of zones whose records are the same.
    pub unchanged: u64,
    /// The number of zones that the settings no longer name.
    pub removed: u64,
}

/// A zone whose file did not load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Faulty {
    /// The name of the zone.
    pub zone: String,
    /// Whether the zone stays as it was; if not, the server answers SERVFAIL for it.
    pub kept: bool,
    /// The first error in the file, with its position.
    pub error: String,
}

impl ZonesLoaded {
    /// Adds the result of another process, which loaded the same zones.
    pub(crate) fn add(&mut self, other: &Self) {
        self.broken = self.broken.max(other.broken);
        self.kept = self.kept.max(other.kept);
        self.load_s = self.load_s.max(other.load_s);
        self.memory_bytes += other.memory_bytes;
    }
}
