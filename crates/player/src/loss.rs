//! Why a query is lost.

use kqps_quic::End;
use kqps_tls::Failure;

/// Why a query is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No reply came in the time that the player waits for one.
    Time,
    /// The subject closed the flow.
    Closed,
    /// The subject or the network reset the flow.
    Reset,
    /// The subject refused the connection.
    Refused,
    /// No route leads to the subject.
    Unreachable,
    /// The connection was not made in time.
    ConnectTimeout,
    /// This host had no port, descriptor or memory left for the connection.
    Local,
    /// The subject sent an alert of TLS.
    TlsAlert,
    /// The subject's certificate is not accepted.
    Certificate,
    /// The player and the subject have no application protocol in common (ALPN).
    Alpn,
    /// The subject did something that TLS forbids.
    Tls,
    /// Nothing came on the connection for too long.
    IdleTimeout,
    /// The subject closed the connection of QUIC, with a code.
    QuicClose,
    /// The subject ended the query's stream without a reply.
    StreamReset,
    /// The player and the subject have no version of QUIC in common.
    Version,
    /// The subject did something that QUIC forbids.
    Transport,
    /// The subject broke a rule for messages on connections or streams.
    Framing,
}

impl Loss {
    /// The names, by [`Self::number`].
    pub const NAMES: [&'static str; 17] = [
        "time",
        "closed",
        "reset",
        "refused",
        "unreachable",
        "connect-timeout",
        "local",
        "tls-alert",
        "certificate",
        "alpn",
        "tls",
        "idle-timeout",
        "quic-close",
        "stream-reset",
        "version",
        "transport",
        "framing",
    ];

    /// The cause of a query whose handshake, or whose connection, failed by TLS.
    pub fn of(failure: &Failure) -> Self {
        match failure {
            Failure::Alert(_) => Self::TlsAlert,
            Failure::Certificate(_) => Self::Certificate,
            Failure::Alpn => Self::Alpn,
            Failure::Protocol(_) => Self::Tls,
        }
    }

    /// The cause of a query whose connection of QUIC could not be made.
    pub fn of_quic(end: &End) -> Self {
        match end {
            End::TimedOut => Self::ConnectTimeout,
            End::Closed { .. } => Self::QuicClose,
            End::Reset => Self::Reset,
            End::Tls(failure) => Self::of(failure),
            End::Version => Self::Version,
            End::Transport(_) => Self::Transport,
            End::Rules(_) => Self::Framing,
        }
    }

    /// The index of this cause among the counts of all causes.
    pub fn number(self) -> usize {
        self as usize
    }
}
