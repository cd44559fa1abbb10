//! The wires by name.

/// The protocol that carries messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TCP: each message after its length (RFC 7766).
    Tcp,
    /// TLS: each message after its length (RFC 7858).
    Tls,
    /// HTTP/2 in TLS: a stream for each message (RFC 8484).
    Https,
    /// QUIC: a stream for each message (RFC 9250).
    Quic,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Tcp, Self::Tls, Self::Https, Self::Quic];

    /// Its name in reports, and as a transport of `kqps load`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Https => "https",
            Self::Quic => "quic",
        }
    }

    /// Whether each message has a stream of its own, which can end alone.
    pub fn has_streams(self) -> bool {
        matches!(self, Self::Https | Self::Quic)
    }
}
