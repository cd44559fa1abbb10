//! DNS over HTTPS (RFC 8484) by HTTP/2 (RFC 9113) without sockets: bytes of a connection in, messages out, and back. It
//! holds what player and server share: a client's session with its requests, and a server's session with its responses.
//!
//! For: bytes that a loop reads and writes itself, on their way to TLS or from it. Not for: sockets, waiting, TLS, or
//! the contents of a DNS message.
//!
//! Invariant: no socket, no wait, no runtime. The library that frames (`h2`) is named in this crate and in no other,
//! and none of its types is in a signature, so that other framing could replace it.

mod bells;
mod client;
mod failure;
mod memory;
mod requests;
mod resets;
mod server;
mod slots;
#[cfg(test)]
mod tests;
mod values;

/// The name of HTTP/2 in ALPN (RFC 9113, section 3.2).
pub const ALPN: &[u8] = b"h2";

/// The port of HTTPS.
pub const PORT: u16 = 443;

/// The path of DNS over HTTPS unless a URL has another one. The examples of RFC 8484, section 4.1.1, have it.
pub const PATH: &str = "/dns-query";

/// The longest DNS message in bytes.
const MESSAGE_BYTES: usize = u16::MAX as usize;

/// The bytes of a DNS message's header (RFC 1035, section 4.1.1). A shorter message is malformed.
const HEADER_BYTES: usize = 12;

pub use client::{ClientSession, Fate};
pub use failure::Failure;
pub use kqps_catalogue::choice::Method;
pub use requests::{BadTarget, Requests, authority};
pub use resets::{ResetSession, ServerFrame, TooLong};
pub use server::{Peer, ServerEvent, ServerSession};
pub use values::Values;
