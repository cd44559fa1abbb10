//! The authoritative server: zones that all workers of a process share, and that can be replaced under way.

mod answer;
mod keeper;

use std::io;
use std::path::PathBuf;

use kqps_zone::{Zones, respond};
use serde::{Deserialize, Serialize};

use crate::front::Policy;
use crate::tcp;

pub(crate) use answer::{Auth, AuthStream};
pub(crate) use keeper::Keeper;

/// What an authoritative server is asked to be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Zones by file, each as a user names it: `[ORIGIN=]FILE`.
    pub zones: Vec<PathBuf>,
    /// Directories and lists of zones.
    pub lists: Vec<PathBuf>,
    /// The longest UDP reply to a query with EDNS, bytes (RFC 6891, section 6.2.3).
    pub payload_bytes: u16,
    /// What NSID says (RFC 5001); none where it is not to be told.
    pub nsid: Option<Vec<u8>>,
    /// What `version.bind` says; none where it is not to be told.
    pub version: Option<Vec<u8>>,
    /// What `id.server` says (RFC 4892); none where it is not to be told.
    pub identity: Option<Vec<u8>>,
    /// The secret of server cookies (RFC 9018); none where there are to be none.
    pub cookie_secret: Option<[u8; 16]>,
    /// Whether whole zones are told to those who ask.
    pub transfers: bool,
    /// Whether connections are taken by TCP, at the addresses of UDP.
    pub tcp: bool,
    /// Unix sockets by which connections are taken. Worker processes are not told: they inherit the sockets.
    #[serde(skip)]
    pub unix: Vec<PathBuf>,
    /// What connections may take.
    pub limits: tcp::Limits,
}

impl Settings {
    /// Those that decide what a reply looks like.
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

/// What was loaded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// Zones that are answered from.
    pub zones: u64,
    /// Zones whose files did not load, which are answered with SERVFAIL.
    pub broken: u64,
    /// Zones whose files did not load this time, and which stay as they were.
    pub kept: u64,
    /// Records of all zones.
    pub records: u64,
    /// How long loading took, seconds.
    pub load_s: f64,
    /// What the zones take, bytes; in all processes.
    pub memory_bytes: u64,
    /// How they differ from those that were served before; none where there were no zones before.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// The first of the zones whose files did not load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faulty: Vec<Faulty>,
}

/// How zones whose files did load differ from those that were served before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Zones that were not served before.
    pub added: u64,
    /// Zones whose records are others now.
    pub changed: u64,
    /// Zones whose records are the same.
    pub unchanged: u64,
    /// Zones that are no longer named.
    pub removed: u64,
}

/// A zone whose file did not load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Faulty {
    /// Its name.
    pub zone: String,
    /// Whether it stays as it was; else it is answered with SERVFAIL.
    pub kept: bool,
    /// The first thing that is wrong, with its place.
    pub error: String,
}

impl Told {
    /// Adds what another process loaded: the same once more.
    pub(crate) fn add(&mut self, other: &Self) {
        self.broken = self.broken.max(other.broken);
        self.kept = self.kept.max(other.kept);
        self.load_s = self.load_s.max(other.load_s);
        self.memory_bytes += other.memory_bytes;
    }
}

/// What is to be loaded, and how.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// Whose zones.
    pub settings: &'a Settings,
    /// What there was before; its zones stay where their files cannot be loaded.
    pub old: Option<&'a Zones>,
    /// How many threads may work on it, at least 1.
    pub threads: usize,
    /// Whether the user is to be told about it: by one of several processes that load the same.
    pub speaks: bool,
}

/// Loads what a server goes by, and tells the user what is wrong with it. The error says why nothing could be loaded.
pub trait Load: Send + Sync {
    /// Loads all zones. Called in a thread that may take its time.
    fn load(&self, wish: Wish<'_>) -> Result<(Zones, Told), String>;

    /// Reads the policy of a front again; none where it cannot be used, or `check` says why not, which the user is told.
    fn policy(&self, check: &dyn Fn(&Policy) -> Result<(), String>) -> Option<Policy>;

    /// A front goes by that policy from now on, or a worker of it cannot.
    fn adopted(&self, policy: &Policy, outcome: io::Result<()>);
}
