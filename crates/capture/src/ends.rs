//! The ends of a packet: which one is the server, and so what is a query and what a response.

use std::net::{IpAddr, SocketAddr};

use kqps_message::{Header, question};

use crate::counts::Why;
use crate::message::Kind;
use crate::settings::Settings;

/// The port of DNS over TLS (RFC 7858) and over QUIC (RFC 9250).
const TLS_PORT: u16 = 853;
/// The port of HTTPS.
const HTTPS_PORT: u16 = 443;

pub(crate) struct Ends {
    ports: Vec<u16>,
    /// Sorted. None stands for any address.
    servers: Vec<IpAddr>,
}

/// The direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToServer,
    ToClient,
    /// Both ends are servers', as if a resolver asks from port 53. The message says what it is.
    Either,
}

impl Ends {
    pub(crate) fn new(settings: &Settings) -> Self {
        let mut servers = settings.servers.clone();
        servers.sort_unstable();
        Self { ports: settings.ports.clone(), servers }
    }

    /// The direction of a packet, or why it is not DNS.
    #[inline]
    pub(crate) fn direction(&self, from: SocketAddr, to: SocketAddr) -> Result<Direction, Why> {
        let is_port = |end: SocketAddr| self.ports.contains(&end.port());
        let (from_port, to_port) = (is_port(from), is_port(to));
        if !from_port && !to_port {
            let is_encrypted = self.is_encrypted(from) || self.is_encrypted(to);
            return Err(if is_encrypted { Why::Encrypted } else { Why::OtherPort });
        }
        match (from_port && self.is_server(from.ip()), to_port && self.is_server(to.ip())) {
            (false, true) => Ok(Direction::ToServer),
            (true, false) => Ok(Direction::ToClient),
            (true, true) => Ok(Direction::Either),
            (false, false) => Err(Why::OtherServer),
        }
    }

    fn is_server(&self, address: IpAddr) -> bool {
        self.servers.is_empty() || self.servers.binary_search(&address).is_ok()
    }

    /// Whether DNS is encrypted at this end. Port 443 is that of every web server, so only those of the settings count.
    fn is_encrypted(&self, end: SocketAddr) -> bool {
        match end.port() {
            TLS_PORT => true,
            HTTPS_PORT => self.servers.binary_search(&end.ip()).is_ok(),
            _ => false,
        }
    }
}

/// The kind of a message that goes in this direction, or why it is skipped.
#[inline]
pub(crate) fn kind(direction: Direction, message: &[u8]) -> Result<Kind, Why> {
    let header = Header::from_bytes(message).ok_or(Why::BadMessage)?;
    let kind = match (direction, header.is_reply()) {
        (Direction::ToServer | Direction::Either, false) => Kind::Query,
        (Direction::ToClient | Direction::Either, true) => Kind::Response,
        _ => return Err(Why::BadMessage),
    };
    if header.opcode() != 0 {
        return Err(Why::NotAQuery);
    }
    check_question(kind, message).map(|()| kind)
}

/// Checks that the question of a query can be read, without which it cannot be played. A response is compared by as much of
/// it as can be read.
#[inline]
pub(crate) fn check_question(kind: Kind, message: &[u8]) -> Result<(), Why> {
    if kind == Kind::Query && question::end(message).is_none() { Err(Why::BadMessage) } else { Ok(()) }
}
