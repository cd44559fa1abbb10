//! The wires by name.

use serde::Deserialize;

enumeration! {
    /// The protocol that carries messages.
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Kind: &'static str {
        /// TCP: each message after its length (RFC 7766).
        Tcp => "tcp",
        /// TLS: each message after its length (RFC 7858).
        Tls => "tls",
        /// HTTP/2 in TLS: a stream for each message (RFC 8484).
        Https => "https",
        /// QUIC: a stream for each message (RFC 9250).
        Quic => "quic",
    }
}

impl Kind {
    /// Its name in reports and URLs, and as a transport of `kqps load`.
    pub fn name(self) -> &'static str {
        self.facts()
    }

    /// Whether each message has a stream of its own, which can end alone.
    pub fn has_streams(self) -> bool {
        matches!(self, Self::Https | Self::Quic)
    }
}
