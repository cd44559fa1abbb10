//! The part of a network stack that is needed past the kernel: frames, and TCP for very many short connections.
//!
//! For: reading, writing and turning round Ethernet frames with UDP or TCP over IPv4 or IPv6, and the side of TCP that
//! opens connections. Not for: ARP, neighbour discovery, ICMP, routes and fragments, which stay with the kernel;
//! sockets and rings; accepting connections.
//!
//! Invariant: no socket, no clock and no wait. Bytes go in and come out, and the caller passes the time. Nothing is
//! allocated for a frame or a segment, and no bytes of a peer cause a panic.

pub mod checksum;
mod ends;
mod headers;
mod parsed;
pub mod tcp;
mod turn;
pub mod udp;

pub use ends::{Ends, Path};
pub use headers::Protocol;
pub use parsed::{Parsed, parse};
pub use turn::turn_round;
