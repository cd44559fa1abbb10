//! The faults that the server can make.

use std::fmt;

/// A change to a reply, to a connection or to a handshake. Beside each stands what the player must count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// The reply's question has another name: wrong, `question`.
    WrongQuestion,
    /// The reply waits for more than the timeout and less than the drain: late.
    Late,
    /// There is no reply: lost by time.
    Never,
    /// The connection is reset: lost by `reset`.
    Reset,
    /// The same after half of the reply.
    ResetInReply,
    /// The connection is closed with open queries: lost by `closed`.
    Close,
    /// The reply comes, and the server closes its direction: correct, and the connection is closed as `idle`, or as
    /// `closed` if the player sent another query meanwhile.
    HalfClose,
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
    /// The connection is closed in the handshake: failed by `closed`.
    HandshakeClose,
    /// There is no handshake: failed by `connect-timeout`.
    Mute,
}

/// What a fault is about.
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
    pub const ALL: [Self; 26] = [
        Self::Split,
        Self::Join,
        Self::Reorder,
        Self::Twice,
        Self::Empty,
        Self::WrongId,
        Self::WrongQuestion,
        Self::Late,
        Self::Never,
        Self::Reset,
        Self::ResetInReply,
        Self::Close,
        Self::HalfClose,
        Self::TooLong,
        Self::Garbage,
        Self::Alert,
        Self::NoNotify,
        Self::HandshakeAlert,
        Self::OtherAlpn,
        Self::PlainAnswer,
        Self::OtherName,
        Self::Expired,
        Self::UnknownIssuer,
        Self::HandshakeReset,
        Self::HandshakeClose,
        Self::Mute,
    ];

    /// Its name in the counts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Split => "split",
            Self::Join => "join",
            Self::Reorder => "reorder",
            Self::Twice => "twice",
            Self::Empty => "empty",
            Self::WrongId => "wrong-id",
            Self::WrongQuestion => "wrong-question",
            Self::Late => "late",
            Self::Never => "never",
            Self::Reset => "reset",
            Self::ResetInReply => "reset-in-reply",
            Self::Close => "close",
            Self::HalfClose => "half-close",
            Self::TooLong => "too-long",
            Self::Garbage => "garbage",
            Self::Alert => "alert",
            Self::NoNotify => "no-notify",
            Self::HandshakeAlert => "handshake-alert",
            Self::OtherAlpn => "other-alpn",
            Self::PlainAnswer => "plain-answer",
            Self::OtherName => "other-name",
            Self::Expired => "expired",
            Self::UnknownIssuer => "unknown-issuer",
            Self::HandshakeReset => "handshake-reset",
            Self::HandshakeClose => "handshake-close",
            Self::Mute => "mute",
        }
    }

    /// What it is about.
    pub fn stage(self) -> Stage {
        match self.failure() {
            Some(_) => Stage::Handshake,
            None if self >= Self::Reset => Stage::End,
            None => Stage::Reply,
        }
    }

    /// Whether it exists only in TLS.
    pub fn needs_tls(self) -> bool {
        self.stage() == Stage::Handshake || matches!(self, Self::Alert | Self::NoNotify)
    }

    /// The cause by which the player counts the attempt as failed, and the query that waits for it as lost; `None` if
    /// the handshake succeeds.
    pub fn failure(self) -> Option<&'static str> {
        match self {
            Self::HandshakeAlert => Some("tls-alert"),
            Self::OtherAlpn => Some("alpn"),
            Self::PlainAnswer => Some("tls"),
            Self::OtherName | Self::Expired | Self::UnknownIssuer => Some("certificate"),
            Self::HandshakeReset => Some("reset"),
            Self::HandshakeClose => Some("closed"),
            Self::Mute => Some("connect-timeout"),
            _ => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_is_of_one_stage() {
        let of = |stage| Fault::ALL.into_iter().filter(|fault| fault.stage() == stage).count();
        assert_eq!((of(Stage::Reply), of(Stage::End), of(Stage::Handshake)), (9, 8, 9));
        assert!(Fault::ALL.is_sorted());
        assert!(Fault::Mute.needs_tls() && Fault::Alert.needs_tls() && !Fault::Reset.needs_tls());
    }
}
