//! The way of a cell's queries: by datagrams, or on connections, encrypted or not.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use kqps_catalogue::choice::{Transport, TrustChoice};
use kqps_catalogue::factors::{PlayerFactors, name};
use kqps_http::{PATH, authority};
use kqps_player::plan::{HttpPlan, OUTSTANDING_MOST};
use kqps_player::{QuicPlan, TcpPlan, TlsPlan, UdpPlan, Wire};
use kqps_tls::{ClientSettings, Trust};

use super::PlayerSetup;

impl PlayerSetup {
    /// The plan of queries to these targets. A connection may take `timeout` to be made, as long as a reply, unless the
    /// settings say otherwise. `ca` are the issuers of certificates that the player trusts unless the settings name
    /// others.
    pub fn wire(&self, timeout: Duration, targets: &[SocketAddr], ca: Option<&str>) -> Result<Wire, String> {
        let Self(player) = self;
        let transport = self.transport();
        let (io, places) = (player.io.unwrap_or_default(), self.places() as usize);
        let queries_per_connection = player.queries_per_connection;
        let outstanding = player.outstanding_per_connection.unwrap_or(OUTSTANDING_MOST);
        let seconds =
            |seconds| Duration::try_from_secs_f64(seconds).map_err(|error| format!("{seconds} s: {error}"));
        let connect_timeout = player.connect_timeout_s.map_or(Ok(timeout), seconds)?;
        Ok(match transport {
            Transport::Udp => {
                Wire::Udp(UdpPlan { io, sockets: places, buffer_bytes: None, local_port: None, device: None })
            }
            Transport::Tcp | Transport::Tls | Transport::Https => Wire::Tcp(TcpPlan {
                io,
                connections: places,
                queries_per_connection,
                outstanding,
                close: player.close.unwrap_or_default(),
                connect_timeout,
                buffer_bytes: None,
                tls: transport.is_encrypted().then(|| tls(player, targets, ca)).transpose()?,
                device: None,
                local_port: None,
            }),
            Transport::Quic => Wire::Quic(QuicPlan {
                connections: places,
                queries_per_connection,
                outstanding,
                connect_timeout,
                buffer_bytes: None,
                tls: tls(player, targets, ca)?,
                congestion: player.congestion.unwrap_or_default(),
            }),
        })
    }
}

/// The plan of TLS with these settings.
fn tls(player: &PlayerFactors, targets: &[SocketAddr], ca: Option<&str>) -> Result<TlsPlan, String> {
    let trust = match player.tls_trust {
        Some(TrustChoice::System) => Trust::System,
        Some(TrustChoice::Anyone) => Trust::Anyone,
        Some(TrustChoice::Ca) | None => {
            Trust::Ca(ca.ok_or("no issuer is known whose certificates the player could trust")?.to_owned())
        }
    };
    let client = ClientSettings {
        trust,
        resume: player.resume.unwrap_or(true),
        suites: offered(name::PLAYER_TLS_SUITE, player.tls_suite.as_deref())?,
        groups: offered(name::PLAYER_TLS_GROUP, player.tls_group.as_deref())?,
        certificate: player.tls_certificate,
        early_data: player.early_data.unwrap_or(false),
    };
    let own_name = |target: &SocketAddr| player.tls_name.clone().unwrap_or_else(|| target.ip().to_string());
    let names: Vec<String> = targets.iter().map(own_name).collect();
    let http = (player.transport == Some(Transport::Https)).then(|| http(player, &names, targets));
    Ok(TlsPlan { names, client, packing: player.tls_packing.unwrap_or(false), http })
}

/// The plan of requests by HTTP to servers with these names in their certificates.
fn http(player: &PlayerFactors, names: &[String], targets: &[SocketAddr]) -> HttpPlan {
    HttpPlan {
        method: player.http_method.unwrap_or_default(),
        authorities: names.iter().zip(targets).map(|(name, to)| authority(name, to.port())).collect(),
        paths: vec![player.http_path.clone().unwrap_or_else(|| PATH.to_owned()); targets.len()],
    }
}

/// The player's offer by a factor: the values that it names, with commas between them, or all usual ones.
fn offered<T: FromStr<Err = String>>(name: &str, word: Option<&str>) -> Result<Vec<T>, String> {
    let one = |word: &str| word.parse::<T>().map_err(|expected| format!("factor `{name}`: {expected}"));
    word.into_iter().flat_map(|words| words.split(',')).map(one).collect()
}
