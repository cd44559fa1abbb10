//! TCP for very many short connections (RFC 9293), from the side that opens them.
//!
//! What is done, and by which standard:
//!
//! - All states of RFC 9293 but LISTEN, with simultaneous opening and closing, and half-closed connections.
//! - Retransmission of SYN, data and FIN by one timer for each connection (RFC 6298), counted by kind.
//! - The options MSS (RFC 6691), window scale and timestamps (RFC 7323). Timestamps are those of the caller's clock, so
//!   that a server in `TIME_WAIT` takes a port again at once (RFC 6191), also from a program that started later.
//! - The peer's window is obeyed, and a window of zero is probed. Our own window is always open: the caller takes data
//!   as it arrives, and only what arrives out of order is held, up to a limit.
//! - A reset within the window must have the exact number. Others, and SYNs, get a challenge ACK (RFC 5961).
//! - ACKs wait for data or a FIN to go with, for a time that is set.
//! - Nothing is kept in `TIME_WAIT`, since the caller does not use a pair of ports again soon. A peer that sends its
//!   FIN once more still gets its ACK: the last pairs that ended are remembered in 16 bytes each.
//!
//! What is not done, and why:
//!
//! - Congestion control beyond slow start from ten segments (RFC 6928): a query and its reply fit the first window, and
//!   a benchmark must not slow down for the losses that it measures. After a timeout one segment is sent, and slow
//!   start begins again.
//! - Fast retransmission and selective ACKs: nothing follows a query that would bring duplicate ACKs.
//! - Nagle's algorithm, keep-alive, urgent data and the discovery of an MTU: no query needs them.

mod arrival;
mod connections;
mod counts;
mod emit;
mod ended;
mod expire;
mod pair;
mod pool;
mod reassembly;
mod receive;
mod rto;
mod segment;
mod sequence;
mod settings;
mod shared;
mod table;
mod tcb;
mod wheel;

pub use arrival::{Arrival, End, Id};
pub use connections::{Close, ConnectError, Connections, Sent, Status, TimedOut};
pub use counts::{Counts, Phase, Retransmitted};
pub use segment::{Flags, Header, Options, Segment, header_bytes, write};
pub use settings::Settings;
pub use tcb::State;
