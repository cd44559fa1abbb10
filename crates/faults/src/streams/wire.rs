//! What carries messages, and the certificates of a server in TLS: a right one, and those that no player accepts.

use anyhow::Result;
use kqps_tls::certificate::{KeyType, Made, make, make_valid};
use kqps_tls::{Acceptor, ServerTls};

use super::fault::Fault;

/// What the connections of a server carry.
#[derive(Clone, Debug)]
pub enum Wire {
    /// Messages, each after its length (RFC 7766).
    Tcp,
    /// The same in TLS (RFC 7858).
    Tls(Box<Certificates>),
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
}

impl Certificates {
    /// Makes certificates for a server of this name.
    pub fn make(name: &str) -> Result<Self> {
        let names = [name.to_owned()];
        let (right, unknown) = (make(KeyType::Ecdsa, &names)?, make(KeyType::Ecdsa, &names)?);
        let other_name = make(KeyType::Ecdsa, &[format!("not-{name}")])?;
        let expired = make_valid(KeyType::Ecdsa, &names, -9..-2)?;
        let acceptor = |made: &Made| Acceptor::new(&made.identity);
        Ok(Self {
            ca: [&right, &other_name, &expired].map(|made| made.ca.as_str()).concat(),
            right: acceptor(&right)?,
            other_name: acceptor(&other_name)?,
            expired: acceptor(&expired)?,
            unknown: acceptor(&unknown)?,
        })
    }
}

impl Wire {
    /// The TLS of a connection whose handshake has this fault; `None` without TLS.
    pub(super) fn accept(&self, fault: Option<Fault>) -> Result<Option<ServerTls>> {
        let Self::Tls(certificates) = self else { return Ok(None) };
        let acceptor = match fault {
            Some(Fault::OtherName) => &certificates.other_name,
            Some(Fault::Expired) => &certificates.expired,
            Some(Fault::UnknownIssuer) => &certificates.unknown,
            _ => &certificates.right,
        };
        acceptor.accept().map(Some).map_err(|failure| anyhow::anyhow!("{failure}"))
    }
}
