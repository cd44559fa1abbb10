//! The part of a plan that all wires with connections have: how many connections there are, and how each is used.

use std::time::Duration;

use super::TlsPlan;

/// How a wire uses connections, whatever carries them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionUse<'a> {
    /// Connections of all threads together that may be open at once.
    pub(crate) connections: usize,
    /// Queries on each connection before it is closed; `None` if it is kept, and 0 if connections alone are the load.
    pub(crate) queries_per_connection: Option<u32>,
    /// The most unsettled queries of one connection.
    pub(crate) outstanding: u32,
    /// A connection that is not made after this time has failed.
    pub(crate) connect_timeout: Duration,
    /// TLS on every connection; `None` for none.
    pub(crate) tls: Option<&'a TlsPlan>,
}

impl ConnectionUse<'_> {
    /// Whether connections alone are the load.
    pub(crate) fn has_connections_alone(&self) -> bool {
        self.queries_per_connection == Some(0)
    }

    /// How many queries use a connection, or stand for it, before it is closed; `None` if it is kept.
    pub(crate) fn uses_of_connection(&self) -> Option<u32> {
        self.queries_per_connection.map(|queries| queries.max(1))
    }

    /// Whether connections are kept for the whole trial.
    pub(crate) fn are_kept(&self) -> bool {
        self.queries_per_connection.is_none()
    }
}
