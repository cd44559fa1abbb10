//! A client that asks one honest question after the other.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use kqps_message::{query, rtype};

/// The result of a client's question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AskResult {
    /// A reply to it, with this rcode.
    Rcode(u8),
    /// No reply in time.
    Nothing,
}

pub(super) enum Client {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

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
        Ok(Self::Udp(socket_to(address)?))
    }

    pub(super) fn tcp(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }

    /// Asks for a name below `bench.test`, and waits for the reply. Any other message is an error.
    pub(super) fn ask(&mut self, name: &str, within: Duration) -> Result<AskResult> {
        let asked = question(&format!("{name}.bench.test"), fastrand::u16(..))?;
        let deadline = Instant::now() + within;
        match self {
            Self::Udp(socket) => {
                socket.send(&asked)?;
                let mut reply = [0; 4096];
                loop {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Ok(AskResult::Nothing);
                    }
                    socket.set_read_timeout(Some(left))?;
                    match socket.recv(&mut reply) {
                        // A reply to a query that was given up before.
                        Ok(bytes) if bytes >= 2 && reply[..2] != asked[..2] => {}
                        Ok(bytes) => return rcode(&asked, &reply[..bytes]),
                        Err(error) if is_time_over(error.kind()) => return Ok(AskResult::Nothing),
                        Err(error) => bail!(error),
                    }
                }
            }
            Self::Tcp(stream) => {
                stream.set_read_timeout(Some(within))?;
                stream.write_all(&[&(asked.len() as u16).to_be_bytes(), &asked[..]].concat())?;
                let mut length = [0; 2];
                match stream.read_exact(&mut length) {
                    Err(error) if is_time_over(error.kind()) => return Ok(AskResult::Nothing),
                    other => other?,
                }
                let mut reply = vec![0; u16::from_be_bytes(length).into()];
                stream.read_exact(&mut reply)?;
                rcode(&asked, &reply)
            }
        }
    }
}

pub(super) fn is_time_over(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

fn rcode(asked: &[u8], reply: &[u8]) -> Result<AskResult> {
    let is_reply = reply.len() >= asked.len() && reply[2] & 0x80 != 0;
    ensure!(
        is_reply && reply[..2] == asked[..2] && reply[12..asked.len()] == asked[12..],
        "another's reply came"
    );
    Ok(AskResult::Rcode(reply[3] & 0x0f))
}
