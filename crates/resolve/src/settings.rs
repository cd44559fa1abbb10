//! The settings of a caching forwarder.

use kqps_front::FrontSettings;
use kqps_server::connections::Limits;

use crate::upstreams::Zones;

/// The settings of a caching forwarder.
#[derive(Clone, Debug)]
pub struct CacheSettings {
    /// How answers are kept, and for how long. The memory is that of all caches together.
    pub kept: kqps_cache::Settings,
    /// Whether workers have a cache together.
    pub sharing: Sharing,
    /// The servers that are asked, and how: a policy of [`crate::Upstreams`], limits for each resolver, and where the
    /// counts can be read.
    pub upstream: FrontSettings,
    /// The zones of that policy.
    pub zones: Zones,
    /// The longest UDP reply to a query with EDNS, in bytes (RFC 6891, section 6.2.3).
    pub payload_bytes: u16,
    /// The maximum number of clients that wait for the answers of one resolver, at least 1.
    pub waiting: usize,
    /// Whether the server accepts TCP connections at its UDP addresses.
    pub tcp: bool,
    /// The limits of connections.
    pub limits: Limits,
}

/// Whether workers have a cache together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// All of them have one.
    Shared,
    /// Each has its own, with an equal part of the memory.
    Split,
}
