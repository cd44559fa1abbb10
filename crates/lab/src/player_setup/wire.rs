//! How a cell's queries travel: by datagrams, or on connections, encrypted or not.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use kqps_http::{Method, PATH, authority};
use kqps_observation::factors::{
    CloseChoice, CongestionChoice, KeyChoice, MethodChoice, PlayerFactors, TrustChoice, name,
};
use kqps_observation::trial::Transport;
use kqps_player::plan::{CONNECTIONS_MOST, HttpPlan, OUTSTANDING_MOST};
use kqps_player::{Close, Io, QuicPlan, TcpPlan, TlsPlan, UdpPlan, Wire};
use kqps_quic::Congestion;
use kqps_tls::certificate::KeyType;
use kqps_tls::{ClientSettings, Trust};

use super::PlayerSetup;

/// How a cell's queries travel.
#[derive(Clone, Debug, PartialEq)]
pub enum WireSetup {
    /// Datagrams.
    Udp {
        /// The player's I/O; `None` for the best that the host offers.
        io: Option<String>,
        /// Number of sockets, over all threads.
        sockets: u32,
    },
    /// Connections.
    Connected(ConnectionSetup),
}

/// How a cell's queries travel on connections.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionSetup {
    /// The transport, which has connections.
    pub transport: Transport,
    /// The player's I/O; `None` for what it chooses. Over QUIC it has no effect.
    pub io: Option<String>,
    /// Number of connections that may be open at once, over all threads.
    pub connections: u32,
    /// Queries after which a connection is closed; `None` if it is kept for the whole trial.
    pub queries_per_connection: Option<u32>,
    /// The most unsettled queries of one connection.
    pub outstanding: u32,
    /// Seconds after which a connection that is not made is given up; `None` for the time of a late reply.
    pub connect_timeout_s: Option<f64>,
    /// How the player closes connections. Over QUIC it has no effect.
    pub close: Close,
    /// The congestion control, which limits the bytes on their way. Over other transports than QUIC it has no effect.
    pub congestion: Congestion,
    /// TLS; `None` over a transport that is not encrypted.
    pub tls: Option<TlsSetup>,
    /// HTTP; `None` over a transport without it.
    pub http: Option<HttpSetup>,
}

/// How connections speak TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsSetup {
    /// Whether connections resume the sessions of earlier ones.
    pub resume: bool,
    /// The group that the player offers; `None` for all usual ones.
    pub group: Option<String>,
    /// The cipher suite that the player offers; `None` for all usual ones.
    pub suite: Option<String>,
    /// The type of key that a certificate must have; `None` for any.
    pub certificate: Option<KeyChoice>,
    /// Whether queries leave with the first packets of resumed connections.
    pub early_data: bool,
    /// Whether queries that leave together share records. Over QUIC it has no effect.
    pub packing: bool,
    /// The certificates that the player accepts; `None` for those of the run's own issuer.
    pub trust: Option<TrustChoice>,
    /// The server's name in its certificate; `None` for its address.
    pub name: Option<String>,
}

/// How queries are asked by HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSetup {
    /// How each is asked.
    pub method: Method,
    /// The path of the server's URL.
    pub path: String,
}

/// Sockets of a cell that names no number.
pub(super) const SOCKETS: u32 = 8;

/// Connections of a cell that names no number, if they are kept.
const CONNECTIONS: u32 = 8;

/// Connections of a cell that names no number: each that has one query or none is a place for one query of the window.
fn usual_connections(player: &PlayerFactors) -> u32 {
    match player.queries_per_connection {
        Some(0 | 1) => player.window.unwrap_or(PlayerSetup::MANY_FLOWS.window).min(CONNECTIONS_MOST as u32),
        _ => CONNECTIONS,
    }
}

impl WireSetup {
    /// The transport of the queries.
    pub fn transport(&self) -> Transport {
        match self {
            Self::Udp { .. } => Transport::Udp,
            Self::Connected(setup) => setup.transport,
        }
    }

    /// The transport in the name of a cell, ` over tcp`; nothing over UDP, which is the usual one.
    pub(crate) fn over(&self) -> String {
        match self.transport() {
            Transport::Udp => String::new(),
            transport => format!(" over {}", transport.word()),
        }
    }

    /// The setup that factors name, or the usual one.
    pub(super) fn from_factors(player: &PlayerFactors) -> Self {
        let transport = player.transport.unwrap_or_default();
        if transport.has_connections() {
            Self::Connected(ConnectionSetup::from_factors(transport, player))
        } else {
            Self::Udp { io: player.io.clone(), sockets: player.sockets.unwrap_or(SOCKETS) }
        }
    }

    /// The plan of queries that travel like this.
    pub(super) fn plan(
        &self,
        timeout: Duration,
        targets: &[SocketAddr],
        ca: Option<&str>,
    ) -> Result<Wire, String> {
        match self {
            Self::Udp { io, sockets } => Ok(Wire::Udp(UdpPlan {
                io: io_of(io.as_deref())?,
                sockets: *sockets as usize,
                buffer_bytes: None,
                local_port: None,
                device: None,
            })),
            Self::Connected(setup) => setup.plan(timeout, targets, ca),
        }
    }
}

impl ConnectionSetup {
    fn from_factors(transport: Transport, player: &PlayerFactors) -> Self {
        Self {
            transport,
            io: player.io.clone(),
            connections: player.connections.unwrap_or_else(|| usual_connections(player)),
            queries_per_connection: player.queries_per_connection,
            outstanding: player.outstanding_per_connection.unwrap_or(OUTSTANDING_MOST),
            connect_timeout_s: player.connect_timeout_s,
            close: match player.close {
                Some(CloseChoice::Rst) => Close::Rst,
                Some(CloseChoice::Fin) | None => Close::Fin,
            },
            congestion: match player.congestion {
                Some(CongestionChoice::Cubic) => Congestion::Cubic,
                Some(CongestionChoice::Fixed) | None => Congestion::Fixed,
            },
            tls: transport.is_encrypted().then(|| TlsSetup::from_factors(player)),
            http: (transport == Transport::Https).then(|| HttpSetup::from_factors(player)),
        }
    }

    /// Adds these settings to those that every transport has.
    pub(super) fn factors(&self, of_all: PlayerFactors) -> PlayerFactors {
        let of_connections = PlayerFactors {
            transport: Some(self.transport),
            io: self.io.clone(),
            connections: Some(self.connections),
            queries_per_connection: self.queries_per_connection,
            outstanding_per_connection: Some(self.outstanding),
            connect_timeout_s: self.connect_timeout_s,
            close: (self.close == Close::Rst).then_some(CloseChoice::Rst),
            congestion: (self.congestion == Congestion::Cubic).then_some(CongestionChoice::Cubic),
            ..of_all
        };
        let of_http = match &self.http {
            None => of_connections,
            Some(http) => PlayerFactors {
                http_method: (http.method == Method::Get).then_some(MethodChoice::Get),
                http_path: Some(http.path.clone()).filter(|path| path != PATH),
                ..of_connections
            },
        };
        match &self.tls {
            None => of_http,
            Some(tls) => PlayerFactors {
                resume: Some(tls.resume),
                tls_group: tls.group.clone(),
                tls_suite: tls.suite.clone(),
                tls_certificate: tls.certificate,
                early_data: tls.early_data.then_some(true),
                tls_packing: tls.packing.then_some(true),
                tls_trust: tls.trust,
                tls_name: tls.name.clone(),
                ..of_http
            },
        }
    }

    /// The plan of queries on such connections. A connection may take as long as a reply to be made, unless the setup
    /// says otherwise.
    fn plan(&self, timeout: Duration, targets: &[SocketAddr], ca: Option<&str>) -> Result<Wire, String> {
        let seconds =
            |seconds| Duration::try_from_secs_f64(seconds).map_err(|error| format!("{seconds} s: {error}"));
        let connect_timeout = self.connect_timeout_s.map_or(Ok(timeout), seconds)?;
        match self.transport {
            Transport::Udp => Err("udp has no connections".into()),
            Transport::Tcp | Transport::Tls | Transport::Https => Ok(Wire::Tcp(TcpPlan {
                io: io_of(self.io.as_deref())?,
                connections: self.connections as usize,
                queries_per_connection: self.queries_per_connection,
                outstanding: self.outstanding,
                close: self.close,
                connect_timeout,
                buffer_bytes: None,
                tls: self.tls.as_ref().map(|tls| tls.plan(targets, ca, self.http.as_ref())).transpose()?,
                device: None,
                local_port: None,
            })),
            Transport::Quic => Ok(Wire::Quic(QuicPlan {
                connections: self.connections as usize,
                queries_per_connection: self.queries_per_connection,
                outstanding: self.outstanding,
                connect_timeout,
                buffer_bytes: None,
                tls: self
                    .tls
                    .as_ref()
                    .ok_or("quic has no connections without TLS")?
                    .plan(targets, ca, None)?,
                congestion: self.congestion,
            })),
        }
    }
}

impl TlsSetup {
    fn from_factors(player: &PlayerFactors) -> Self {
        Self {
            resume: player.resume.unwrap_or(true),
            group: player.tls_group.clone(),
            suite: player.tls_suite.clone(),
            certificate: player.tls_certificate,
            early_data: player.early_data.unwrap_or(false),
            packing: player.tls_packing.unwrap_or(false),
            trust: player.tls_trust,
            name: player.tls_name.clone(),
        }
    }

    fn plan(
        &self,
        targets: &[SocketAddr],
        ca: Option<&str>,
        http: Option<&HttpSetup>,
    ) -> Result<TlsPlan, String> {
        let trust = match self.trust {
            Some(TrustChoice::System) => Trust::System,
            Some(TrustChoice::Anyone) => Trust::Anyone,
            Some(TrustChoice::Ca) | None => Trust::Ca(
                ca.ok_or("no issuer is known whose certificates the player could trust")?.to_owned(),
            ),
        };
        let own_name = |target: &SocketAddr| self.name.clone().unwrap_or_else(|| target.ip().to_string());
        let client = ClientSettings {
            trust,
            resume: self.resume,
            suites: offered(name::PLAYER_TLS_SUITE, self.suite.as_deref())?,
            groups: offered(name::PLAYER_TLS_GROUP, self.group.as_deref())?,
            certificate: self.certificate.map(|key| match key {
                KeyChoice::Ecdsa => KeyType::Ecdsa,
                KeyChoice::Rsa => KeyType::Rsa,
            }),
            early_data: self.early_data,
        };
        let names: Vec<String> = targets.iter().map(own_name).collect();
        let http = http.map(|http| http.plan(&names, targets));
        Ok(TlsPlan { names, client, packing: self.packing, http })
    }
}

impl HttpSetup {
    fn from_factors(player: &PlayerFactors) -> Self {
        Self {
            method: match player.http_method {
                Some(MethodChoice::Get) => Method::Get,
                Some(MethodChoice::Post) | None => Method::Post,
            },
            path: player.http_path.clone().unwrap_or_else(|| PATH.to_owned()),
        }
    }

    /// The plan of requests to servers with these names in their certificates.
    fn plan(&self, names: &[String], targets: &[SocketAddr]) -> HttpPlan {
        HttpPlan {
            method: self.method,
            authorities: names.iter().zip(targets).map(|(name, to)| authority(name, to.port())).collect(),
            paths: vec![self.path.clone(); targets.len()],
        }
    }
}

/// The player's I/O by its word; `auto` without one.
fn io_of(word: Option<&str>) -> Result<Io, String> {
    let read = word.map_or(Ok(Io::Auto), str::parse::<Io>);
    read.map_err(|expected| format!("factor `{}`: {expected}", name::PLAYER_IO))
}

/// The player's offer by a factor: the value that it names, or all usual ones.
fn offered<T: FromStr<Err = String>>(name: &str, word: Option<&str>) -> Result<Vec<T>, String> {
    let one = |word: &str| word.parse::<T>().map_err(|expected| format!("factor `{name}`: {expected}"));
    word.into_iter().map(one).collect()
}
