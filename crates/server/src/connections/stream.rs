//! The bytes of a connection, over TCP, in TLS, by HTTP in TLS, or over a Unix socket.

use std::io::{self, Read, Write};
use std::net::Shutdown;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};

use super::http::HttpStream;
use super::tls::TlsStream;

/// A connected, non-blocking socket.
pub enum Stream {
    /// A TCP connection.
    Tcp(TcpStream),
    /// A TCP connection in TLS.
    Tls(Box<TlsStream>),
    /// A TCP connection by HTTP/2 in TLS.
    Https(Box<HttpStream>),
    /// A connection to a Unix socket.
    Unix(UnixStream),
}

impl Stream {
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
        matches!(self, Self::Tls(_) | Self::Https(_))
    }

    /// Whether it is TCP with nothing above.
    pub(super) fn is_tcp(&self) -> bool {
        matches!(self, Self::Tcp(_))
    }

    /// Whether messages come by HTTP. Each query then has a reply of one message, or an empty one.
    pub(super) fn is_http(&self) -> bool {
        matches!(self, Self::Https(_))
    }

    /// Whether requests are under way.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Self::Https(stream) if stream.is_busy())
    }

    /// Whether there may be more to read although the last read was short.
    pub(super) fn may_have_more(&self) -> bool {
        match self {
            Self::Tls(stream) => stream.may_have_more(),
            Self::Https(stream) => stream.may_have_more(),
            Self::Tcp(_) | Self::Unix(_) => false,
        }
    }

    /// Whether written bytes wait for the kernel.
    pub(super) fn has_unsent(&self) -> bool {
        match self {
            Self::Tls(stream) => stream.has_unsent(),
            Self::Https(stream) => stream.tls.has_unsent(),
            Self::Tcp(_) | Self::Unix(_) => false,
        }
    }

    /// Whether written bytes wait for the kernel, or for the client to take more.
    pub(super) fn has_untaken(&self) -> bool {
        self.has_unsent() || matches!(self, Self::Https(stream) if stream.has_responses())
    }

    /// Ends one direction, or both.
    pub(super) fn shutdown(&mut self, how: Shutdown) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(how),
            Self::Tls(stream) => stream.shutdown(how),
            Self::Https(stream) => stream.shutdown(how),
            Self::Unix(stream) => stream.shutdown(how),
        }
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Tcp(stream) => stream,
            Self::Tls(stream) => &mut stream.socket,
            Self::Https(stream) => &mut stream.tls.socket,
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
            Self::Https(stream) => stream.read(buffer),
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
            Self::Https(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    /// Passes what TLS holds back to the kernel; an error if it has no room for all. All else is passed to it at once.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tls(stream) => stream.flush(),
            Self::Https(stream) => stream.flush(),
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
