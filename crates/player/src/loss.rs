//! Why a query is lost.

use kqps_quic::End;
use kqps_tls::Failure;
use strum::VariantNames;

/// Why a query is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Loss {
    /// No reply came in the time that the player waits for one.
    Time,
    /// The subject closed the flow.
    Closed,
    /// The subject closed the idle flow before the query reached it.
    IdleRace,
    /// The subject or the network reset the flow.
    Reset,
    /// The subject refused the connection.
    Refused,
    /// No route leads to the subject.
    Unreachable,
    /// The connection was not made in time.
    ConnectTimeout,
    /// This host had no descriptor or memory left for the connection, or its kernel reported another error of its own.
    Local,
    /// Every port of the source address that was tried is in use.
    Ports,
    /// The source address is not one of this host's, or does not reach the target.
    Address,
    /// The subject sent an alert of TLS.
    TlsAlert,
    /// The subject's certificate is not accepted.
    Certificate,
    /// The player and the subject have no application protocol in common (ALPN).
    Alpn,
    /// The subject did something that TLS forbids.
    Tls,
    /// The subject went away (GOAWAY, RFC 9113, section 6.8), and did not process the query.
    #[strum(serialize = "goaway")]
    GoAway,
    /// The subject ended the stream of this query alone (`RST_STREAM`, RFC 9113, section 6.4; RFC 9250, section 4.3).
    StreamReset,
    /// Nothing came on the connection for too long.
    IdleTimeout,
    /// The subject closed the connection of QUIC, with a code.
    QuicClose,
    /// The player and the subject have no version of QUIC in common.
    Version,
    /// The subject did something that QUIC forbids.
    Transport,
    /// The subject broke a rule of HTTP/2, or of DNS over QUIC.
    Framing,
}

impl Loss {
    /// The names, by [`Self::number`].
    pub const NAMES: &[&str] = Self::VARIANTS;

    /// The cause of a query whose handshake, or whose connection, failed by TLS.
    pub fn from_failure(failure: &Failure) -> Self {
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
            End::Tls(failure) => Self::from_failure(failure),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_as_they_are() {
        let expected = "time closed idle-race reset refused unreachable connect-timeout local ports address \
             tls-alert certificate alpn tls goaway stream-reset idle-timeout quic-close version \
             transport framing";
        assert_eq!(Loss::NAMES.join(" "), expected);
        assert_eq!(Loss::NAMES[Loss::Framing.number()], "framing");
    }
}
