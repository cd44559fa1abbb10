//! Why a query is lost.

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
