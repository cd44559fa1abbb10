//! `kqps serve auth`.

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use kqps_server::{Service, auth, tcp};

use super::options::Serving;
use crate::exit::bad_input;
use crate::value::{parse_duration, parse_size};

/// How long a connection may make no progress, unless it is said.
const IDLE: Duration = Duration::from_secs(10);

/// Connections at one time, unless it is said.
const CONNECTIONS: u32 = 4096;

/// Answer from zones: an authoritative name server
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) serving: Serving,

    /// A zone's master file; can be repeated. Without an origin the file tells the zone's name, or is named for it
    #[arg(long, value_name = "[ORIGIN=]FILE", required_unless_present = "zones")]
    zone: Vec<PathBuf>,

    /// A directory of master files, without those below it; a list with `ORIGIN FILE` on each line, such as the zones.list
    /// of `kqps gen zone`; or a configuration of BIND
    #[arg(long, value_name = "DIR|LIST")]
    zones: Vec<PathBuf>,

    /// Tell NSID (RFC 5001) to those who ask for it
    #[arg(long, value_name = "TEXT", value_parser = parse_text)]
    nsid: Option<String>,

    /// What version.bind (class CH) says; refused without this
    #[arg(long, value_name = "TEXT", value_parser = parse_text)]
    version_text: Option<String>,

    /// What id.server (class CH) says; refused without this
    #[arg(long, value_name = "TEXT", value_parser = parse_text)]
    identity: Option<String>,

    /// Answer cookies (RFC 7873), made with this secret of 32 hexadecimal digits, or with a random one
    #[arg(long, value_name = "SECRET", num_args = 0..=1, require_equals = true, default_missing_value = "random", value_parser = parse_secret)]
    cookies: Option<Secret>,

    /// Tell whole zones to whoever asks for them by a connection (AXFR)
    #[arg(long)]
    transfers: bool,

    /// The longest reply by UDP to a query with EDNS, 512 to 4096
    #[arg(long, value_name = "BYTES", default_value = "1232", value_parser = parse_payload)]
    payload: u16,

    /// Take connections at this Unix socket too, framed as by TCP, from a process that asks for many clients; can be
    /// repeated. The file of a server that is gone is replaced
    #[arg(long, value_name = "PATH")]
    unix: Vec<PathBuf>,

    /// Close a connection that makes no progress for this long [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = parse_idle)]
    tcp_idle: Option<Duration>,

    /// Connections at one time, of each process; more take the place of idle ones [default: 4096]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    tcp_connections: Option<u32>,

    /// Connections of one client at one time, of each process; more are closed
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    tcp_per_client: u32,

    /// Take no connections by TCP
    #[arg(long, conflicts_with = "tcp_per_client")]
    no_tcp: bool,
}

/// The secret of server cookies.
#[derive(Clone, Copy)]
enum Secret {
    Random,
    Given([u8; 16]),
}

impl Args {
    pub(super) fn service(&self) -> anyhow::Result<Service> {
        let bytes = |text: &Option<String>| text.as_ref().map(|text| text.clone().into_bytes());
        self.check_connections()?;
        let limits = tcp::Limits {
            idle: self.tcp_idle.unwrap_or(IDLE),
            connections: self.tcp_connections.unwrap_or(CONNECTIONS) as usize,
            per_client: self.tcp_per_client as usize,
        };
        Ok(Service::Auth(auth::Settings {
            zones: self.zone.clone(),
            lists: self.zones.clone(),
            payload_bytes: self.payload,
            nsid: bytes(&self.nsid),
            version: bytes(&self.version_text),
            identity: bytes(&self.identity),
            cookie_secret: self.cookies.map(Secret::bytes).transpose()?,
            transfers: self.transfers,
            tcp: !self.no_tcp,
            unix: self.unix.clone(),
            limits,
        }))
    }

    /// Whether what is said about connections can be together.
    fn check_connections(&self) -> anyhow::Result<()> {
        if self.no_tcp && self.unix.is_empty() {
            let said = [
                ("--tcp-idle", self.tcp_idle.is_some()),
                ("--tcp-connections", self.tcp_connections.is_some()),
            ];
            if let Some((option, _)) = said.iter().find(|(_, is_said)| *is_said) {
                return Err(bad_input(format!(
                    "{option} is about connections: with --no-tcp it needs --unix"
                )));
            }
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

fn parse_payload(text: &str) -> Result<u16, String> {
    let bytes = parse_size(text)?;
    let payload = u16::try_from(bytes).ok().filter(|bytes| (512..=4096).contains(bytes));
    payload.ok_or_else(|| "expected 512 to 4096 bytes".to_owned())
}

fn parse_idle(text: &str) -> Result<Duration, String> {
    let idle = parse_duration(text)?;
    if idle.is_zero() { Err("a connection needs some time".to_owned()) } else { Ok(idle) }
}

/// A text that fits one character string of a TXT record (RFC 1035, section 3.3).
fn parse_text(text: &str) -> Result<String, String> {
    if text.len() <= 255 { Ok(text.to_owned()) } else { Err("expected at most 255 bytes".to_owned()) }
}
