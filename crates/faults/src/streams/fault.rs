//! The faults that the server can make, the wires that have them, and what a player must count for each.

use strum::{Display, IntoStaticStr, VariantArray};

use super::kind::Kind;

/// A change to a reply, to a connection or to a handshake. Beside each stands what the player must count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Display, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Fault {
    /// The reply leaves in two pieces, cut at the next offset of all: correct.
    Split,
    /// The reply waits for others, and leaves with them by one call: correct.
    Join,
    /// The reply waits for the next one on its connection: correct.
    Reorder,
    /// The reply comes twice: correct, and one duplicate.
    Twice,
    /// A message of no bytes comes before the reply: correct, and one unsolicited.
    Empty,
    /// The reply has an ID that is not outstanding: lost by time, and one unsolicited.
    WrongId,
    /// The reply has an ID that is not 0, on a stream of its own: wrong, `id`.
    NotZero,
    /// The reply's question has another name: wrong, `question`.
    WrongQuestion,
    /// The response has the status 503, and no message: wrong, `status-503`.
    #[strum(serialize = "status-503")]
    Status503,
    /// The response has the status 404, with the right message: wrong, `status-404`.
    #[strum(serialize = "status-404")]
    Status404,
    /// The response has another content type, with the right message: wrong, `content-type`.
    ContentType,
    /// The stream ends without a reply, with `REFUSED_STREAM` or `DOQ_EXCESSIVE_LOAD`: lost by `stream-reset`.
    StreamRefused,
    /// The stream ends without a reply, with `INTERNAL_ERROR` or `DOQ_INTERNAL_ERROR`: lost by `stream-reset`.
    StreamFailed,
    /// The stream ends without a reply, with `CANCEL`: lost by `stream-reset`.
    StreamCancelled,
    /// The reply waits for more than the timeout and less than the drain: late.
    Late,
    /// There is no reply: lost by time.
    Never,
    /// The connection is reset, over QUIC by a stateless reset: lost by `reset`.
    Reset,
    /// The connection is reset after half of the reply: lost by `reset`.
    ResetInReply,
    /// The connection is closed with open queries: lost by `closed`, or over QUIC by `quic-close`.
    Close,
    /// The connection is closed with open queries and the code `DOQ_INTERNAL_ERROR`: lost by `quic-close`.
    CloseFailed,
    /// The connection is closed with open queries and the code `DOQ_EXCESSIVE_LOAD`: lost by `quic-close`.
    CloseLoaded,
    /// The reply comes, and the server closes its direction: correct, and the connection is closed as `idle`, or as
    /// with [`Self::Close`] if the player sent another query meanwhile.
    HalfClose,
    /// The server goes away (GOAWAY) after this query, and answers it: correct. Later ones are lost by `goaway`.
    #[strum(serialize = "goaway")]
    GoAway,
    /// The server goes away, and has processed nothing that is open: lost by `goaway`.
    #[strum(serialize = "goaway-all")]
    GoAwayAll,
    /// The server breaks a rule of HTTP/2, or of RFC 9250: lost by `framing`.
    Framing,
    /// The reply follows a length that is too large, and the connection is closed: lost by `closed`.
    TooLong,
    /// Bytes that are no message come instead of the reply, and the connection is closed: lost by `closed`.
    Garbage,
    /// An alert of TLS comes instead of the reply: lost by `tls-alert`.
    Alert,
    /// The connection is closed without `close_notify`: lost by `closed`.
    NoNotify,
    /// An alert comes instead of a handshake: failed by `tls-alert`.
    HandshakeAlert,
    /// The alert says that there is no common application protocol: failed by `alpn`.
    OtherAlpn,
    /// The handshake agrees on no application protocol: failed by `alpn`.
    NoAlpn,
    /// A message without TLS answers the client's first: failed by `tls`.
    PlainAnswer,
    /// The certificate names another server: failed by `certificate`.
    OtherName,
    /// The certificate is too old: failed by `certificate`.
    Expired,
    /// The certificate's issuer is unknown: failed by `certificate`.
    UnknownIssuer,
    /// The connection is reset in the handshake: failed by `reset`.
    HandshakeReset,
    /// The connection is closed in the handshake: failed by `closed`, or over QUIC by `quic-close`.
    HandshakeClose,
    /// There is no handshake: failed by `connect-timeout`.
    Mute,
    /// The server refuses the connection (`CONNECTION_REFUSED`): failed by `quic-close`.
    Refused,
    /// The server speaks another version of QUIC: failed by `version`.
    OtherVersion,
    /// The server wants the client's address confirmed first (Retry): the handshake succeeds, and one retry.
    Retry,
    /// The handshake succeeds, and nothing comes after it: lost by `idle-timeout`, as the connection is closed.
    Silent,
}

/// The stage at which a fault is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The reply to a query.
    Reply,
    /// The end of a connection.
    End,
    /// The handshake of a connection.
    Handshake,
}

impl Fault {
    /// All of them, in the order in which a draw considers them.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Its name in the counts.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The stage at which it is made.
    pub fn stage(self) -> Stage {
        if self >= Self::HandshakeAlert {
            Stage::Handshake
        } else if self >= Self::Reset {
            Stage::End
        } else {
            Stage::Reply
        }
    }

    /// Whether it exists on a wire.
    pub fn is_over(self, kind: Kind) -> bool {
        let is_stream_of_bytes = matches!(kind, Kind::Tcp | Kind::Tls);
        let is_tls_over_tcp = matches!(kind, Kind::Tls | Kind::Https);
        match self {
            Self::Split
            | Self::Join
            | Self::Reorder
            | Self::WrongQuestion
            | Self::Late
            | Self::Never
            | Self::Reset
            | Self::Close
            | Self::HalfClose => true,
            Self::Twice | Self::Empty | Self::WrongId | Self::TooLong | Self::Garbage => is_stream_of_bytes,
            Self::NotZero | Self::StreamRefused | Self::StreamFailed | Self::Framing => kind.has_streams(),
            Self::Status503
            | Self::Status404
            | Self::ContentType
            | Self::StreamCancelled
            | Self::GoAway
            | Self::GoAwayAll
            | Self::NoAlpn => kind == Kind::Https,
            Self::ResetInReply => kind != Kind::Quic,
            Self::Alert
            | Self::NoNotify
            | Self::HandshakeAlert
            | Self::PlainAnswer
            | Self::HandshakeReset => is_tls_over_tcp,
            Self::OtherAlpn
            | Self::OtherName
            | Self::Expired
            | Self::UnknownIssuer
            | Self::HandshakeClose
            | Self::Mute => kind != Kind::Tcp,
            Self::CloseFailed
            | Self::CloseLoaded
            | Self::Refused
            | Self::OtherVersion
            | Self::Retry
            | Self::Silent => kind == Kind::Quic,
        }
    }

    /// The cause by which the player counts the attempt as failed, and the query that waits for it as lost; `None` if
    /// the handshake succeeds.
    pub fn failure(self, kind: Kind) -> Option<&'static str> {
        match self {
            Self::HandshakeAlert => Some("tls-alert"),
            Self::OtherAlpn | Self::NoAlpn => Some("alpn"),
            Self::PlainAnswer => Some("tls"),
            Self::OtherName | Self::Expired | Self::UnknownIssuer => Some("certificate"),
            Self::HandshakeReset => Some("reset"),
            Self::HandshakeClose if kind == Kind::Quic => Some("quic-close"),
            Self::HandshakeClose => Some("closed"),
            Self::Mute => Some("connect-timeout"),
            Self::Refused => Some("quic-close"),
            Self::OtherVersion => Some("version"),
            _ => None,
        }
    }

    /// The cause by which the player counts the reply as wrong; `None` if it is not.
    pub fn wrong(self) -> Option<&'static str> {
        match self {
            Self::NotZero => Some("id"),
            Self::WrongQuestion => Some("question"),
            Self::Status503 => Some("status-503"),
            Self::Status404 => Some("status-404"),
            Self::ContentType => Some("content-type"),
            _ => None,
        }
    }

    /// Whether the player counts the query as correct.
    pub fn is_correct(self) -> bool {
        matches!(
            self,
            Self::Split
                | Self::Join
                | Self::Reorder
                | Self::Twice
                | Self::Empty
                | Self::HalfClose
                | Self::GoAway
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_as_they_are() {
        let names: Vec<&str> = Fault::ALL.iter().map(|fault| fault.name()).collect();
        let expected = "split join reorder twice empty wrong-id not-zero wrong-question status-503 status-404 \
             content-type stream-refused stream-failed stream-cancelled late never reset \
             reset-in-reply close close-failed close-loaded half-close goaway goaway-all framing \
             too-long garbage alert no-notify handshake-alert other-alpn no-alpn plain-answer \
             other-name expired unknown-issuer handshake-reset handshake-close mute refused \
             other-version retry silent";
        assert_eq!(names.join(" "), expected);
        assert_eq!(Fault::GoAwayAll.to_string(), "goaway-all");
    }

    #[test]
    fn each_fault_is_of_one_stage() {
        let of = |stage| Fault::ALL.iter().filter(|fault| fault.stage() == stage).count();
        assert_eq!((of(Stage::Reply), of(Stage::End), of(Stage::Handshake)), (16, 13, 14));
        assert!(Fault::ALL.is_sorted());
    }

    #[test]
    fn each_wire_has_its_faults() {
        let of = |kind| Fault::ALL.iter().filter(|fault| fault.is_over(kind)).count();
        assert_eq!(Kind::ALL.map(of), [15, 26, 32, 25]);
        for kind in Kind::ALL {
            for fault in Fault::ALL {
                assert!(fault.failure(kind).is_none() || fault.stage() == Stage::Handshake, "{fault}");
            }
        }
        assert!(Fault::Mute.is_over(Kind::Quic) && !Fault::Mute.is_over(Kind::Tcp));
    }

    #[test]
    fn no_fault_has_two_fates() {
        for fault in Fault::ALL {
            let fates = [fault.wrong().is_some(), fault.is_correct(), fault.failure(Kind::Quic).is_some()];
            assert!(fates.into_iter().filter(|fate| *fate).count() <= 1, "{fault}");
        }
    }
}
