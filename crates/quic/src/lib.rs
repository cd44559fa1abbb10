//! DNS over QUIC (RFC 9250) without sockets: datagrams in, messages out, and back. It holds what player and server
//! share: the transport by quinn-proto, its handshakes by rustls, one stream for each query, and why a connection
//! ended.
//!
//! For: datagrams that a loop receives and sends itself. Not for: sockets, waiting, or deciding an answer.
//!
//! Invariant: no socket, no wait, and no reading of a clock: the caller passes the time, in nanoseconds of a clock that
//! never goes back. A certificate is accepted without a check only if the settings say so.

pub mod client;
mod clock;
pub mod code;
pub mod end;
mod frames;
pub mod server;
mod session;
pub mod timers;
pub mod transport;

/// The port of DNS over QUIC (RFC 9250, section 8.2).
pub const PORT: u16 = 853;

/// Datagrams of one message that is sent in segments, at most: together they are shorter than a packet can be.
pub const SEGMENTS_MOST: usize = 48;

pub use client::{Client, ClientCounts, ClientEvent, EarlyData};
pub use end::End;
pub use kqps_catalogue::choice::Congestion;
pub use server::{Admission, QueryKey, Reply, Responder, Server, ServerEvent, Transmission};
pub use timers::Timers;
