//! The flags of TLS: whose certificates are accepted, and what is offered and resumed.

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use kqps_player::TlsPlan;
use kqps_tls::certificate::KeyType;
use kqps_tls::{Client, ClientSettings, Group, Suite, TlsError, Trust};

use crate::exit::bad_input;

/// Whether to do something, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum YesNo {
    Yes,
    No,
}

/// The flags of TLS. The comments are the help text.
#[derive(clap::Args)]
#[allow(clippy::doc_markdown)] // the comments are the help text
#[command(next_help_heading = "TLS")]
pub(crate) struct TlsArgs {
    /// Accept certificates of the issuers in this file alone (default: those that this host trusts)
    ///
    /// The file is PEM. The certificate must be valid and name the server (--server-name). One that signs itself is
    /// accepted if it stands in the file.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// Accept any certificate: kqps then does not know which server it measures
    #[arg(long, conflicts_with = "ca")]
    insecure: bool,

    /// The server's name in its certificate, handshake and requests of HTTPS (default: the target as typed)
    ///
    /// All targets have this name then. An address is in no handshake (RFC 6066, section 3). A request of HTTPS names
    /// the server with its port, unless that is 443 (:authority).
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,

    /// Resume sessions of earlier connections: yes (the default) or no
    ///
    /// Each thread keeps the tickets that it got, and uses each once. With -a, a ticket resumes sessions
    /// of the source address that got it.
    #[arg(long, alias = "tls-resume", value_name = "WHETHER", hide_possible_values = true)]
    resume: Option<YesNo>,

    /// Offer these cipher suites alone, the best first, such as TLS_AES_128_GCM_SHA256
    #[arg(long, value_name = "SUITE,...", value_delimiter = ',')]
    tls_suite: Vec<Suite>,

    /// Offer these groups for the exchange of keys alone, the best first, such as x25519
    #[arg(long, value_name = "GROUP,...", value_delimiter = ',')]
    tls_group: Vec<Group>,

    /// Accept a certificate with a key of this type alone: ecdsa or rsa (default: any)
    ///
    /// kqps then offers signatures of this type alone. So a server that has certificates of both types sends that one,
    /// and with any other server the handshake fails.
    #[arg(long, value_name = "TYPE")]
    tls_certificate: Option<KeyType>,

    /// Send queries with the first packets of a resumed connection (0-RTT)
    ///
    /// Queries leave early if they may be replayed: those of opcode QUERY that ask for no transfer. A server may refuse
    /// early data; kqps then sends its queries again, and their latency counts from the first time. Only later
    /// connections resume, so give --queries-per-connection as well.
    #[arg(long)]
    early_data: bool,

    /// Put queries that leave together into one TLS record; not over QUIC
    ///
    /// By default each query has a record of its own, and over HTTPS each request. Some servers, such as NSD 4.6.1 and
    /// dnsdist 1.7.3, leave queries that share a record unanswered until more arrives.
    #[arg(long)]
    tls_packing: bool,
}

impl TlsArgs {
    /// TLS with these flags, for targets of these names. `client` makes a client, as the player will.
    pub(super) fn plan(
        &self,
        targets: &[String],
        client: impl FnOnce(&ClientSettings) -> Result<Client, TlsError>,
    ) -> anyhow::Result<TlsPlan> {
        let names = match &self.server_name {
            Some(name) => vec![name.clone(); targets.len()],
            None => targets.to_vec(),
        };
        let settings = ClientSettings {
            trust: self.trust()?,
            resume: self.resume != Some(YesNo::No),
            suites: self.tls_suite.clone(),
            groups: self.tls_group.clone(),
            certificate: self.tls_certificate,
            early_data: self.early_data,
        };
        if settings.early_data && !settings.resume {
            return Err(bad_input(
                "--early-data needs tickets of earlier connections: leave --resume no out",
            ));
        }
        // Settings that a player cannot use should be an error of the flags, and not of a trial.
        client(&settings).map_err(|error| self.bad(&error))?;
        Ok(TlsPlan { names, client: settings, packing: self.tls_packing, http: None })
    }

    /// Refuses flags about records of TLS, which QUIC does not have.
    pub(super) fn check_no_records(&self) -> anyhow::Result<()> {
        if self.tls_packing {
            return Err(bad_input(
                "--tls-packing has no effect over quic, which has no TLS records; leave it out",
            ));
        }
        Ok(())
    }

    /// The error of a client, with the flag and the file if it is about their certificates.
    fn bad(&self, error: &TlsError) -> anyhow::Error {
        match (error, &self.ca) {
            (TlsError::Pem { .. }, Some(file)) => bad_issuers(file, error),
            _ => bad_input(error.to_string()),
        }
    }

    fn trust(&self) -> anyhow::Result<Trust> {
        match &self.ca {
            _ if self.insecure => Ok(Trust::Anyone),
            Some(file) => Ok(Trust::Ca(read(file)?)),
            None => Ok(Trust::System),
        }
    }

    /// Refuses flags of TLS if there is none.
    pub(super) fn check_none_is_given(&self) -> anyhow::Result<()> {
        let given = [
            (self.ca.is_some(), "--ca"),
            (self.insecure, "--insecure"),
            (self.server_name.is_some(), "--server-name"),
            (self.resume.is_some(), "--resume"),
            (!self.tls_suite.is_empty(), "--tls-suite"),
            (!self.tls_group.is_empty(), "--tls-group"),
            (self.tls_certificate.is_some(), "--tls-certificate"),
            (self.early_data, "--early-data"),
            (self.tls_packing, "--tls-packing"),
        ];
        match given.into_iter().find(|(is_given, _)| *is_given) {
            Some((_, flag)) => Err(bad_input(format!(
                "{flag} is about TLS; play over tls (-m tls), https (-m https) or quic (-m quic)"
            ))),
            None => Ok(()),
        }
    }
}

/// The issuers in the file of a `--ca`, as PEM.
pub(crate) fn issuers(file: &Path) -> anyhow::Result<String> {
    let text = read(file)?;
    let trust = Trust::Ca(text.clone());
    let client = ClientSettings::new(trust, true);
    Client::new(&client).map_err(|error| bad_issuers(file, &error))?;
    Ok(text)
}

fn bad_issuers(file: &Path, error: &TlsError) -> anyhow::Error {
    bad_input(format!("--ca {}: {error}", file.display()))
}

fn read(file: &Path) -> anyhow::Result<String> {
    fs::read_to_string(file).map_err(|error| bad_input(format!("--ca {}: {error}", file.display())))
}
