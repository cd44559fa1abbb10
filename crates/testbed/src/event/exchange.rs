//! The server that the events of a load ask: the target, over the transport of the good clients.

use std::net::SocketAddr;
use std::time::Duration;

use kqps_ask::{AskError, Connection, Server};
use kqps_http::Method;
use kqps_observation::trial::Transport;
use kqps_tls::{ClientSettings, TlsError, Trust};

use crate::path::LaidPath;

/// A server at the end of a path.
#[derive(Debug)]
pub struct Target<'a> {
    /// Its address.
    pub address: SocketAddr,
    transport: Transport,
    server: Server,
    path: &'a LaidPath,
}

impl<'a> Target<'a> {
    /// The server at this address over a transport. Certificates are not checked: no result of the player depends on the
    /// answers.
    pub fn new(address: SocketAddr, transport: Transport, path: &'a LaidPath) -> Result<Self, TlsError> {
        let tls = ClientSettings::new(Trust::Anyone, false);
        let server = match transport {
            Transport::Udp => Server::over_udp(address),
            Transport::Tcp => Server::over_tcp(address),
            Transport::Tls => Server::over_tls(address, &tls)?,
            Transport::Https => Server::over_https(address, &tls, (Method::Post, 200..300))?,
            Transport::Quic => Server::over_quic(address, &tls)?,
        };
        Ok(Self { address, transport, server, path })
    }

    /// The path to it.
    pub(crate) fn path(&self) -> &LaidPath {
        self.path
    }

    /// Connects from the player's end of the path.
    pub(super) fn connect(&self, within: Duration) -> Result<Connection, AskError> {
        self.connect_to(&self.server, within)
    }

    /// A socket for datagrams to an address, from the player's end of the path.
    pub(super) fn datagrams_to(&self, address: SocketAddr) -> Result<Connection, AskError> {
        self.connect_to(&Server::over_udp(address), Duration::from_secs(1))
    }

    /// A connection for a zone transfer: over TCP, or TLS if the target speaks that (RFC 9103).
    pub(super) fn stream(&self, within: Duration) -> Result<Connection, AskError> {
        match self.transport {
            Transport::Tls => self.connect(within),
            _ => self.connect_to(&Server::over_tcp(self.address), within),
        }
    }

    /// Whether it is asked by datagrams.
    pub(super) fn is_udp(&self) -> bool {
        self.transport == Transport::Udp
    }

    /// Whether its port takes messages by UDP, as a name server's port for plain DNS does.
    pub(super) fn has_datagrams(&self) -> bool {
        matches!(self.transport, Transport::Udp | Transport::Tcp)
    }

    /// Whether zones can be transferred from it.
    pub(super) fn has_stream(&self) -> bool {
        matches!(self.transport, Transport::Udp | Transport::Tcp | Transport::Tls)
    }

    /// The longest wait for the reply to one of several equal queries.
    pub(super) fn patience(&self) -> Duration {
        // A handshake costs a server more than a reply.
        Duration::from_millis(if self.transport.is_encrypted() { 500 } else { 50 })
    }

    fn connect_to(&self, server: &Server, within: Duration) -> Result<Connection, AskError> {
        let connected = self.path.at_player(|| Ok(server.connect(within)));
        connected.map_err(AskError::Socket)?
    }
}
