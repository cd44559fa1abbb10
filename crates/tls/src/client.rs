//! The settings of a client, and what makes the TLS of its connections.

use std::fmt;
use std::sync::Arc;

use rustls::client::{ClientConfig, Resumption, UnbufferedClientConnection};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::TLS13;
use rustls::{DEFAULT_VERSIONS, RootCertStore, SupportedProtocolVersion};
use serde::{Deserialize, Serialize};

use crate::connection::{ClientTls, Tls};
use crate::error::TlsError;
use crate::failure::Failure;
use crate::offer::{Group, Suite, provider};
use crate::tickets::{TicketCounts, Tickets};
use crate::verifiers::{Trusting, Unchecked};
use crate::{ALPN, ALPN_QUIC};

/// How a client speaks TLS. It can be sent to another process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientSettings {
    /// Which certificates the client accepts.
    pub trust: Trust,
    /// Whether connections resume sessions by the tickets of earlier ones (RFC 8446, section 2.2).
    pub resume: bool,
    /// The suites that it offers, the best first; empty for all usual ones.
    pub suites: Vec<Suite>,
    /// The groups that it offers, the best first; empty for all usual ones.
    pub groups: Vec<Group>,
}

/// Which certificates a client accepts. Their names, dates and signatures are checked in any case but the last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// Those of issuers that this host trusts.
    System,
    /// Those of the issuers in this text, as PEM, and those in the text itself, such as one that signs itself.
    Ca(String),
    /// Any certificate. The client then does not know which server it speaks to.
    Anyone,
}

/// A client, before it connects. Its threads share what is checked and offered.
pub struct Client {
    config: ClientConfig,
    resume: bool,
}

/// What makes the TLS of one thread's connections to one server.
pub struct Connector {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    tickets: Option<Arc<Tickets>>,
}

/// The name of a server in its certificate: a DNS name or an address.
pub fn server_name(text: &str) -> Result<ServerName<'static>, TlsError> {
    let name = text.strip_suffix('.').unwrap_or(text).to_owned();
    ServerName::try_from(name).map_err(|_| TlsError::Name(text.to_owned()))
}

impl Client {
    /// A client with these settings. Reads the host's store of certificates if it needs it.
    pub fn new(settings: &ClientSettings) -> Result<Self, TlsError> {
        Self::of_versions(ALPN, DEFAULT_VERSIONS, settings)
    }

    /// A client over QUIC (RFC 9250), which has no TLS but 1.3. With `sends_early_data` its connections may send
    /// queries before their handshake is complete, if a ticket allows it.
    pub fn over_quic(settings: &ClientSettings, sends_early_data: bool) -> Result<Self, TlsError> {
        let mut client = Self::of_versions(ALPN_QUIC, &[&TLS13], settings)?;
        client.config.enable_early_data = sends_early_data;
        Ok(client)
    }

    fn of_versions(
        protocol: &[u8],
        versions: &[&'static SupportedProtocolVersion],
        settings: &ClientSettings,
    ) -> Result<Self, TlsError> {
        let provider = Arc::new(provider(&settings.suites, &settings.groups));
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(TlsError::Settings)?;
        let builder = match &settings.trust {
            Trust::System => builder.with_root_certificates(roots_of_system()?),
            Trust::Ca(text) => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(trusting(text, &provider)?))
            }
            Trust::Anyone => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(Unchecked::of(&provider)))
            }
        };
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        config.enable_early_data = false;
        config.resumption = Resumption::disabled();
        Ok(Self { config, resume: settings.resume })
    }

    /// The same client, which offers this application protocol (ALPN) instead of DNS over TLS.
    #[must_use]
    pub fn speaking(mut self, protocol: &[u8]) -> Self {
        self.config.alpn_protocols = vec![protocol.to_vec()];
        self
    }

    /// What the calling thread needs to connect to the server of this name. It keeps `tickets` tickets at most. The first
    /// handshake of a thread seeds its random numbers, which takes some 10 ms, so one is begun here and forgotten.
    pub fn connector(&self, name: ServerName<'static>, tickets: usize) -> Connector {
        let first = Connector { config: Arc::new(self.config.clone()), name: name.clone(), tickets: None };
        // If it fails, so do the others, each with its reason.
        let _ = first.connect(&mut Vec::new());
        let mut config = self.config.clone();
        let tickets = self.resume.then(|| Arc::new(Tickets::new(tickets)));
        if let Some(tickets) = &tickets {
            let store = Arc::clone(tickets);
            config.resumption = Resumption::store(store);
        }
        Connector { config: Arc::new(config), name, tickets }
    }
}

impl Connector {
    /// Begins a handshake, whose first bytes it appends to `outgoing`.
    pub fn connect(&self, outgoing: &mut Vec<u8>) -> Result<ClientTls, Failure> {
        let side = UnbufferedClientConnection::new(Arc::clone(&self.config), self.name.clone())?;
        let mut tls = Tls::new(side);
        tls.open(&mut [], &mut Vec::new(), outgoing)?;
        Ok(tls)
    }

    /// The settings and the name, for TLS that another protocol carries.
    pub fn parts(&self) -> (Arc<ClientConfig>, ServerName<'static>) {
        (Arc::clone(&self.config), self.name.clone())
    }

    /// The counts of tickets so far.
    pub fn tickets(&self) -> TicketCounts {
        self.tickets.as_ref().map(|tickets| tickets.counts()).unwrap_or_default()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").field("resume", &self.resume).finish_non_exhaustive()
    }
}

impl fmt::Debug for Connector {
    /// Shows nothing of the tickets.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Connector").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The issuers that this host trusts.
fn roots_of_system() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let reason = found.errors.first().map_or_else(String::new, |error| format!(" ({error})"));
        return Err(TlsError::NoRoots(reason));
    }
    Ok(roots)
}

/// What accepts the certificates of a text, and those of the issuers in it.
fn trusting(text: &str, provider: &Arc<CryptoProvider>) -> Result<Trusting, TlsError> {
    let wrong = |reason: String| TlsError::Pem { what: "the certificates to trust", reason };
    let (mut roots, mut all) = (RootCertStore::empty(), Vec::new());
    for certificate in CertificateDer::pem_slice_iter(text.as_bytes()) {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate.clone()).map_err(|error| wrong(error.to_string()))?;
        all.push(certificate);
    }
    if roots.is_empty() {
        return Err(wrong("expected a certificate at least, as PEM".to_owned()));
    }
    Trusting::new(roots, all, provider).map_err(|error| wrong(error.to_string()))
}
