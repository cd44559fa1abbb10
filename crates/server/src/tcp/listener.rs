//! Where connections come in.

use std::io;
use std::net::SocketAddr;

use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};

/// A listening socket that is watched.
pub(super) struct Listener {
    socket: TcpListener,
    /// Whether somebody may be waiting.
    pub(super) waiting: bool,
}

/// What accepting led to.
pub(super) enum Accepted {
    /// A connection.
    Connection(TcpStream, SocketAddr),
    /// Nobody is waiting any more.
    Nobody,
    /// The system has no room for more, or something else that passes.
    NotNow,
}

impl Listener {
    pub(super) fn new(socket: std::net::TcpListener, registry: &Registry, token: Token) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let mut socket = TcpListener::from_std(socket);
        registry.register(&mut socket, token, Interest::READABLE)?;
        Ok(Self { socket, waiting: true })
    }

    pub(super) fn accept(&mut self) -> Accepted {
        loop {
            match self.socket.accept() {
                Ok((stream, address)) => return Accepted::Connection(stream, address),
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
