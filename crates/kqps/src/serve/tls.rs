//! Flags about a server's connections in TLS and over QUIC: its certificate, given or made.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use kqps_server::setup::{Listeners, TlsSetup};
use kqps_tls::certificate::{KeyType, make};
use kqps_tls::{Acceptor, Identity};

use super::issuer::IssuerFile;
use crate::exit::bad_input;

#[derive(clap::Args)]
#[command(next_help_heading = "TLS")]
#[allow(clippy::doc_markdown)] // the comments are the help text
pub(super) struct TlsArgs {
    /// Send this certificate, with those of its issuers after it (PEM; default: the server makes one)
    ///
    /// The issuer of a certificate that is made stands in a file, whose path is printed: clients name it with --ca. The
    /// server removes the file when it ends; if it is killed, the next server that makes one does. The certificate is
    /// for localhost and the addresses of --listen; for a server on all addresses, it is for those of loopback.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,

    /// The key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,

    /// The key of a certificate that is made: ecdsa (P-256, the default) or rsa (2048 bits)
    #[arg(long, value_name = "TYPE", conflicts_with = "cert")]
    cert_type: Option<KeyType>,

    /// Take queries with the first packets of a resumed connection (0-RTT)
    ///
    /// The server then keeps the sessions itself, 65,536 for each transport and process, and resumes each once, so that
    /// no query can be replayed. Queries that change something, and zone transfers, wait for the handshake, and over
    /// HTTPS they get status 425.
    #[arg(long)]
    early_data: bool,
}

/// Where a server accepts connections in TLS and over QUIC, and the file with the issuer of its certificate, if that
/// was made.
pub(super) struct Tls {
    pub(super) setup: TlsSetup,
    ca: Option<IssuerFile>,
}

impl Tls {
    /// The file with the issuer of a certificate that was made.
    pub(super) fn ca(&self) -> Option<&Path> {
        self.ca.as_ref().map(IssuerFile::path)
    }
}

impl TlsArgs {
    /// TLS, HTTP in TLS and QUIC at these addresses, which are at least one.
    pub(super) fn at(
        &self,
        tls: Vec<SocketAddr>,
        https: Vec<SocketAddr>,
        quic: Vec<SocketAddr>,
        quic_listeners: Listeners,
    ) -> anyhow::Result<Tls> {
        let (identity, ca) = self.identity(&[&*tls, &*https, &*quic].concat())?;
        let early_data = self.early_data;
        Ok(Tls { setup: TlsSetup { listen: tls, https, quic, quic_listeners, identity, early_data }, ca })
    }

    /// The certificate of a server at these addresses, and the file with its issuer if it was made.
    fn identity(&self, listen: &[SocketAddr]) -> anyhow::Result<(Identity, Option<IssuerFile>)> {
        if let (Some(chain), Some(key)) = (&self.cert, &self.key) {
            let identity = Identity::read(chain, key).map_err(|error| bad_input(error.to_string()))?;
            // A certificate that the server cannot use should be an error of the flags, and not of its sockets.
            Acceptor::new(&identity).map_err(|error| bad_input(format!("--cert, --key: {error}")))?;
            return Ok((identity, None));
        }
        let made = make(self.cert_type.unwrap_or_default(), &names(listen))?;
        let file = IssuerFile::write(&made.ca)?;
        Ok((made.identity, Some(file)))
    }

    /// The first of these flags that the user gave.
    pub(super) fn given(&self) -> Option<&'static str> {
        let given = [
            ("--cert", self.cert.is_some()),
            ("--key", self.key.is_some()),
            ("--cert-type", self.cert_type.is_some()),
            ("--early-data", self.early_data),
        ];
        given.into_iter().find_map(|(flag, is_given)| is_given.then_some(flag))
    }
}

/// The names of a made certificate: the addresses, or those of loopback if a server listens on all.
fn names(listen: &[SocketAddr]) -> Vec<String> {
    let named = |address: &SocketAddr| match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.to_string(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.to_string(),
        ip => ip.to_string(),
    };
    let addresses: BTreeSet<String> = listen.iter().map(named).collect();
    addresses.into_iter().chain(["localhost".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_certificate_names_addresses_that_clients_can_have() {
        let listen = ["0.0.0.0:853", "[::]:853", "127.0.0.1:8853", "192.0.2.1:853"];
        let listen = listen.map(|one| one.parse::<SocketAddr>().unwrap());
        assert_eq!(names(&listen), ["127.0.0.1", "192.0.2.1", "::1", "localhost"]);
    }
}
