//! A caching forwarder. Workers answer from the cache in the buffer that a query came in, under every I/O model of
//! `server`. What is not there goes to a resolver, a thread that asks other name servers through `front`.
//!
//! For: deciding from where a query is answered, putting equal questions together, and choosing which answers are kept.
//! Not for: keeping answers (`cache`), links to servers and their health (`front`), or receiving queries (`server`).
//!
//! Invariant: a query that the cache does not answer stands in one place until it has one fate: in its worker's batch,
//! in the inbox of a resolver, or in the list of one question. Only the answer of the server that was asked, to the
//! question that was asked, is kept.
//!
//! - `answer` is what a worker does with a query. `parsed_query` reads the query, and `reply` makes the server's own
//!   replies.
//! - `handoff` takes questions from workers to resolvers, and `resolvers` says to which.
//! - `resolver` is the loop of a resolver, and `asks` its table of questions. [`chase`] follows aliases from zone to
//!   zone. `outgoing` writes what is asked, and `replies` sends datagrams. `key` says which questions are the same.
//! - `store` makes the cache of all workers, or one of each. [`upstreams`] says which servers answer for which zone.
//! - `crew` holds the resolvers, and `service` is the server as `server` sees it. `tally` counts for one thread, and
//!   `overview` for all.

mod answer;
mod asks;
pub mod chase;
mod crew;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod handoff;
mod key;
mod outgoing;
mod overview;
mod parsed_query;
mod replies;
mod reply;
mod resolver;
mod resolvers;
mod service;
mod settings;
mod store;
mod tally;
pub mod upstreams;

pub use service::CacheServer;
pub use settings::{CacheSettings, Sharing};
pub use upstreams::{Stub, Upstreams};
