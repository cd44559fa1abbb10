//! The bytes of a connection, over TCP, in TLS, or over a Unix socket.

use std::io::{self, Read, Write};
use std::net::Shutdown;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};

use super::tls::TlsStream;

/// A connected, non-blocking socket.
pub enum Stream {
    /// A TCP connection.
    Tcp(TcpStream),
    /// A TCP connection in TLS.
    Tls(Box<TlsStream>),
    /// A connection to a Unix socket.
    Unix(UnixStream),
}

impl Stream {
    /// Makes TCP send what is written at once (`TCP_NODELAY`): replies are written as a whole, so delaying a
    /// small one gains nothing.
    pub(super) fn hold_nothing_back(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nodelay(true),
            Self::Tls(stream) => stream.socket.set_nodelay(true),
            Self::Unix(_) => Ok(()),
        }
    }

    /// The events to register. TCP reports that there is room only after a write found none, so the
    /// registration can stay. A Unix socket reports it whenever its peer has read something
    /// (`net/unix/af_unix.c`, `unix_write_space`), which would cause a useless wake-up for each batch of
    /// replies.
    pub fn interest(&self, has_unsent: bool) -> Interest {
        match self {
            Self::Unix(_) if !has_unsent => Interest::READABLE,
            _ => Interest::READABLE | Interest::WRITABLE,
        }
    }

    /// Whether messages are encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Whether there may be more to read although the last read was short.
    pub(super) fn may_have_more(&self) -> bool {
        matches!(self, Self::Tls(stream) if stream.may_have_more())
    }

    /// Whether written bytes wait for the kernel.
    pub(super) fn has_unsent(&self) -> bool {
        matches!(self, Self::Tls(stream) if stream.has_unsent())
    }

    /// Ends one direction, or both.
    pub(super) fn shutdown(&mut self, how: Shutdown) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(how),
            Self::Tls(stream) => stream.shutdown(how),
            Self::Unix(stream) => stream.shutdown(how),
        }
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Tcp(stream) => stream,
            Self::Tls(stream) => &mut stream.socket,
            Self::Unix(stream) => stream,
        }
    }
}

impl Read for Stream {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    /// Passes what TLS holds back to the kernel; an error if it has no room for all. All else is passed to it at once.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tls(stream) => stream.flush(),
            Self::Tcp(_) | Self::Unix(_) => Ok(()),
        }
    }
}

impl Source for Stream {
    fn register(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        self.source().register(registry, token, interest)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interest: Interest) -> io::Result<()> {
        self.source().reregister(registry, token, interest)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.source().deregister(registry)
    }
}
