//! Why a query is lost.

use std::io;

pub use kqps_catalogue::cause::Loss;
use kqps_quic::End;
use kqps_tls::Failure;

/// The cause of a query whose handshake, or whose connection, failed by TLS.
pub fn by_failure(failure: &Failure) -> Loss {
    match failure {
        Failure::Alert(_) => Loss::TlsAlert,
        Failure::Certificate(_) => Loss::Certificate,
        Failure::Alpn => Loss::Alpn,
        Failure::Protocol(_) => Loss::Tls,
    }
}

/// The cause of a query whose connection of QUIC could not be made.
pub fn by_end(end: &End) -> Loss {
    match end {
        End::TimedOut => Loss::ConnectTimeout,
        End::Closed { .. } => Loss::QuicClose,
        End::Reset => Loss::Reset,
        End::Tls(failure) => by_failure(failure),
        End::Version => Loss::Version,
        End::Transport(_) => Loss::Transport,
        End::Rules(_) => Loss::Framing,
    }
}

/// Why an attempt failed.
pub fn by_error(error: &io::Error) -> Loss {
    use io::ErrorKind::{
        AddrNotAvailable, ConnectionRefused, ConnectionReset, HostUnreachable, InvalidInput, NetworkDown,
        NetworkUnreachable, TimedOut,
    };
    match error.kind() {
        ConnectionRefused => Loss::Refused,
        ConnectionReset => Loss::Reset,
        HostUnreachable | NetworkUnreachable | NetworkDown => Loss::Unreachable,
        TimedOut => Loss::ConnectTimeout,
        AddrNotAvailable => Loss::Ports,
        InvalidInput => Loss::Address,
        _ => Loss::Local,
    }
}
