//! Why a connection ended, or was not made.

use std::fmt;

use kqps_tls::Failure;
use quinn_proto::ConnectionError;

use crate::code;

/// The codes of QUIC that stand for alerts of TLS (RFC 9001, section 4.8).
const ALERTS: std::ops::Range<u64> = 0x100..0x200;

/// Why a connection ended, or was not made, unless its own side closed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing arrived for too long.
    TimedOut,
    /// The peer closed it, with this code.
    Closed {
        /// The code: of RFC 9250 if the application closed it, otherwise of RFC 9000, section 20.1.
        code: u64,
        /// Whether the application closed it, and not QUIC below it.
        by_application: bool,
    },
    /// The peer does not know the connection (a stateless reset, RFC 9000, section 10.3).
    Reset,
    /// The handshake failed by TLS.
    Tls(Failure),
    /// The peer speaks no version of QUIC that this side speaks.
    Version,
    /// The peer did something that QUIC forbids; what it was.
    Transport(String),
    /// The peer broke a rule of RFC 9250; which one.
    Rules(&'static str),
}

impl End {
    /// The end that quinn-proto reports. `failure` is why TLS failed, if it did. `None` if this side closed it.
    pub(crate) fn from_error(reason: ConnectionError, failure: Option<Failure>) -> Option<Self> {
        Some(match reason {
            ConnectionError::VersionMismatch => Self::Version,
            ConnectionError::TransportError(error) => match failure {
                Some(failure) => Self::Tls(failure),
                None => Self::Transport(error.to_string()),
            },
            ConnectionError::ConnectionClosed(close) => {
                let code = u64::from(close.error_code);
                if ALERTS.contains(&code) {
                    // The last byte is the number of the alert.
                    let [.., alert] = code.to_be_bytes();
                    Self::Tls(Failure::of_alert(alert))
                } else {
                    Self::Closed { code, by_application: false }
                }
            }
            ConnectionError::ApplicationClosed(close) => {
                Self::Closed { code: close.error_code.into_inner(), by_application: true }
            }
            ConnectionError::Reset => Self::Reset,
            ConnectionError::TimedOut => Self::TimedOut,
            ConnectionError::LocallyClosed => return None,
            ConnectionError::CidsExhausted => Self::Transport("no connection ID is left".to_owned()),
        })
    }
}

impl fmt::Display for End {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut => formatter.write_str("timed out"),
            Self::Closed { code, by_application: true } => match code::name(*code) {
                Some(name) => write!(formatter, "closed with {code:#x} ({name})"),
                None => write!(formatter, "closed with {code:#x}"),
            },
            Self::Closed { code, by_application: false } => {
                write!(formatter, "closed by QUIC with {code:#x}")
            }
            Self::Reset => formatter.write_str("stateless reset"),
            Self::Tls(failure) => failure.fmt(formatter),
            Self::Version => formatter.write_str("no common version of QUIC"),
            Self::Transport(what) => write!(formatter, "QUIC: {what}"),
            Self::Rules(what) => write!(formatter, "DoQ: {what}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_their_names() {
        let close = |code, by_application| End::Closed { code, by_application }.to_string();
        assert_eq!(close(4, true), "closed with 0x4 (DOQ_EXCESSIVE_LOAD)");
        assert_eq!(close(77, true), "closed with 0x4d");
        assert_eq!(close(2, false), "closed by QUIC with 0x2");
        assert_eq!(End::from_error(ConnectionError::LocallyClosed, None), None);
        assert_eq!(End::from_error(ConnectionError::TimedOut, None), Some(End::TimedOut));
    }
}
