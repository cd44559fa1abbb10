//! Answers of a cache after a reply, at the boundary of bytes: each rule of an RFC by an example.

mod cacheability;
mod chain;
mod edns;
mod failures;
mod model;
mod negative;
mod purpose;
mod support;
mod ttl;
