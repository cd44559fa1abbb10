//! The bytes of a connection, over TCP or a Unix socket.

use std::io::{self, Read, Write};
use std::net::Shutdown;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};

/// A connected, non-blocking socket.
pub enum Stream {
    /// A TCP connection.
    Tcp(TcpStream),
    /// A connection to a Unix socket.
    Unix(UnixStream),
}

impl Stream {
    /// Makes TCP send what is written at once (`TCP_NODELAY`): replies are written as a whole, so delaying a
    /// small one gains nothing.
    pub(super) fn hold_nothing_back(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nodelay(true),
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

    /// Ends one direction, or both.
    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(how),
            Self::Unix(stream) => stream.shutdown(how),
        }
    }

    fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Tcp(stream) => stream,
            Self::Unix(stream) => stream,
        }
    }
}

impl Read for Stream {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    /// Does nothing: written bytes are passed to the kernel at once.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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
