//! The transport of a load, and the flags of its connections, which are those of the catalogue.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use kqps_catalogue::choice::{Io, Transport};
use kqps_catalogue::factors::PlayerFactors;
use kqps_catalogue::name;
use kqps_catalogue::setting::{Over, Setting};
use kqps_http::authority;
use kqps_player::plan::CONNECTIONS_MOST;
use kqps_player::{TlsPlan, Wire};
use kqps_testbed::player_setup::PlayerSetup;
use kqps_tls::{Client, ClientSettings, TlsError, Trust};

use super::target::Targets;
use crate::exit::bad_input;
use crate::setting_flags::{SettingFlags, arguments, typed};

/// Connections of each thread, if the flags do not say how many.
const CONNECTIONS_PER_THREAD: u64 = 8;

/// Connections of each thread of an open loop with one query to each connection, or none, if the flags do not say how
/// many. A place is free again once its query was answered, or its connection made.
const ALONE_PER_THREAD: u64 = 256;

/// Refuses an I/O model that is not for a transport.
pub(super) fn check_io(io: Io, transport: Transport) -> anyhow::Result<()> {
    let offered = Io::over(transport);
    if io == Io::Auto || offered.contains(&io) {
        return Ok(());
    }
    let is_for = Transport::ALL.into_iter().filter(|one| Io::over(*one).contains(&io));
    let is_for: Vec<&str> = is_for.map(Transport::word).collect();
    let offered: Vec<&str> = offered.iter().map(|io| io.word()).collect();
    let (io, is_for, over) = (io.word(), is_for.join(", "), transport.word());
    Err(bad_input(if offered.is_empty() {
        format!("--io {io} is for {is_for}; leave it out with {over}")
    } else {
        format!("--io {io} is for {is_for}; over {over} it is one of {}", offered.join(", "))
    }))
}

/// Connections at once of `threads` threads, if each has one query or none, and the flags do not say how many.
pub(super) fn usual_alone(threads: u64) -> u64 {
    threads.saturating_mul(ALONE_PER_THREAD)
}

/// The flags of connections, TLS, HTTP and QUIC.
pub(crate) struct WireFlags(SettingFlags);

/// Whether a setting is among these flags: its I/O, addresses and connections are flags of the player.
fn is_of_wire(setting: &Setting) -> bool {
    ![name::PLAYER_IO, name::PLAYER_SOURCES, name::PLAYER_CONNECTIONS].contains(&setting.name)
}

/// The heading of a flag in the help.
fn heading(over: Over) -> &'static str {
    match over {
        Over::Encrypted | Over::Records => "TLS",
        Over::Https => "HTTP",
        Over::Quic => "QUIC",
        Over::Every | Over::Udp | Over::Connections | Over::Tcp | Over::Io => "Connections",
    }
}

impl Args for WireFlags {
    fn augment_args(command: Command) -> Command {
        let arguments = arguments(is_of_wire, heading).into_iter();
        command.args(arguments.map(|argument| {
            // As dnsperf has it, and as older versions did.
            if argument.get_id() == name::PLAYER_RESUME { argument.visible_alias("resume") } else { argument }
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for WireFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(SettingFlags::read(matches, is_of_wire)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Why a flag is refused over a transport that it is not for.
fn refusal(over: Over, flag: &str, transport: Transport) -> String {
    match over {
        Over::Tcp if transport == Transport::Quic => {
            format!("{flag} is about TCP: QUIC closes connections in one way")
        }
        Over::Records if transport == Transport::Quic => {
            format!("{flag} has no effect over quic, which has no TLS records; leave it out")
        }
        Over::Encrypted | Over::Records => {
            format!("{flag} is about TLS; play over tls (-m tls), https (-m https) or quic (-m quic)")
        }
        Over::Https => format!("{flag} is about HTTP; play over https (-m https)"),
        Over::Quic => format!("{flag} is about QUIC; play over quic (-m quic)"),
        Over::Every | Over::Udp | Over::Connections | Over::Tcp | Over::Io => {
            format!("{flag}: UDP has no connections; play over tcp (-m tcp)")
        }
    }
}

impl WireFlags {
    /// Refuses flags that have no effect over any of these transports, which are one at least, and flags that contradict
    /// each other.
    pub(super) fn check(&self, transports: &[Transport]) -> anyhow::Result<()> {
        let is_vain = |(over, _, word): &(Over, _, &str)| {
            !transports.iter().any(|transport| over.has_effect(word, *transport))
        };
        if let Some((over, flag, _)) = self.0.given().find(is_vain) {
            return Err(bad_input(refusal(over, &typed(&flag), transports[0])));
        }
        self.0.check_early_data("--resume")
    }

    /// The flags of certificates once more, as words.
    pub(super) fn certificate_words(&self) -> Vec<OsString> {
        let SettingFlags { ca, insecure, server_name, .. } = &self.0;
        let ca = ca.iter().flat_map(|ca| [OsString::from("--ca"), ca.into()]);
        let name = server_name.iter().map(|name| format!("--server-name={name}").into());
        ca.chain(name).chain(insecure.then(|| "--insecure".into())).collect()
    }

    /// Refuses flags of connections that are used as they were captured.
    pub(super) fn check_as_captured(&self) -> anyhow::Result<()> {
        match self.0.word(name::PLAYER_QUERIES_PER_CONNECTION) {
            Some(_) => Err(bad_input(
                "--queries-per-connection: connections of a capture are used as they were then; give the target as \
                 tcp://ADDR to use them otherwise",
            )),
            None => Ok(()),
        }
    }

    /// Connections at once of `threads` threads, if the flags do not say how many. `window` is how many queries may be
    /// outstanding.
    pub(super) fn usual_count(&self, threads: u64, window: Option<u64>) -> u64 {
        match window {
            _ if !self.have_one_query() => threads.saturating_mul(CONNECTIONS_PER_THREAD),
            Some(window) => window.clamp(1, CONNECTIONS_MOST as u64),
            None => usual_alone(threads),
        }
    }

    /// Whether each connection has one query, or stands for one.
    pub(super) fn have_one_query(&self) -> bool {
        matches!(self.0.word(name::PLAYER_QUERIES_PER_CONNECTION), Some("0" | "1"))
    }

    /// The settings of the player that these flags give.
    pub(super) fn player(&self, transport: Transport) -> anyhow::Result<PlayerFactors> {
        let mut player = self.0.factors(transport).map_err(bad_input)?.player().clone();
        player.tls_trust = transport.is_encrypted().then(|| self.0.trust());
        Ok(player)
    }

    /// The wire to these targets with these flags, where a reply may take `timeout`. All else is usual.
    pub(super) fn wire(
        &self,
        transport: Transport,
        targets: &Targets,
        timeout: Duration,
    ) -> anyhow::Result<Wire> {
        let player = self.player(transport)?;
        let ca = self.0.ca.as_deref().map(read).transpose()?;
        let setup = PlayerSetup(player);
        let mut wire = setup.wire(timeout, &targets.addresses, ca.as_deref()).map_err(bad_input)?;
        match &mut wire {
            Wire::Tcp(tcp) => {
                if let Some(tls) = &mut tcp.tls {
                    self.name(tls, targets, Client::new)?;
                }
            }
            Wire::Quic(quic) => self.name(&mut quic.tls, targets, Client::over_quic)?,
            Wire::Udp(_) | Wire::Captured(_) => {}
        }
        Ok(wire)
    }

    /// Gives TLS the names of the targets: those in their URLs, or all that of `--server-name`. `client` makes a client,
    /// as the player will.
    fn name(
        &self,
        tls: &mut TlsPlan,
        targets: &Targets,
        client: impl FnOnce(&ClientSettings) -> Result<Client, TlsError>,
    ) -> anyhow::Result<()> {
        tls.names = match &self.0.server_name {
            Some(name) => vec![name.clone(); targets.names.len()],
            None => targets.names.clone(),
        };
        if let Some(http) = &mut tls.http {
            let named = tls.names.iter().zip(&targets.addresses);
            http.authorities = named.map(|(name, address)| authority(name, address.port())).collect();
            http.paths.clone_from(&targets.paths);
        }
        // Settings that a player cannot use should be an error of the flags, and not of a trial.
        client(&tls.client).map(drop).map_err(|error| match (&error, &self.0.ca) {
            (TlsError::Pem { .. }, Some(file)) => bad_issuers(file, &error),
            _ => bad_input(error),
        })
    }
}

/// The issuers in the file of a `--ca`, as PEM.
pub(crate) fn issuers(file: &Path) -> anyhow::Result<String> {
    let text = read(file)?;
    let client = ClientSettings::new(Trust::Ca(text.clone()), true);
    Client::new(&client).map_err(|error| bad_issuers(file, &error))?;
    Ok(text)
}

fn bad_issuers(file: &Path, error: &TlsError) -> anyhow::Error {
    bad_input(format!("--ca {}: {error}", file.display()))
}

fn read(file: &Path) -> anyhow::Result<String> {
    fs::read_to_string(file).map_err(|error| bad_input(format!("--ca {}: {error}", file.display())))
}
