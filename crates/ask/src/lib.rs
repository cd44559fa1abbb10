//! A client that asks a name server and waits for the reply, over UDP, TCP, TLS, HTTPS or QUIC.
//!
//! For: programs and tests that ask a few questions and may wait. Not for: loads, event loops, or the contents of a
//! reply.
//!
//! Invariant: every wait has an end, and an error says why there is no reply.

mod datagrams;
mod error;
mod https;
mod link;
mod quic;
mod stream;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use kqps_http::Method;
use kqps_message::header;
use kqps_tls::client::server_name;
use kqps_tls::{Client, ClientSettings, Connector, TlsError};

use datagrams::Datagrams;
pub use error::AskError;
use https::Https;
use link::Link;
use quic::Quic;
use stream::Stream;

/// The time for a read of what has arrived. It waits only for the rest of a reply.
const READ: Duration = Duration::from_millis(1);

/// A name server at an address, and the transport to it. Over an encrypted one its certificate must be for the address,
/// unless the settings accept any, and no session is resumed.
#[derive(Clone, Debug)]
pub struct Server {
    address: SocketAddr,
    transport: Transport,
}

#[derive(Clone, Debug)]
enum Transport {
    Udp,
    Tcp,
    Tls(Connector),
    Https(Connector, Method, Range<u16>),
    Quic(Connector),
}

/// An open connection to a server, or over UDP a socket that receives from the server alone.
pub struct Connection {
    link: Box<dyn Link>,
    is_udp: bool,
}

impl Server {
    /// A server over UDP.
    pub fn over_udp(address: SocketAddr) -> Self {
        Self { address, transport: Transport::Udp }
    }

    /// A server over TCP.
    pub fn over_tcp(address: SocketAddr) -> Self {
        Self { address, transport: Transport::Tcp }
    }

    /// A server over TLS (RFC 7858).
    pub fn over_tls(address: SocketAddr, tls: &ClientSettings) -> Result<Self, TlsError> {
        let connector = connector(&Client::new(tls)?, address)?;
        Ok(Self { address, transport: Transport::Tls(connector) })
    }

    /// A server over HTTPS (RFC 8484), at the usual path. A response with another status than these is an error.
    pub fn over_https(
        address: SocketAddr,
        tls: &ClientSettings,
        (method, statuses): (Method, Range<u16>),
    ) -> Result<Self, TlsError> {
        let connector = connector(&Client::new(tls)?.speaking(kqps_http::ALPN), address)?;
        Ok(Self { address, transport: Transport::Https(connector, method, statuses) })
    }

    /// A server over QUIC (RFC 9250).
    pub fn over_quic(address: SocketAddr, tls: &ClientSettings) -> Result<Self, TlsError> {
        let connector = connector(&Client::over_quic(tls)?, address)?;
        Ok(Self { address, transport: Transport::Quic(connector) })
    }

    /// Connects, and completes the handshake of TLS. Over UDP it opens a socket, over QUIC it begins a connection.
    pub fn connect(&self, within: Duration) -> Result<Connection, AskError> {
        let (address, until) = (self.address, Instant::now() + within);
        let link: Box<dyn Link> = match &self.transport {
            Transport::Udp => Box::new(Datagrams::new(address)?),
            Transport::Tcp => Box::new(Stream::connect(address, None, until)?),
            Transport::Tls(connector) => Box::new(Stream::connect(address, Some(connector), until)?),
            Transport::Https(connector, method, statuses) => {
                Box::new(Https::connect(address, (connector, *method, statuses.clone()), until)?)
            }
            Transport::Quic(connector) => Box::new(Quic::new(address, connector)?),
        };
        Ok(Connection { link, is_udp: matches!(self.transport, Transport::Udp) })
    }

    /// Asks on a connection of its own. The connection may take `within`, and so may the reply.
    pub fn ask(&self, query: &[u8], within: Duration) -> Result<Vec<u8>, AskError> {
        self.connect(within)?.ask(query, within)
    }
}

/// Makes the TLS of connections to a server. It keeps no tickets.
fn connector(client: &Client, server: SocketAddr) -> Result<Connector, TlsError> {
    Ok(client.connector(server_name(&server.ip().to_string())?, 0))
}

impl Connection {
    /// Sends queries without a wait for replies. The IDs of all queries without a reply must differ.
    pub fn send(&mut self, queries: &[&[u8]]) -> Result<(), AskError> {
        self.link.send(queries)
    }

    /// Waits for the next reply, whichever query it answers. Over HTTPS and QUIC, where every message has the ID 0, it
    /// gets the ID of its query.
    pub fn receive(&mut self, within: Duration) -> Result<Vec<u8>, AskError> {
        self.link.receive(Instant::now() + within)
    }

    /// The next reply if it has arrived, without a wait for one that has not.
    pub fn receive_arrived(&mut self) -> Result<Option<Vec<u8>>, AskError> {
        loop {
            // A moment that has come: only a reply that was read before is taken.
            let error = match self.link.receive(Instant::now()) {
                Ok(reply) => return Ok(Some(reply)),
                Err(error) => error,
            };
            if !matches!(error, AskError::TimedOut) {
                return Err(error);
            }
            if !self.link.is_readable()? {
                return Ok(None);
            }
            match self.link.receive(Instant::now() + READ) {
                // It was a part of a reply.
                Err(AskError::TimedOut) => (),
                reply => return reply.map(Some),
            }
        }
    }

    /// Asks, and waits for the reply with the query's ID. Over UDP datagrams with other IDs are dropped: they may answer
    /// queries that were given up. Over other transports they are an error.
    pub fn ask(&mut self, query: &[u8], within: Duration) -> Result<Vec<u8>, AskError> {
        let until = Instant::now() + within;
        self.link.send(&[query])?;
        loop {
            let reply = self.link.receive(until)?;
            if header::id(&reply) == header::id(query) {
                return Ok(reply);
            }
            if !self.is_udp {
                return Err(AskError::OtherId);
            }
        }
    }
}
