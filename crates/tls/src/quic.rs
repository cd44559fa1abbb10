//! TLS for QUIC (RFC 9001), which has no TLS but 1.3.

use std::sync::Arc;

use rustls::version::TLS13;

use crate::client::{Client, ClientSettings};
use crate::error::TlsError;
use crate::server::{Acceptor, Identity, config, resume_by_tickets, take_early_data};

/// The name of DNS over QUIC in ALPN (RFC 9250, section 4.1.1).
const ALPN: &[u8] = b"doq";

impl Client {
    /// A client over QUIC (RFC 9250).
    pub fn over_quic(settings: &ClientSettings) -> Result<Self, TlsError> {
        let suites = &settings.suites;
        if !suites.is_empty() && !suites.iter().any(|suite| suite.is_of_tls13()) {
            return Err(TlsError::SuitesForQuic(suites.clone()));
        }
        Self::of_versions(ALPN, &[&TLS13], settings)
    }
}

impl Acceptor {
    /// A server over QUIC (RFC 9250) with this identity, which accepts clients with ALPN `doq` alone. If it takes early
    /// data, it keeps its sessions itself, so that each is resumed once and nothing can be replayed.
    pub fn over_quic(identity: &Identity, takes_early_data: bool) -> Result<Self, TlsError> {
        let mut config = config(ALPN, &[&TLS13], identity)?;
        if takes_early_data {
            // QUIC has its own limits of data (RFC 9001, section 4.6.1).
            take_early_data(&mut config, u32::MAX);
        } else {
            resume_by_tickets(&mut config)?;
        }
        Ok(Self { config: Arc::new(config) })
    }
}
