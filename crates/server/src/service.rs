//! What a server does with queries.

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
    /// Whether it takes connections.
    pub(crate) fn takes_connections(&self) -> bool {
        matches!(self, Self::Auth(auth::Settings { tcp: Some(_), .. }))
    }
}
