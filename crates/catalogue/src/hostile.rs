//! Kinds of connection that only attackers make.

use crate::choice::{Transport, choice};

choice! {
    /// A kind of connection that only attackers make.
    Hostile {
        /// Connections on which nothing is sent, and which are held.
        #[default]
        Idle = "idle",
        /// Connections that are held after the first half of a query.
        Half = "half",
        /// Connections on which a query is sent at one byte a second.
        Slow = "slow",
        /// Handshakes of TLS or QUIC, after which nothing is sent, and the connection is held.
        Handshake = "handshake",
        /// Connections that are reset as soon as they are made.
        Reset = "reset",
        /// Streams of HTTP/2 that are reset as soon as they are opened: the rapid reset.
        Streams = "streams",
        /// First datagrams of QUIC, whose client never goes on.
        Initials = "initials",
    }
}

impl Hostile {
    /// The transports over which it makes sense.
    pub fn over(self) -> &'static [Transport] {
        match self {
            Self::Idle | Self::Reset => &[Transport::Tcp, Transport::Tls, Transport::Https],
            Self::Half | Self::Slow => &[Transport::Tcp, Transport::Tls],
            Self::Handshake => &[Transport::Tls, Transport::Https, Transport::Quic],
            Self::Streams => &[Transport::Https],
            Self::Initials => &[Transport::Quic],
        }
    }

    /// Whether it sends bytes of queries.
    pub fn has_queries(self) -> bool {
        matches!(self, Self::Half | Self::Slow)
    }

    /// Whether its connections are held until the server ends them, or the load does.
    pub fn is_held(self) -> bool {
        matches!(self, Self::Idle | Self::Half | Self::Slow | Self::Handshake)
    }

    /// Whether an attempt is a connection. Otherwise it is a stream, of which a connection has many.
    pub fn is_connection(self) -> bool {
        self != Self::Streams
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_transport_and_none_is_udp() {
        for kind in Hostile::ALL {
            assert!(!kind.over().is_empty() && !kind.over().contains(&Transport::Udp), "{}", kind.word());
            assert_eq!(kind.word().parse(), Ok(kind));
        }
        assert!(Hostile::ALL.into_iter().all(|kind| !kind.is_held() || kind.is_connection()));
    }
}
