//! A small HTTP server for what a running kqps shows: pages, counts for Prometheus, and streams of events.
//!
//! For: `GET` of a few paths, by a bounded number of clients. Not for: DNS over HTTPS (`http`), nor for what a path
//! shows, which its [`Site`] says.
//!
//! Invariant: no client costs the program more than one thread of the lowest priority, its answer and a few seconds of
//! waiting. Bytes that are no request get status 400, and a client that reads too slowly is dropped.

mod answer;
mod exposition;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod request;
mod server;

pub use answer::{Answer, Events, Next};
pub use exposition::exposition;
pub use server::{CLIENTS_MOST, STREAMS_MOST, Serving, Site, serve};
