//! Errors of settings, before any connection. Each message includes the error below it, so no error has a `source`
//! beside it.

use std::io;
use std::path::PathBuf;

use crate::offer::Suite;

/// Why a client or a server of TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The name of a server is neither an address nor a name of DNS.
    #[error("`{0}` is no name of a server: expected a DNS name or an address")]
    Name(String),
    /// The host has no certificates that it trusts.
    #[error(
        "this host has no store of trusted certificates that could be read{0}; name a file of them with --ca"
    )]
    NoRoots(String),
    /// A text that should hold certificates holds none, or bad ones.
    #[error("{what}: {reason}")]
    Pem {
        /// The kind of text.
        what: &'static str,
        /// Why the text is bad.
        reason: String,
    },
    /// A file could not be read.
    #[error("cannot read {}: {error}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The suites are of TLS 1.2 alone, and QUIC has none of them (RFC 9001, section 4.2).
    #[error(
        "QUIC needs a suite of TLS 1.3, such as TLS_AES_128_GCM_SHA256; of TLS 1.2 alone: {}",
        .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    SuitesForQuic(Vec<Suite>),
    /// The settings do not go together, such as a suite of TLS 1.2 with a group of TLS 1.3.
    #[error("these settings of TLS cannot be used together: {0}")]
    Settings(rustls::Error),
    /// A certificate could not be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(rcgen::Error),
}

impl From<rcgen::Error> for TlsError {
    fn from(error: rcgen::Error) -> Self {
        Self::Certificate(error)
    }
}
