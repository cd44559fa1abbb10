//! Settings for what is DNS in a capture.

use std::net::IpAddr;

/// The ends by which DNS is recognised in packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The ports of servers. Default: 53.
    pub ports: Vec<u16>,
    /// The addresses of servers. None stands for any address.
    pub servers: Vec<IpAddr>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { ports: vec![53], servers: Vec::new() }
    }
}
