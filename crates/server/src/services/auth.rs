//! The authoritative server. All workers of a process share its zones, which can be replaced while it runs.

mod answer;
mod keeper;

use std::io;
use std::path::PathBuf;

use kqps_zone::{Zones, respond};
use serde::{Deserialize, Serialize};

use crate::front::Policy;
use crate::connections;

pub(crate) use answer::{Auth, AuthStream};
pub(crate) use keeper::Keeper;

/// The settings of an authoritative server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Zone files as the user names them: `[ORIGIN=]FILE`.
    pub zones: Vec<PathBuf>,
    /// Directories of zone files, and files that list zones.
    pub lists: Vec<PathBuf>,
    /// The longest UDP reply to a query with EDNS, in bytes (RFC 6891, section 6.2.3).
    pub payload_bytes: u16,
    /// The server's NSID (RFC 5001); `None` to send none.
    pub nsid: Option<Vec<u8>>,
    /// The answer to `version.bind`; `None` for no answer.
    pub version: Option<Vec<u8>>,
    /// The answer to `id.server` (RFC 4892); `None` for no answer.
    pub identity: Option<Vec<u8>>,
    /// The secret of server cookies (RFC 9018); `None` to send no cookies.
    pub cookie_secret: Option<[u8; 16]>,
    /// Whether the server answers requests for zone transfers.
    pub transfers: bool,
    /// Whether the server accepts TCP connections at its UDP addresses.
    pub tcp: bool,
    /// The paths of Unix sockets that accept connections. Worker processes do not receive them: they inherit the
    /// sockets.
    #[serde(skip)]
    pub unix: Vec<PathBuf>,
    /// The limits of connections.
    pub limits: connections::Limits,
}

impl Settings {
    /// The settings that determine the contents of replies.
    fn for_zones(&self) -> respond::Settings {
        let boxed = |bytes: &Option<Vec<u8>>| bytes.as_deref().map(Box::from);
        respond::Settings {
            udp_payload_bytes: self.payload_bytes,
            nsid: boxed(&self.nsid),
            version: boxed(&self.version),
            identity: boxed(&self.identity),
            cookie_secret: self.cookie_secret,
            transfers: self.transfers,
            ..respond::Settings::default()
        }
    }
}

/// The result of loading zones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Told {
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Faulty {
    /// The name of the zone.
    pub zone: String,
    /// Whether the zone stays as it was; if not, the server answers SERVFAIL for it.
    pub kept: bool,
    /// The first error in the file, with its position.
    pub error: String,
}

impl Told {
    /// Adds the result of another process, which loaded the same zones.
    pub(crate) fn add(&mut self, other: &Self) {
        self.broken = self.broken.max(other.broken);
        self.kept = self.kept.max(other.kept);
        self.load_s = self.load_s.max(other.load_s);
        self.memory_bytes += other.memory_bytes;
    }
}

/// A request to load zones.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// The settings that name the zones.
    pub settings: &'a Settings,
    /// The zones served so far. If the file of a zone cannot be loaded, its old version stays.
    pub old: Option<&'a Zones>,
    /// The number of threads that may load, at least 1.
    pub threads: usize,
    /// Whether to report problems to the user. Of several processes that load the same zones, one does.
    pub speaks: bool,
}

/// Loads zones and policies, and reports to the user what is wrong with them.
pub trait Load: Send + Sync {
    /// Loads all zones. Runs on a thread that may block. The error says why nothing could be loaded.
    fn load(&self, wish: Wish<'_>) -> Result<(Zones, Told), String>;

    /// Reads the policy of a front again. If it cannot be used or `check` refuses it, reports the reason to the user
    /// and returns `None`.
    fn policy(&self, check: &dyn Fn(&Policy) -> Result<(), String>) -> Option<Policy>;

    /// Reports that a front uses this policy from now on or, with an error, that one of its workers cannot.
    fn adopted(&self, policy: &Policy, outcome: io::Result<()>);
}
