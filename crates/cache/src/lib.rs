//! What a caching server keeps of the answers it got: whole replies by question, in memory with a bound.
//!
//! For: checking a reply before it is kept, answering a query in its own buffer with TTLs that count down, negative
//! answers, failures, stale answers, and what to drop when memory is full. Not for: sockets, asking upstream servers,
//! validation, or joining answers to different questions: a reply answers the question that it was given for.
//!
//! Invariant: an answer is a function of what was put in and of the time that is handed in. There is no socket, no
//! clock and no thread. Memory stays within its bound whatever is put in, and a hit allocates nothing.

mod answered;
mod arena;
mod block;
mod cache;
mod compose;
mod counts;
mod ghost;
mod index;
mod key;
mod query;
mod queue;
mod settings;
mod shared;
mod store;

pub use answered::{Answered, Put, Why};
pub use cache::Cache;
pub use counts::Counts;
pub use key::Question;
pub use settings::{Settings, Stale};
pub use shared::Shared;
