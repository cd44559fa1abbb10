//! `kqps serve auth`.

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use clap::ArgGroup;
use kqps_message::edns;
use kqps_server::services::auth::{Auth, AuthSettings};

use super::connections::Connections;
use super::options::Serving;
use super::tls::TlsArgs;
use super::zones::ZoneFiles;
use crate::exit::bad_input;
use crate::value::parse_size;

const EXAMPLES: &str = "\
Examples:
  kqps serve auth --zone bench.test=bench.zone
  kqps serve auth --zones /etc/nsd/zones --io segment --threads 4
  kqps serve auth --zone bench.zone --listen https://127.0.0.1:8443
  kqps serve auth --zone bench.zone --transfers --cookies --unix /run/kqps.sock";

/// Answer from zones: an authoritative name server
///
/// SIGHUP loads the zones again while queries are answered. A file with errors leaves its zone as it was.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, group(ArgGroup::new("served").args(["zone", "zones"]).required(true).multiple(true)))]
pub(super) struct Args {
    /// Serve the zone of this master file (repeatable)
    ///
    /// Without an origin the zone's name is that in the file, or the file's own name.
    #[arg(long, value_name = "[ORIGIN=]FILE", help_heading = "Zones")]
    zone: Vec<PathBuf>,

    /// Serve all zones of a directory, a list, or a configuration of BIND (repeatable)
    ///
    /// Of a directory it serves the master files directly in it. A list has `ORIGIN FILE` on each line, like the
    /// zones.list of `kqps gen zone`.
    #[arg(long, value_name = "DIR|FILE", help_heading = "Zones")]
    zones: Vec<PathBuf>,

    /// Return this NSID (RFC 5001) to clients that ask for one
    #[arg(long, value_name = "TEXT", value_parser = parse_text, help_heading = "Answers")]
    nsid: Option<String>,

    /// Answer version.bind (class CH) with this text; refused otherwise
    #[arg(long, value_name = "TEXT", value_parser = parse_text, help_heading = "Answers")]
    version_text: Option<String>,

    /// Answer id.server (class CH) with this text; refused otherwise
    #[arg(long, value_name = "TEXT", value_parser = parse_text, help_heading = "Answers")]
    identity: Option<String>,

    /// Answer cookies (RFC 7873), made with a secret of 32 hexadecimal digits, or with a random one
    #[arg(long, value_name = "SECRET", num_args = 0..=1, require_equals = true, default_missing_value = "random",
          value_parser = parse_secret, help_heading = "Answers")]
    cookies: Option<Secret>,

    /// Transfer whole zones (AXFR) to every client that asks over a connection, except HTTPS
    #[arg(long, help_heading = "Answers")]
    transfers: bool,

    /// The longest reply by UDP to a query with EDNS, 512 to 4096 bytes (default: 1232)
    #[arg(long, value_name = "SIZE", value_parser = parse_payload, help_heading = "Answers")]
    payload: Option<u16>,

    /// Accept connections at this Unix socket too (repeatable)
    ///
    /// It is for a process that asks for many clients. Messages are framed as over TCP. A socket file that an earlier
    /// server left behind is replaced.
    #[arg(long, value_name = "PATH", help_heading = "Connections")]
    unix: Vec<PathBuf>,

    #[command(flatten, next_help_heading = "Connections")]
    connections: Connections,

    /// Accept no connections by TCP
    #[arg(long, conflicts_with = "tcp_per_client", help_heading = "Connections")]
    no_tcp: bool,

    #[command(flatten)]
    pub(super) tls: TlsArgs,

    #[command(flatten)]
    pub(super) serving: Serving,
}

#[derive(Clone, Copy)]
enum Secret {
    Random,
    Given([u8; 16]),
}

impl Args {
    pub(super) fn service(&self) -> anyhow::Result<Auth> {
        Ok(Auth { settings: self.settings()?, source: Arc::new(ZoneFiles) })
    }

    fn settings(&self) -> anyhow::Result<AuthSettings> {
        let bytes = |text: &Option<String>| text.as_ref().map(|text| text.clone().into_bytes());
        self.check_connections()?;
        self.serving.check_of_datagrams("--payload", self.payload.is_some())?;
        if let Some(zone) = self.zone.iter().find(|zone| zone.as_os_str().as_encoded_bytes().ends_with(b"="))
        {
            return Err(bad_input(format!("--zone {}: the file is missing after the =", zone.display())));
        }
        Ok(AuthSettings {
            zones: self.zone.clone(),
            lists: self.zones.clone(),
            payload_bytes: self.payload.unwrap_or(edns::UDP_PAYLOAD_BYTES),
            nsid: bytes(&self.nsid),
            version: bytes(&self.version_text),
            identity: bytes(&self.identity),
            cookie_secret: self.cookies.map(Secret::bytes).transpose()?,
            transfers: self.transfers,
            tcp: !self.no_tcp,
            unix: self.unix.clone(),
            limits: self.connections.limits(),
        })
    }

    /// Checks that the flags about connections go together.
    fn check_connections(&self) -> anyhow::Result<()> {
        self.serving.check_no_tcp(self.no_tcp)?;
        if self.unix.is_empty() {
            self.serving.check_connected(self.connections.given(), self.no_tcp, "--unix, ")?;
        }
        let repeated = self.unix.iter().enumerate().find(|(at, path)| self.unix[..*at].contains(path));
        repeated
            .map_or(Ok(()), |(_, path)| Err(bad_input(format!("--unix {} is given twice", path.display()))))
    }
}

impl Secret {
    fn bytes(self) -> anyhow::Result<[u8; 16]> {
        match self {
            Self::Given(secret) => Ok(secret),
            Self::Random => {
                let mut secret = [0; 16];
                let read = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut secret));
                read.context("cannot read /dev/urandom for a secret of cookies")?;
                Ok(secret)
            }
        }
    }
}

fn parse_secret(text: &str) -> Result<Secret, String> {
    if text == "random" {
        return Ok(Secret::Random);
    }
    let is_secret = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let secret = u128::from_str_radix(text, 16).ok().filter(|_| is_secret);
    secret
        .map(|secret| Secret::Given(secret.to_be_bytes()))
        .ok_or_else(|| "expected 32 hexadecimal digits".to_owned())
}

/// Parses the longest reply by UDP.
pub(super) fn parse_payload(text: &str) -> Result<u16, String> {
    let bytes = parse_size(text)?;
    let payload = u16::try_from(bytes).ok().filter(|bytes| (512..=4096).contains(bytes));
    payload.ok_or_else(|| "expected 512 to 4096 bytes".to_owned())
}

/// Parses a text that fits into one character string of a TXT record (RFC 1035, section 3.3).
fn parse_text(text: &str) -> Result<String, String> {
    if text.len() <= 255 { Ok(text.to_owned()) } else { Err("expected at most 255 bytes".to_owned()) }
}
