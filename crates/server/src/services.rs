//! The services of the servers in this crate: what they do with queries.

pub mod auth;
pub mod echo;
pub mod internet;
