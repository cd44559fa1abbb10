//! The answers that a caching server keeps: whole replies by question, in memory with a bound.
//!
//! For: checking a reply before it is used or kept, answering a query in its own buffer with TTLs that count down,
//! negative answers, failures, stale answers, what to drop when memory is full, parts of chains of aliases, which answer
//! no query, and joining them into one answer. Not for: sockets, asking upstream servers, or validation.
//!
//! Invariant: an answer is a function of what was put in and of the time that is handed in. There is no socket, no
//! clock and no thread. Memory stays within its bound whatever is put in, and a hit allocates nothing.

mod answered;
mod arena;
mod bailiwick;
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

pub use answered::{Answered, Failure, Purpose, Put, Why};
pub use bailiwick::Bailiwick;
pub use compose::{ALIASES_MOST, Reply};
pub use counts::Counts;
pub use key::{Key, Question};
pub use query::Form;
pub use settings::{Settings, Stale};
pub use shared::Shared;
