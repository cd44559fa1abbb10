//! The wires: what a server needs for each, and the flags of a player. One more wire is one more [`Kind`].

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use kqps_faults::streams::{Certificates, Wire};
use kqps_lab::path::LaidPath;

use super::super::Bench;
use crate::child::Running;
use crate::program::Carrier;

/// The name of servers with faults in their certificates.
const NAME: &str = "dns.test";

/// The flags of a player at an echo. An echo's certificate is made for no name that a player knows.
const AT_A_TCP_ECHO: &[&str] = &["-m", "tcp"];
const AT_A_TLS_ECHO: &[&str] = &["-m", "tls", "--insecure"];

/// A wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Tcp,
    Tls,
}

impl Kind {
    pub(super) const ALL: [Self; 2] = [Self::Tcp, Self::Tls];

    /// Its name in reports, and as a transport of `kqps load`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Tls => "tls",
        }
    }

    /// Starts an echo on this wire. Returns its address and the flags of a player.
    pub(super) fn echo(self, bench: &Bench) -> Result<(Running, SocketAddr, &'static [&'static str])> {
        let (carrier, flags) = match self {
            Self::Tcp => (Carrier::Tcp, AT_A_TCP_ECHO),
            Self::Tls => (Carrier::Tls, AT_A_TLS_ECHO),
        };
        let (echo, address) = bench.kqps.stream_echo(carrier, &LaidPath::Loopback)?;
        Ok((echo, address, flags))
    }
}

/// A wire of servers with faults.
pub(super) struct Wired {
    pub(super) kind: Kind,
    pub(super) wire: Wire,
    /// The flags of a player.
    flags: Vec<String>,
}

impl Wired {
    /// Makes what the wire needs. The certificates to trust are in the folder of the bench.
    pub(super) fn new(bench: &Bench, kind: Kind) -> Result<Self> {
        let mut flags = vec!["-m".to_owned(), kind.name().to_owned()];
        let wire = match kind {
            Kind::Tcp => Wire::Tcp,
            Kind::Tls => {
                let certificates = Certificates::make(NAME)?;
                let ca = bench.folder.path().join("ca.pem");
                std::fs::write(&ca, &certificates.ca).context("cannot write the certificates to trust")?;
                let ca = ca.to_str().context("a temporary folder has a name in UTF-8")?;
                flags.extend(["--ca", ca, "--server-name", NAME].map(str::to_owned));
                Wire::Tls(Box::new(certificates))
            }
        };
        Ok(Self { kind, wire, flags })
    }

    /// The flags of a player on this wire, with these.
    pub(super) fn flags<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        self.flags.iter().map(String::as_str).chain(more.iter().copied()).collect()
    }
}
