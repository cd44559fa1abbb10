//! DNS over TLS (RFC 7858, RFC 8310) without sockets: records in, messages out, and back. It holds what player and
//! server share: a connection's TLS, the settings of a client with its tickets, and a server's certificate.
//!
//! For: bytes that a loop reads and writes itself. Not for: sockets, waiting, or the framing of messages.
//!
//! Invariant: no socket, no wait, and one provider of cryptography (aws-lc-rs), which is named where it is used. A
//! certificate is accepted without a check only if the settings say so.

pub mod certificate;
pub mod client;
pub mod connection;
pub mod error;
pub mod failure;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod key;
mod last_flight;
pub mod offer;
mod quic;
pub mod server;
pub mod session;
mod sessions;
mod skipped;
mod tickets;
mod verifiers;

/// The name of DNS over TLS in ALPN (RFC 7858 by way of the IANA registry of protocol IDs).
pub const ALPN: &[u8] = b"dot";

/// The port of DNS over TLS (RFC 7858, section 3.1).
pub const PORT: u16 = 853;

pub use client::{Client, ClientSettings, Connector, Trust};
pub use connection::{ClientTls, Early, Peer, ServerTls, Tls};
pub use error::TlsError;
pub use failure::Failure;
pub use offer::{Group, Suite};
pub use server::{Acceptor, Identity};
pub use session::{Kind, Session};
pub use tickets::TicketCounts;
