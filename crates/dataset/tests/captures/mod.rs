//! Captures with known gaps, clients, connections and responses, compiled and read back.

mod bench;
mod clients;
mod connections;
mod files;
mod messages;
mod responses;
mod times;
