//! A server's certificate and key, and what makes the TLS of its connections.

use std::path::Path;
use std::sync::Arc;
use std::{fmt, fs};

use rustls::crypto::aws_lc_rs::{Ticketer, default_provider};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, ServerConfig, UnbufferedServerConnection};
use rustls::{DEFAULT_VERSIONS, SupportedProtocolVersion};
use serde::{Deserialize, Serialize};

use crate::ALPN;
use crate::connection::{ServerTls, Tls};
use crate::error::TlsError;
use crate::failure::Failure;
use crate::sessions::Sessions;

/// A server's certificate with those of its issuers, and its key, all as PEM. It can be sent to another process.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The certificates, the server's own first.
    pub chain: String,
    /// The key.
    pub key: String,
}

impl Identity {
    /// Reads a certificate and its key from files.
    pub fn read(chain: &Path, key: &Path) -> Result<Self, TlsError> {
        let read = |path: &Path| {
            fs::read_to_string(path).map_err(|error| TlsError::File { path: path.to_owned(), error })
        };
        Ok(Self { chain: read(chain)?, key: read(key)? })
    }
}

impl fmt::Debug for Identity {
    /// Shows nothing of the key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Identity").field("chain", &self.chain).finish_non_exhaustive()
    }
}

/// Accepts the TLS of a server's connections. Threads share it, and with it the key of tickets.
#[derive(Clone)]
pub struct Acceptor {
    pub(crate) config: Arc<ServerConfig>,
}

impl Acceptor {
    /// A server with this identity. Its tickets resume sessions, it takes no early data, and accepts clients with ALPN
    /// `dot` and without ALPN.
    pub fn new(identity: &Identity) -> Result<Self, TlsError> {
        Self::speaking(ALPN, identity)
    }

    /// A server like [`Self::new`], with another protocol than `dot`.
    pub fn speaking(protocol: &[u8], identity: &Identity) -> Result<Self, TlsError> {
        Self::over_tcp(protocol, identity, false)
    }

    /// A server over TCP with this protocol and identity. If it takes early data, it keeps its sessions itself, so that
    /// each one of TLS 1.3 is resumed once and nothing can be replayed, and it may answer before the handshake is
    /// complete. TLS 1.2 has no early data.
    pub fn over_tcp(protocol: &[u8], identity: &Identity, takes_early_data: bool) -> Result<Self, TlsError> {
        let mut config = config(protocol, DEFAULT_VERSIONS, identity)?;
        if takes_early_data {
            take_early_data(&mut config, EARLY_BYTES);
            config.send_half_rtt_data = true;
        } else {
            resume_by_tickets(&mut config)?;
        }
        Ok(Self { config: Arc::new(config) })
    }

    /// A server like [`Self::new`], without an application protocol: the handshake agrees on none, whatever the client
    /// offers.
    pub fn without_protocol(identity: &Identity) -> Result<Self, TlsError> {
        let mut config = config(ALPN, DEFAULT_VERSIONS, identity)?;
        config.alpn_protocols.clear();
        resume_by_tickets(&mut config)?;
        Ok(Self { config: Arc::new(config) })
    }

    /// The settings, for TLS that another protocol carries.
    pub fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }

    /// The TLS of a connection that was just accepted.
    pub fn accept(&self) -> Result<ServerTls, Failure> {
        Ok(Tls::new(UnbufferedServerConnection::new(Arc::clone(&self.config))?))
    }
}

/// Sessions that a server keeps at most.
const SESSIONS: usize = 1 << 16;

/// Bytes of early data that a connection over TCP may have: a record in full.
const EARLY_BYTES: u32 = 1 << 14;

/// Keeps sessions, and takes so many bytes of early data on each connection that resumes one.
pub(crate) fn take_early_data(config: &mut ServerConfig, bytes: u32) {
    config.session_storage = Arc::new(Sessions::new(SESSIONS));
    config.max_early_data_size = bytes;
}

/// Keeps no sessions: clients keep them, in tickets that this server can read.
pub(crate) fn resume_by_tickets(config: &mut ServerConfig) -> Result<(), TlsError> {
    config.ticketer = Ticketer::new().map_err(TlsError::Settings)?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(())
}

/// The settings of a server with this identity that speaks one application protocol.
pub(crate) fn config(
    protocol: &[u8],
    versions: &[&'static SupportedProtocolVersion],
    identity: &Identity,
) -> Result<ServerConfig, TlsError> {
    let wrong = |what| move |error: pem::Error| TlsError::Pem { what, reason: error.to_string() };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(identity.chain.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(wrong("the certificate"))?;
    let unfit = |reason: String| TlsError::Pem { what: "the certificate and its key", reason };
    if chain.is_empty() {
        return Err(unfit("expected a certificate at least, as PEM".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).map_err(wrong("the key"))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(versions)
        .map_err(TlsError::Settings)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| unfit(error.to_string()))?;
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(config)
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Acceptor").finish_non_exhaustive()
    }
}
