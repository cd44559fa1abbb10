//! Where connections come in.

use std::io;
use std::net::IpAddr;

use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};

use super::stream::Stream;
use crate::sockets::ListeningSocket;

/// A listening socket that is watched.
pub(crate) struct Listener {
    socket: Socket,
    /// Whether somebody may be waiting.
    pub(crate) waiting: bool,
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// What accepting led to.
pub(crate) enum Accepted {
    /// A connection, and the address of its client; none where it came by a Unix socket.
    Connection(Stream, Option<IpAddr>),
    /// Nobody is waiting any more.
    Nobody,
    /// The system has no room for more, or something else that passes.
    NotNow,
}

impl Listener {
    pub(crate) fn new(socket: ListeningSocket, registry: &Registry, token: Token) -> io::Result<Self> {
        let socket = match socket {
            ListeningSocket::Tcp(socket) => {
                socket.set_nonblocking(true)?;
                let mut socket = TcpListener::from_std(socket);
                registry.register(&mut socket, token, Interest::READABLE)?;
                Socket::Tcp(socket)
            }
            ListeningSocket::Unix(socket) => {
                socket.set_nonblocking(true)?;
                let mut socket = UnixListener::from_std(socket);
                registry.register(&mut socket, token, Interest::READABLE)?;
                Socket::Unix(socket)
            }
        };
        Ok(Self { socket, waiting: true })
    }

    pub(crate) fn accept(&mut self) -> Accepted {
        loop {
            match self.socket.accept() {
                Ok((stream, client)) => return Accepted::Connection(stream, client),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => {
                        self.waiting = false;
                        return Accepted::Nobody;
                    }
                    // The one in front had gone before it was accepted: the next may be there.
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    _ => return Accepted::NotNow,
                },
            }
        }
    }
}

impl Socket {
    fn accept(&self) -> io::Result<(Stream, Option<IpAddr>)> {
        Ok(match self {
            Self::Tcp(socket) => {
                let (stream, address) = socket.accept()?;
                (Stream::Tcp(stream), Some(address.ip()))
            }
            Self::Unix(socket) => (Stream::Unix(socket.accept()?.0), None),
        })
    }
}
