//! A question over QUIC (RFC 9250), on a connection and from a socket of its own.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use kqps_kernel::clock;
use kqps_quic::{Client, ClientEvent, Congestion, End};
use kqps_tls::client::server_name;
use kqps_tls::{Connector, TlsError};

use super::connected;
use super::encrypted::{HANDSHAKE_PATIENCE, failed, settings, with_id_of};

/// The only slot of the client, the only target, and the key of the only query.
const SLOT: usize = 0;
const TARGET: usize = 0;
const KEY: u16 = 0;

/// Bytes of the longest datagram.
const DATAGRAM_BYTES: usize = 65_535;

/// The shortest wait for a datagram: sockets take no wait of 0.
const WAIT_LEAST: Duration = Duration::from_millis(1);

/// A server, and what makes the TLS of connections to it.
#[derive(Debug)]
pub(super) struct Server {
    target: SocketAddr,
    tls: Box<kqps_tls::Client>,
}

impl Server {
    /// Accepts certificates of the issuer `ca`, as PEM, or without one those that this host trusts.
    pub(super) fn new(target: SocketAddr, ca: Option<&str>) -> io::Result<Self> {
        let tls = kqps_tls::Client::over_quic(&settings(ca)).map_err(io::Error::other)?;
        Ok(Self { target, tls: Box::new(tls) })
    }

    /// Asks once. The reply gets the ID of the query, which travels with ID 0.
    pub(super) fn ask(&self, query: &[u8]) -> io::Result<Vec<u8>> {
        let connector = || -> Result<Connector, TlsError> {
            Ok(self.tls.connector(server_name(&self.target.ip().to_string())?, 1))
        };
        let connectors = vec![connector().map_err(failed)?];
        let mut asking = Asking {
            target: self.target,
            socket: connected(self.target)?,
            client: Client::new(connectors, 1, 1, Congestion::default()),
            packets: Vec::new(),
            room: vec![0; DATAGRAM_BYTES],
        };
        asking.client.connect(SLOT, None, (TARGET, self.target), clock::now_ns()).map_err(failed)?;
        let reply = asking.reply(query);
        asking.client.close(SLOT, clock::now_ns());
        // The server learns that the connection is over; if it does not, the connection times out there.
        let _ = asking.send();
        reply
    }
}

/// A connection that is being made, and its socket.
struct Asking {
    target: SocketAddr,
    socket: UdpSocket,
    client: Client,
    packets: Vec<u8>,
    room: Vec<u8>,
}

/// Events on the connection since the last look.
#[derive(Default)]
struct Happened {
    has_opened: bool,
    reply: Option<io::Result<Vec<u8>>>,
}

impl Asking {
    /// Completes the handshake, asks, and waits for the reply.
    fn reply(&mut self, query: &[u8]) -> io::Result<Vec<u8>> {
        let until_ns = clock::now_ns() + HANDSHAKE_PATIENCE.as_nanos() as u64;
        let (mut is_open, mut is_asked) = (false, false);
        loop {
            self.send()?;
            self.wait(until_ns)?;
            let happened = self.happened(query);
            if let Some(reply) = happened.reply {
                return reply;
            }
            is_open |= happened.has_opened;
            // A server may allow streams only later.
            if is_open && !is_asked {
                is_asked = self.client.hand(SLOT, KEY, query, clock::now_ns());
            }
        }
    }

    /// Sends the packets of the connection.
    fn send(&mut self) -> io::Result<()> {
        while self.client.transmit(SLOT, 1, &mut self.packets, clock::now_ns()).is_some() {
            self.socket.send(&self.packets)?;
        }
        Ok(())
    }

    /// Waits for a datagram or for what is due at the connection, until `until_ns` at most.
    fn wait(&mut self, until_ns: u64) -> io::Result<()> {
        let now_ns = clock::now_ns();
        if now_ns >= until_ns {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let due_ns = self.client.due_ns(SLOT).map_or(until_ns, |due_ns| due_ns.min(until_ns));
        let wait = Duration::from_nanos(due_ns.saturating_sub(now_ns)).max(WAIT_LEAST);
        self.socket.set_read_timeout(Some(wait))?;
        match self.socket.recv(&mut self.room) {
            Ok(bytes) => {
                self.client.datagram(SLOT, self.target, &self.room[..bytes], clock::now_ns());
                Ok(())
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                self.client.expire(SLOT, clock::now_ns());
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn happened(&mut self, query: &[u8]) -> Happened {
        let mut happened = Happened::default();
        self.client.poll(SLOT, clock::now_ns(), |event| match event {
            ClientEvent::Opened { .. } => happened.has_opened = true,
            ClientEvent::Reply(_, reply) => happened.reply = Some(Ok(with_id_of(query, reply))),
            ClientEvent::Failed(_, code) => {
                happened.reply = Some(Err(failed(format!("it reset the stream of a query with {code:#x}"))));
            }
            ClientEvent::Ended(End::TimedOut) => {
                happened.reply = Some(Err(io::ErrorKind::TimedOut.into()));
            }
            ClientEvent::Ended(end) => happened.reply = Some(Err(failed(end))),
            ClientEvent::Again(_) | ClientEvent::Available => {}
        });
        happened
    }
}
