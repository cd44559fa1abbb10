//! Accepting connections.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use kqps_tls::Acceptor;
use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};

use super::http::{HttpStream, Refusals};
use super::stream::Stream;
use super::tls::{Handshakes, TlsStream};
use crate::sockets::ListeningSocket;

/// A listening socket that is registered with the poller.
pub(super) struct Listener {
    socket: Socket,
    /// Whether clients may be waiting.
    pub(super) waiting: bool,
}

enum Socket {
    Tcp(TcpListener),
    Tls(TcpListener, Acceptor, Arc<Handshakes>),
    Https(TcpListener, Acceptor, Arc<Handshakes>, Arc<Refusals>),
    Unix(UnixListener),
}

/// The result of accepting.
pub(super) enum Accepted {
    /// A connection, and the address of its client; `None` on a Unix socket.
    Connection(Stream, Option<IpAddr>),
    /// No client is waiting.
    NoClient,
    /// The system has no free descriptor, or another error occurred that will pass.
    NotNow,
}

impl Listener {
    /// Registers the socket under this token.
    pub(super) fn new(socket: ListeningSocket, registry: &Registry, token: Token) -> io::Result<Self> {
        let socket = match socket {
            ListeningSocket::Tcp(socket) => Socket::Tcp(registered(socket, registry, token)?),
            ListeningSocket::Tls(socket, acceptor) => {
                Socket::Tls(registered(socket, registry, token)?, acceptor, Arc::default())
            }
            ListeningSocket::Https(socket, acceptor) => {
                let socket = registered(socket, registry, token)?;
                Socket::Https(socket, acceptor, Arc::default(), Arc::default())
            }
            ListeningSocket::Unix(socket) => {
                socket.set_nonblocking(true)?;
                let mut socket = UnixListener::from_std(socket);
                registry.register(&mut socket, token, Interest::READABLE)?;
                Socket::Unix(socket)
            }
            ListeningSocket::Quic(..) => {
                return Err(io::Error::other("connections over QUIC need a thread of their own"));
            }
        };
        Ok(Self { socket, waiting: true })
    }

    /// The handshakes of its connections; `None` if they are without TLS.
    pub(super) fn handshakes(&self) -> Option<&Handshakes> {
        match &self.socket {
            Socket::Tls(_, _, handshakes) | Socket::Https(_, _, handshakes, _) => Some(handshakes.as_ref()),
            Socket::Tcp(_) | Socket::Unix(_) => None,
        }
    }

    /// The requests of its connections that are no query; `None` if they are without HTTP.
    pub(super) fn refusals(&self) -> Option<&Refusals> {
        match &self.socket {
            Socket::Https(_, _, _, refusals) => Some(refusals.as_ref()),
            Socket::Tcp(_) | Socket::Tls(..) | Socket::Unix(_) => None,
        }
    }

    /// Accepts one connection, without waiting.
    pub(super) fn accept(&mut self) -> Accepted {
        loop {
            match self.socket.accept() {
                Ok((stream, client)) => return Accepted::Connection(stream, client),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => {
                        self.waiting = false;
                        return Accepted::NoClient;
                    }
                    // The first waiting client left before it was accepted; another may be waiting.
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    _ => return Accepted::NotNow,
                },
            }
        }
    }
}

/// A TCP socket that is registered under this token.
fn registered(socket: std::net::TcpListener, registry: &Registry, token: Token) -> io::Result<TcpListener> {
    socket.set_nonblocking(true)?;
    let mut socket = TcpListener::from_std(socket);
    registry.register(&mut socket, token, Interest::READABLE)?;
    Ok(socket)
}

impl Socket {
    fn accept(&self) -> io::Result<(Stream, Option<IpAddr>)> {
        Ok(match self {
            Self::Tcp(socket) => {
                let (stream, address) = socket.accept()?;
                (Stream::Tcp(stream), Some(address.ip()))
            }
            Self::Tls(socket, acceptor, handshakes) => {
                let (stream, address) = socket.accept()?;
                let stream = TlsStream::accept(acceptor, stream, handshakes)?;
                (Stream::Tls(Box::new(stream)), Some(address.ip()))
            }
            Self::Https(socket, acceptor, handshakes, refusals) => {
                let (stream, address) = socket.accept()?;
                let stream = TlsStream::accept(acceptor, stream, handshakes)?;
                (Stream::Https(Box::new(HttpStream::new(stream, refusals))), Some(address.ip()))
            }
            Self::Unix(socket) => (Stream::Unix(socket.accept()?.0), None),
        })
    }
}
