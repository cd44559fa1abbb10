//! A client that asks one honest question after the other.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use kqps_ask::{AskError, Connection, Server};
use kqps_message::{query, rtype};

/// The longest wait for a connection, beside clients that open thousands.
const CONNECTS_WITHIN: Duration = Duration::from_mins(1);

/// The result of a client's question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AskResult {
    /// A reply to it, with this rcode.
    Rcode(u8),
    /// No reply in time.
    Nothing,
}

pub(super) struct Client(Connection);

/// The query for a name's address, with an ID.
pub(super) fn question(name: &str, id: u16) -> Result<Vec<u8>> {
    let mut message = Vec::new();
    query::write(&mut message, name.as_bytes(), rtype::A, None)?;
    message[..2].copy_from_slice(&id.to_be_bytes());
    Ok(message)
}

/// A UDP socket for datagrams to an address.
pub(super) fn socket_to(address: SocketAddr) -> Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(address)?;
    Ok(socket)
}

impl Client {
    pub(super) fn udp(address: SocketAddr) -> Result<Self> {
        Ok(Self(Server::over_udp(address).connect(CONNECTS_WITHIN)?))
    }

    pub(super) fn tcp(address: SocketAddr) -> Result<Self> {
        Ok(Self(Server::over_tcp(address).connect(CONNECTS_WITHIN)?))
    }

    /// Asks for a name below `bench.test`, and waits for the reply. Any other message is an error, but over UDP a reply
    /// to a query that was given up before.
    pub(super) fn ask(&mut self, name: &str, within: Duration) -> Result<AskResult> {
        let asked = question(&format!("{name}.bench.test"), fastrand::u16(..))?;
        match self.0.ask(&asked, within) {
            Ok(reply) => {
                let is_reply = reply.len() >= asked.len() && reply[2] & 0x80 != 0;
                ensure!(is_reply && reply[12..asked.len()] == asked[12..], "another's reply came");
                Ok(AskResult::Rcode(reply[3] & 0x0f))
            }
            Err(AskError::TimedOut) => Ok(AskResult::Nothing),
            Err(error) => bail!(error),
        }
    }
}
