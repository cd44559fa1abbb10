//! Settings for what is DNS in a capture.

use std::net::IpAddr;

/// The ends by which DNS is recognised in packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The ports of servers. Default: 53.
    pub ports: Vec<u16>,
    /// The addresses of servers. None stands for any address.
    pub servers: Vec<IpAddr>,
    /// Whether frames of dnstap count that a resolver wrote of what it asks of name servers (`RESOLVER_*`), and not those
    /// about its clients.
    pub is_upstream: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { ports: vec![53], servers: Vec::new(), is_upstream: false }
    }
}
