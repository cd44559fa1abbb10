//! Wires that carry messages, and the certificates of a server in TLS: a right one, and those that no player accepts.

use anyhow::Result;
use kqps_tls::certificate::{KeyType, make, make_valid};
use kqps_tls::{Acceptor, Identity, ServerTls};

use super::fault::Fault;
use super::kind::Kind;

/// The name of HTTP/2 in ALPN (RFC 9113, section 3.2).
const ALPN_HTTP: &[u8] = b"h2";

/// The protocol of a server's connections, with the certificates that it needs for that.
#[derive(Clone, Debug)]
pub enum Wire {
    /// Messages, each after its length (RFC 7766).
    Tcp,
    /// Messages in TLS, each after its length (RFC 7858).
    Tls(Box<Certificates>),
    /// HTTP/2 in TLS (RFC 8484).
    Https(Box<Certificates>),
    /// QUIC (RFC 9250).
    Quic(Box<Certificates>),
}

/// The certificates of a server.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The issuers that a player must trust, as PEM. That of [`Fault::UnknownIssuer`] is not among them.
    pub ca: String,
    right: Acceptor,
    other_name: Acceptor,
    expired: Acceptor,
    unknown: Acceptor,
    /// With the right certificate, and without an application protocol.
    without_protocol: Acceptor,
}

impl Certificates {
    /// Makes certificates for a server of this name on this wire.
    pub fn make(kind: Kind, name: &str) -> Result<Self> {
        let names = [name.to_owned()];
        let (right, unknown) = (make(KeyType::Ecdsa, &names)?, make(KeyType::Ecdsa, &names)?);
        let other_name = make(KeyType::Ecdsa, &[format!("not-{name}")])?;
        let expired = make_valid(KeyType::Ecdsa, &names, -9..-2)?;
        let acceptor = |identity: &Identity| match kind {
            Kind::Tcp | Kind::Tls => Acceptor::new(identity),
            Kind::Https => Acceptor::speaking(ALPN_HTTP, identity),
            Kind::Quic => Acceptor::over_quic(identity, false),
        };
        Ok(Self {
            ca: [&right, &other_name, &expired].map(|made| made.ca.as_str()).concat(),
            right: acceptor(&right.identity)?,
            other_name: acceptor(&other_name.identity)?,
            expired: acceptor(&expired.identity)?,
            unknown: acceptor(&unknown.identity)?,
            without_protocol: Acceptor::without_protocol(&right.identity)?,
        })
    }

    /// The acceptor for a connection whose handshake has this fault.
    pub(super) fn acceptor(&self, fault: Option<Fault>) -> &Acceptor {
        match fault {
            Some(Fault::OtherName) => &self.other_name,
            Some(Fault::Expired) => &self.expired,
            Some(Fault::UnknownIssuer) => &self.unknown,
            Some(Fault::NoAlpn) => &self.without_protocol,
            _ => &self.right,
        }
    }
}

impl Wire {
    /// Its name.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Tcp => Kind::Tcp,
            Self::Tls(_) => Kind::Tls,
            Self::Https(_) => Kind::Https,
            Self::Quic(_) => Kind::Quic,
        }
    }

    /// The TLS of a connection of TCP whose handshake has this fault; `None` without TLS.
    pub(super) fn accept(&self, fault: Option<Fault>) -> Result<Option<ServerTls>> {
        let (Self::Tls(certificates) | Self::Https(certificates)) = self else { return Ok(None) };
        let accepted = certificates.acceptor(fault).accept();
        accepted.map(Some).map_err(|failure| anyhow::anyhow!("{failure}"))
    }
}
