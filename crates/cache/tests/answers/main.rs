//! Answers of a cache after a reply, at the boundary of bytes: each rule of an RFC by an example.

mod chain;
mod edns;
mod failures;
mod kept;
mod model;
mod negative;
mod purpose;
mod support;
mod ttl;
