//! The kinds of servers.

use std::path::PathBuf;

use kqps_message::edns::UDP_PAYLOAD_BYTES;
use serde::{Deserialize, Serialize};

use crate::services::auth;
use crate::services::echo::Echo;
use crate::front;

/// A kind of server, with its settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Service {
    /// Returns queries as their own replies.
    Echo(Echo),
    /// Answers from zones.
    Auth(auth::Settings),
    /// Passes queries to back ends, and their answers to clients.
    Front(Box<front::Settings>),
}

impl Service {
    /// Whether it accepts TCP connections.
    pub(crate) fn takes_tcp(&self) -> bool {
        match self {
            Self::Echo(_) => false,
            Self::Auth(settings) => settings.tcp,
            Self::Front(settings) => settings.tcp,
        }
    }

    /// Whether to forbid fragmentation of replies: if no reply is longer than its query, or longer than what
    /// passes nearly everywhere. A query may itself have arrived in fragments. Its echo is then refused and
    /// counted, since fragments would distort what an echo measures.
    pub(crate) fn replies_pass(&self) -> bool {
        match self {
            Self::Echo(_) => true,
            Self::Auth(settings) => settings.payload_bytes <= UDP_PAYLOAD_BYTES,
            // Their length depends on the back ends and on what clients accept.
            Self::Front(_) => false,
        }
    }

    /// Whether SIGHUP reloads something.
    pub(crate) fn loads_again(&self) -> bool {
        match self {
            Self::Echo(_) => false,
            Self::Auth(_) | Self::Front(_) => true,
        }
    }

    /// The paths of the Unix sockets on which it accepts connections.
    pub(crate) fn unix(&self) -> &[PathBuf] {
        match self {
            Self::Echo(_) | Self::Front(_) => &[],
            Self::Auth(settings) => &settings.unix,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::connections;

    fn auth(payload_bytes: u16) -> Service {
        Service::Auth(auth::Settings {
            zones: Vec::new(),
            lists: Vec::new(),
            payload_bytes,
            nsid: None,
            version: None,
            identity: None,
            cookie_secret: None,
            transfers: false,
            tcp: true,
            unix: Vec::new(),
            limits: connections::Limits { idle: Duration::from_secs(1), connections: 1, per_client: 1 },
        })
    }

    #[test]
    fn long_answers_may_be_fragmented() {
        let services = [Service::Echo(Echo { work_ns: 0 }), auth(512), auth(1232), auth(1233)];
        assert_eq!(services.map(|service| service.replies_pass()), [true, true, true, false]);
    }
}
