//! The wires: what a server needs for each, and the flags of a player.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
pub(super) use kqps_faults::streams::Kind;
use kqps_faults::streams::{Certificates, ServerSettings, Wire};
use kqps_testbed::path::LaidPath;

use super::super::Bench;
use crate::child::Running;

/// The name of servers with faults in their certificates.
const NAME: &str = "dns.test";

/// The flags of a player at an echo. An echo's certificate is made for no name that a player knows.
pub(super) fn at_an_echo(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Tcp => &["-m", "tcp"],
        Kind::Tls => &["-m", "tls", "--insecure"],
        Kind::Https => &["-m", "https", "--insecure"],
        Kind::Quic => &["-m", "quic", "--insecure"],
    }
}

/// The flags of a player that opens a connection for each query and resets it afterwards. QUIC has no such end.
pub(super) fn one_each(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Quic => &["--queries-per-connection", "1"],
        Kind::Tcp | Kind::Tls | Kind::Https => &["--queries-per-connection", "1", "--close", "rst"],
    }
}

/// Starts an echo on a wire. Returns its address and the flags of a player.
pub(super) fn echo(bench: &Bench, kind: Kind) -> Result<(Running, SocketAddr, &'static [&'static str])> {
    let (echo, address) = bench.kqps.stream_echo(kind, &LaidPath::Loopback)?;
    Ok((echo, address, at_an_echo(kind)))
}

/// A wire of servers with faults.
pub(in crate::prove) struct Wired {
    pub(in crate::prove) kind: Kind,
    wire: Wire,
    /// The flags of a player.
    flags: Vec<String>,
}

impl Wired {
    /// Makes what the wire needs. The certificates to trust are in the folder of the bench.
    pub(in crate::prove) fn new(bench: &Bench, kind: Kind) -> Result<Self> {
        let mut flags = vec!["-m".to_owned(), kind.name().to_owned()];
        if kind == Kind::Tcp {
            return Ok(Self { kind, wire: Wire::Tcp, flags });
        }
        let certificates = Box::new(Certificates::make(kind, NAME)?);
        let ca = bench.folder.path().join(format!("{}.pem", kind.name()));
        std::fs::write(&ca, &certificates.ca).context("cannot write the certificates to trust")?;
        let ca = ca.to_str().context("a temporary folder has a name in UTF-8")?;
        flags.extend(["--ca", ca, "--server-name", NAME].map(str::to_owned));
        let wire = match kind {
            Kind::Quic => Wire::Quic(certificates),
            Kind::Https => Wire::Https(certificates),
            Kind::Tcp | Kind::Tls => Wire::Tls(certificates),
        };
        Ok(Self { kind, wire, flags })
    }

    /// The settings of a server on this wire that makes no fault, on the subject's core.
    pub(in crate::prove) fn server(&self, bench: &Bench) -> ServerSettings {
        ServerSettings {
            wire: self.wire.clone(),
            cpu: Some(bench.kqps.subject_cpu),
            ..ServerSettings::default()
        }
    }

    /// The flags of a player on this wire, with these.
    pub(in crate::prove) fn flags<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        self.flags.iter().map(String::as_str).chain(more.iter().copied()).collect()
    }
}
