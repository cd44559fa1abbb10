//! The settings of a client, and what makes the TLS of its connections.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{
    ClientConfig, Resumption, Tls12Resumption, UnbufferedClientConnection, WebPkiServerVerifier,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{DEFAULT_VERSIONS, RootCertStore, SupportedProtocolVersion};
use serde::{Deserialize, Serialize};

use crate::ALPN;
use crate::connection::ClientTls;
use crate::error::TlsError;
use crate::failure::Failure;
use crate::offer::{Group, Suite, provider};
use crate::tickets::{OfClient, TicketCounts, Tickets};
use crate::verifiers::{OfType, Trusting, Unchecked};
use kqps_catalogue::choice::KeyType;

/// How a client speaks TLS. It can be sent to another process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientSettings {
    /// The certificates that the client accepts.
    pub trust: Trust,
    /// Whether connections resume sessions by the tickets of earlier ones (RFC 8446, section 2.2).
    pub resume: bool,
    /// The suites that it offers, the best first; empty for all usual ones.
    pub suites: Vec<Suite>,
    /// The groups that it offers, the best first; empty for all usual ones.
    pub groups: Vec<Group>,
    /// The type of key that it wants in the server's certificate, so that it offers the signatures of this type alone
    /// (RFC 8446, section 4.2.3); `None` for any.
    #[serde(default)]
    pub certificate: Option<KeyType>,
    /// Whether queries may leave before the handshake of a resumed connection is complete (0-RTT), if a ticket allows
    /// it.
    #[serde(default)]
    pub early_data: bool,
}

impl ClientSettings {
    /// The settings of a client that offers all usual suites and groups, and sends no early data.
    pub fn new(trust: Trust, resume: bool) -> Self {
        Self { trust, resume, suites: Vec::new(), groups: Vec::new(), certificate: None, early_data: false }
    }
}

/// The certificates that a client accepts. Their names, dates and signatures are checked in any case but the last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// Certificates of issuers that this host trusts.
    System,
    /// Certificates of the issuers in this text, as PEM, and the certificates in the text itself, such as one that
    /// signs itself.
    Ca(String),
    /// Any certificate. The client then does not know which server it speaks to.
    Anyone,
}

/// A client, before it connects. Its threads share what is checked and offered.
pub struct Client {
    config: ClientConfig,
    resume: bool,
}

/// Begins the TLS of one thread's connections to one server. Clones share their tickets.
#[derive(Clone)]
pub struct Connector {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    tickets: Arc<Tickets>,
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

    pub(crate) fn of_versions(
        protocol: &[u8],
        versions: &[&'static SupportedProtocolVersion],
        settings: &ClientSettings,
    ) -> Result<Self, TlsError> {
        let provider = Arc::new(provider(&settings.suites, &settings.groups, settings.certificate));
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(TlsError::Settings)?
            .dangerous()
            .with_custom_certificate_verifier(verifier(settings, &provider)?)
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        config.enable_early_data = settings.early_data;
        config.resumption = Resumption::disabled();
        Ok(Self { config, resume: settings.resume })
    }

    /// Makes the client offer this application protocol (ALPN) instead of DNS over TLS.
    #[must_use]
    pub fn speaking(mut self, protocol: &[u8]) -> Self {
        self.config.alpn_protocols = vec![protocol.to_vec()];
        self
    }

    /// Returns a connector, by which the calling thread connects to the server of this name. It keeps `tickets` tickets
    /// at most, of all clients together; if sessions are not resumed, it only counts them. The first handshake of a
    /// thread seeds its random numbers, which takes some 10 ms, so one is begun here and forgotten.
    pub fn connector(&self, name: ServerName<'static>, tickets: usize) -> Connector {
        let tickets = Arc::new(Tickets::new(if self.resume { tickets } else { 0 }));
        let mut config = self.config.clone();
        config.resumption = of_client(&tickets, None);
        let connector = Connector { config: Arc::new(config), name, tickets };
        // If it fails, so do the others, each with its reason.
        let _ = connector.connect(&mut Vec::new());
        connector
    }
}

/// The tickets that the connections of a client may use. If none are kept, none are asked for either, as far as rustls
/// allows: over TLS 1.3 it always sends `psk_key_exchange_modes` (RFC 8446, section 4.2.9).
fn of_client(tickets: &Arc<Tickets>, client: Option<IpAddr>) -> Resumption {
    let tls12 = if tickets.keeps() { Tls12Resumption::SessionIdOrTickets } else { Tls12Resumption::Disabled };
    let store = Arc::new(OfClient { tickets: Arc::clone(tickets), client });
    Resumption::store(store).tls12_resumption(tls12)
}

impl Connector {
    /// Begins a handshake, whose first bytes it appends to `outgoing`. It offers no early data.
    pub fn connect(&self, outgoing: &mut Vec<u8>) -> Result<ClientTls, Failure> {
        self.connect_from(None, false, outgoing)
    }

    /// Begins a handshake like [`Self::connect`], for a client with this address, whose tickets are its own, or for a
    /// client without a known address. All of the latter share their tickets. With `is_early` it offers early data, if
    /// the settings and a ticket allow it.
    pub fn connect_from(
        &self,
        client: Option<IpAddr>,
        is_early: bool,
        outgoing: &mut Vec<u8>,
    ) -> Result<ClientTls, Failure> {
        let is_early = is_early && self.config.enable_early_data;
        let side = UnbufferedClientConnection::new(self.config_of(client, is_early), self.name.clone())?;
        let early_bytes = self.tickets.take_early_bytes();
        ClientTls::begin(side, if is_early { early_bytes as usize } else { 0 }, outgoing)
    }

    /// The settings for a client's connection, and the name, for TLS that another protocol carries. It offers early
    /// data as the client's settings say.
    pub fn parts(&self, client: Option<IpAddr>) -> (Arc<ClientConfig>, ServerName<'static>) {
        (self.config_of(client, self.config.enable_early_data), self.name.clone())
    }

    /// The settings for a connection of a client.
    fn config_of(&self, client: Option<IpAddr>, is_early: bool) -> Arc<ClientConfig> {
        if client.is_none() && is_early == self.config.enable_early_data {
            return Arc::clone(&self.config);
        }
        let mut config = (*self.config).clone();
        config.enable_early_data = is_early;
        config.resumption = of_client(&self.tickets, client);
        Arc::new(config)
    }

    /// The counts of tickets so far.
    pub fn tickets(&self) -> TicketCounts {
        self.tickets.counts()
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

/// Makes the verifier of certificates.
fn verifier(
    settings: &ClientSettings,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
    let of_any_type: Arc<dyn ServerCertVerifier> = match &settings.trust {
        Trust::System => {
            let roots = Arc::new(roots_of_system()?);
            let builder = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider));
            builder.build().map_err(|error| TlsError::NoRoots(format!(" ({error})")))?
        }
        Trust::Ca(text) => Arc::new(trusting(text, provider)?),
        Trust::Anyone => Arc::new(Unchecked::new(provider)),
    };
    Ok(match settings.certificate {
        Some(key) => Arc::new(OfType::new(of_any_type, key)),
        None => of_any_type,
    })
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

/// Makes a verifier that accepts the certificates of a text, and certificates of the issuers in it.
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Makes the verifier of certificates by these settings.
    pub(crate) fn verifier_of(settings: &ClientSettings) -> Arc<dyn ServerCertVerifier> {
        let provider = provider(&settings.suites, &settings.groups, settings.certificate);
        verifier(settings, &Arc::new(provider)).unwrap()
    }
}
