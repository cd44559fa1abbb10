//! Faults in known numbers: the relay between a player and its subject, the server on connections, the back end behind a
//! front, servers that count attackers, a server of known capacity, and a server that replies as a test says.
//!
//! For: tests and proofs, which compare what kqps counted with what happened. Not for: anything that a user of kqps
//! needs, nor for judging whether the counts agree (`proofs`).
//!
//! Invariant: it counts every fault that it makes, to the last packet, and says when its counts are in doubt.

#[macro_use]
mod table;

pub mod back_end;
pub mod capped;
pub mod counting;
pub mod relay;
pub mod scripted;
mod shares;
pub mod streams;
pub mod thread;
