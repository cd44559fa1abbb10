//! Why there is no reply.

use std::io::{self, ErrorKind};

use kqps_quic::End;

pub(crate) type Result<T> = std::result::Result<T, AskError>;

/// Why there is no reply. The messages speak of the server as *it*.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The reply, or the handshake, did not come in time.
    #[error("it did not answer in time")]
    TimedOut,
    /// The server closed the connection.
    #[error("it closed the connection")]
    Closed,
    /// A reply on a connection has the ID of another query.
    #[error("it sent a reply to another query")]
    OtherId,
    /// The system's error of a socket.
    #[error(transparent)]
    Socket(io::Error),
    /// QUIC cannot connect to this address; why.
    #[error("{0}")]
    Address(String),
    /// TLS failed.
    #[error("{0}")]
    Tls(kqps_tls::Failure),
    /// HTTP/2 failed.
    #[error("{0}")]
    Http(kqps_http::Failure),
    /// QUIC ended the connection, or made none.
    #[error("{0}")]
    Quic(End),
    /// HTTP/2 has no room for another request, or the server goes away.
    #[error("it takes no request")]
    NoRoom,
    /// A response has this status, or contains no DNS message.
    #[error("it answered a request with status {0}")]
    Status(u16),
    /// A request has no response; its fate, in words.
    #[error("it did not answer a request: {0}")]
    NoResponse(String),
    /// The server reset the stream of a query over QUIC, with this code.
    #[error("it reset the stream of a query with {0:#x}")]
    StreamReset(u64),
}

impl From<io::Error> for AskError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Self::TimedOut,
            _ => Self::Socket(error),
        }
    }
}

impl From<End> for AskError {
    fn from(end: End) -> Self {
        if end == End::TimedOut { Self::TimedOut } else { Self::Quic(end) }
    }
}
