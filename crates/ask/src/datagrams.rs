//! Queries and replies over UDP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Instant;

use crate::error::Result;
use crate::link::{Link, has_input, left};

/// Bytes of the longest datagram.
const DATAGRAM_BYTES: usize = 65_535;

/// A socket that is connected to a server, and room for a datagram.
pub(crate) struct Datagrams {
    pub(crate) socket: UdpSocket,
    room: Vec<u8>,
}

impl Datagrams {
    pub(crate) fn new(server: SocketAddr) -> Result<Self> {
        let any: IpAddr =
            if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(server)?;
        Ok(Self { socket, room: vec![0; DATAGRAM_BYTES] })
    }

    /// Waits for a datagram.
    pub(crate) fn next(&mut self, until: Instant) -> Result<&[u8]> {
        self.socket.set_read_timeout(Some(left(until)?))?;
        let bytes = self.socket.recv(&mut self.room)?;
        Ok(&self.room[..bytes])
    }

    /// Whether a datagram has arrived.
    pub(crate) fn has_arrived(&self) -> Result<bool> {
        self.socket.set_nonblocking(true)?;
        let looked = self.socket.peek(&mut [0]);
        self.socket.set_nonblocking(false)?;
        Ok(has_input(looked)?)
    }
}

impl Link for Datagrams {
    fn send(&mut self, queries: &[&[u8]]) -> Result<()> {
        for query in queries {
            self.socket.send(query)?;
        }
        Ok(())
    }

    fn receive(&mut self, until: Instant) -> Result<Vec<u8>> {
        Ok(self.next(until)?.to_vec())
    }

    fn is_readable(&self) -> Result<bool> {
        self.has_arrived()
    }
}
