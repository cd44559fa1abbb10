//! Means of the fuzz targets and of tests to break the rules of TLS: clients that seal records themselves, and a server
//! that takes less early data than its tickets allow.

pub mod sealing;
mod vain;

use std::sync::Arc;

use crate::server::Acceptor;
pub use vain::VainClient;

/// Copies a server with its sessions. The copy's connections take so many bytes of early data, whatever its tickets
/// allow.
pub fn taking(acceptor: &Acceptor, early_bytes: u32) -> Acceptor {
    let mut config = (*acceptor.config).clone();
    config.max_early_data_size = early_bytes;
    Acceptor { config: Arc::new(config) }
}
