//! The events of a capture: messages, and the ends of connections.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

/// The next event of the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A query or a response.
    Message(Message<'a>),
    /// A connection ended: by FIN or RST, after a long silence, or for lack of memory. It had at least one message.
    Closed {
        /// When, in nanoseconds of Unix time.
        at_ns: u64,
        /// The connection's number, as in [`Message::connection`].
        connection: u64,
    },
}

/// A query or a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// When it was captured, in nanoseconds of Unix time, unless [`Counts::steps`](crate::Counts::steps) or
    /// [`Counts::strays`](crate::Counts::strays) say that the clock was wrong. A message over TCP was captured with its
    /// last byte. A packet without a time, which pcapng allows, has the time of the packet before it.
    pub at_ns: u64,
    /// Whether it is a query or a response.
    pub kind: Kind,
    /// The client's address and port.
    pub client: SocketAddr,
    /// The server's address and port.
    pub server: SocketAddr,
    /// The transport that it came by.
    pub transport: Transport,
    /// The number of its connection, counted from 0 over the whole capture; `None` over UDP.
    pub connection: Option<u64>,
    /// The message, without the length that precedes it on connections.
    pub bytes: &'a [u8],
}

/// The two kinds of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// QR is 0, and it goes to a server.
    Query,
    /// QR is 1, and it comes from a server.
    Response,
}

/// The transport of a message. Packets show UDP and TCP; dnstap records the others as well. Stored captures have the
/// number of a transport, so the order stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// DNS over TLS (RFC 7858).
    Tls,
    /// DNS over HTTPS (RFC 8484).
    Https,
    /// DNS over QUIC (RFC 9250).
    Quic,
}

impl Transport {
    /// All of them, by [`Self::number`].
    pub const ALL: [Self; 5] = [Self::Udp, Self::Tcp, Self::Tls, Self::Https, Self::Quic];

    /// The index among [`Self::ALL`].
    #[inline]
    pub const fn number(self) -> usize {
        self as usize
    }

    /// The index as a byte.
    pub fn byte(self) -> u8 {
        self as u8
    }

    /// The word for the transport, as it is serialised.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The port of a server without another one.
    pub(crate) const fn usual_port(self) -> u16 {
        match self {
            Self::Udp | Self::Tcp => 53,
            Self::Tls | Self::Quic => 853,
            Self::Https => 443,
        }
    }
}

/// A message without its bytes.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    pub(crate) at_ns: u64,
    pub(crate) kind: Kind,
    pub(crate) client: SocketAddr,
    pub(crate) server: SocketAddr,
    pub(crate) transport: Transport,
    pub(crate) connection: Option<u64>,
}

impl Head {
    pub(crate) fn with(self, bytes: &[u8]) -> Event<'_> {
        let Self { at_ns, kind, client, server, transport, connection } = self;
        Event::Message(Message { at_ns, kind, client, server, transport, connection, bytes })
    }
}
