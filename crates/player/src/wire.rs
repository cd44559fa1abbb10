//! How queries travel: one module for each wire.

pub mod udp;
