//! What a server does with queries.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::auth;
use crate::echo::Echo;

/// A kind of server, with its own settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Service {
    /// Returns queries.
    Echo(Echo),
    /// Answers from zones.
    Auth(auth::Settings),
}

impl Service {
    /// Whether it takes connections by TCP.
    pub(crate) fn takes_tcp(&self) -> bool {
        matches!(self, Self::Auth(auth::Settings { tcp: true, .. }))
    }

    /// The Unix sockets by which it takes connections.
    pub(crate) fn unix(&self) -> &[PathBuf] {
        match self {
            Self::Echo(_) => &[],
            Self::Auth(settings) => &settings.unix,
        }
    }
}
