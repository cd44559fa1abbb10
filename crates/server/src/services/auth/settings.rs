//! The settings of an authoritative server.

use std::path::PathBuf;

use kqps_zone::respond;
use serde::{Deserialize, Serialize};

use crate::connections;

/// The settings of an authoritative server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AuthSettings {
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

impl AuthSettings {
    /// The settings that determine the contents of replies.
    pub(super) fn for_zones(&self) -> respond::ResponderSettings {
        let boxed = |bytes: &Option<Vec<u8>>| bytes.as_deref().map(Box::from);
        respond::ResponderSettings {
            udp_payload_bytes: self.payload_bytes,
            nsid: boxed(&self.nsid),
            version: boxed(&self.version),
            identity: boxed(&self.identity),
            cookie_secret: self.cookie_secret,
            transfers: self.transfers,
            ..respond::ResponderSettings::default()
        }
    }
}
