//! The faults that the server can make, the wires that have them, and what a player must count for each.

use std::fmt;

use super::kind::Kind::{self, Https, Quic, Tcp, Tls};
use crate::shares::Fate::{self, Correct, Failed, Other, Wrong};

/// The wires that have a fault.
const ANY: &[Kind] = &Kind::ALL;
const BYTES: &[Kind] = &[Tcp, Tls];
const STREAMS: &[Kind] = &[Https, Quic];
const OVER_TCP: &[Kind] = &[Tcp, Tls, Https];
const TLS_OVER_TCP: &[Kind] = &[Tls, Https];
const SECURE: &[Kind] = &[Tls, Https, Quic];
const HTTPS: &[Kind] = &[Https];
const QUIC: &[Kind] = &[Quic];

enumeration! {
    /// A change to a reply, to a connection or to a handshake, in the order in which a draw considers them. Beside each
    /// stands what the player must count.
    pub enum Fault: Facts {
        /// The reply leaves in two pieces, cut at the next offset of all: correct.
        Split => reply("split", ANY, Correct),
        /// The reply waits for others, and leaves with them by one call: correct.
        Join => reply("join", ANY, Correct),
        /// The reply waits for the next one on its connection: correct.
        Reorder => reply("reorder", ANY, Correct),
        /// The reply comes twice: correct, and one duplicate.
        Twice => reply("twice", BYTES, Correct),
        /// A message of no bytes comes before the reply: correct, and one unsolicited.
        Empty => reply("empty", BYTES, Correct),
        /// The reply has an ID that is not outstanding: lost by time, and one unsolicited.
        WrongId => reply("wrong-id", BYTES, Other),
        /// The reply has an ID that is not 0, on a stream of its own: wrong, `id`.
        NotZero => reply("not-zero", STREAMS, Wrong("id")),
        /// The reply's question has another name: wrong, `question`.
        WrongQuestion => reply("wrong-question", ANY, Wrong("question")),
        /// The response has the status 503, and no message: wrong, `status-503`.
        Status503 => reply("status-503", HTTPS, Wrong("status-503")),
        /// The response has the status 404, with the right message: wrong, `status-404`.
        Status404 => reply("status-404", HTTPS, Wrong("status-404")),
        /// The response has another content type, with the right message: wrong, `content-type`.
        ContentType => reply("content-type", HTTPS, Wrong("content-type")),
        /// The stream ends without a reply, with `REFUSED_STREAM` or `DOQ_EXCESSIVE_LOAD`: lost by `stream-reset`.
        StreamRefused => reply("stream-refused", STREAMS, Other),
        /// The stream ends without a reply, with `INTERNAL_ERROR` or `DOQ_INTERNAL_ERROR`: lost by `stream-reset`.
        StreamFailed => reply("stream-failed", STREAMS, Other),
        /// The stream ends without a reply, with `CANCEL`: lost by `stream-reset`.
        StreamCancelled => reply("stream-cancelled", HTTPS, Other),
        /// The reply waits for more than the timeout and less than the drain: late.
        Late => reply("late", ANY, Other),
        /// There is no reply: lost by time.
        Never => reply("never", ANY, Other),
        /// The connection is reset, over QUIC by a stateless reset: lost by `reset`.
        Reset => end("reset", ANY, Other),
        /// The connection is reset after half of the reply: lost by `reset`.
        ResetInReply => end("reset-in-reply", OVER_TCP, Other),
        /// The connection is closed with open queries: lost by `closed`, or over QUIC by `quic-close`.
        Close => end("close", ANY, Other),
        /// The connection is closed with open queries and the code `DOQ_INTERNAL_ERROR`: lost by `quic-close`.
        CloseFailed => end("close-failed", QUIC, Other),
        /// The connection is closed with open queries and the code `DOQ_EXCESSIVE_LOAD`: lost by `quic-close`.
        CloseLoaded => end("close-loaded", QUIC, Other),
        /// The reply comes, and the server closes its direction: correct, and the connection is closed as `idle`, or as
        /// with [`Self::Close`] if the player sent another query meanwhile.
        HalfClose => end("half-close", ANY, Correct),
        /// The server goes away (GOAWAY) after this query, and answers it: correct. Later ones are lost by `goaway`.
        GoAway => end("goaway", HTTPS, Correct),
        /// The server goes away, and has processed nothing that is open: lost by `goaway`.
        GoAwayAll => end("goaway-all", HTTPS, Other),
        /// The server breaks a rule of HTTP/2, or of RFC 9250: lost by `framing`.
        Framing => end("framing", STREAMS, Other),
        /// The reply follows a length that is too large, and the connection is closed: lost by `closed`.
        TooLong => end("too-long", BYTES, Other),
        /// Bytes that are no message come instead of the reply, and the connection is closed: lost by `closed`.
        Garbage => end("garbage", BYTES, Other),
        /// An alert of TLS comes instead of the reply: lost by `tls-alert`.
        Alert => end("alert", TLS_OVER_TCP, Other),
        /// The connection is closed without `close_notify`: lost by `closed`.
        NoNotify => end("no-notify", TLS_OVER_TCP, Other),
        /// An alert comes instead of a handshake: failed by `tls-alert`.
        HandshakeAlert => handshake("handshake-alert", TLS_OVER_TCP, Failed("tls-alert")),
        /// The alert says that there is no common application protocol: failed by `alpn`.
        OtherAlpn => handshake("other-alpn", SECURE, Failed("alpn")),
        /// The handshake agrees on no application protocol: failed by `alpn`.
        NoAlpn => handshake("no-alpn", HTTPS, Failed("alpn")),
        /// A message without TLS answers the client's first: failed by `tls`.
        PlainAnswer => handshake("plain-answer", TLS_OVER_TCP, Failed("tls")),
        /// The certificate names another server: failed by `certificate`.
        OtherName => handshake("other-name", SECURE, Failed("certificate")),
        /// The certificate is too old: failed by `certificate`.
        Expired => handshake("expired", SECURE, Failed("certificate")),
        /// The certificate's issuer is unknown: failed by `certificate`.
        UnknownIssuer => handshake("unknown-issuer", SECURE, Failed("certificate")),
        /// The connection is reset in the handshake: failed by `reset`.
        HandshakeReset => handshake("handshake-reset", TLS_OVER_TCP, Failed("reset")),
        /// The connection is closed in the handshake: failed by `closed`, or over QUIC by `quic-close`.
        HandshakeClose => handshake("handshake-close", SECURE, Failed("closed")),
        /// There is no handshake: failed by `connect-timeout`.
        Mute => handshake("mute", SECURE, Failed("connect-timeout")),
        /// The server refuses the connection (`CONNECTION_REFUSED`): failed by `quic-close`.
        Refused => handshake("refused", QUIC, Failed("quic-close")),
        /// The server speaks another version of QUIC: failed by `version`.
        OtherVersion => handshake("other-version", QUIC, Failed("version")),
        /// The server wants the client's address confirmed first (Retry): the handshake succeeds, and one retry.
        Retry => handshake("retry", QUIC, Other),
        /// The handshake succeeds, and nothing comes after it: lost by `idle-timeout`, as the connection is closed.
        Silent => handshake("silent", QUIC, Other),
    }
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

/// The facts of a fault.
struct Facts {
    name: &'static str,
    stage: Stage,
    wires: &'static [Kind],
    fate: Fate,
}

const fn reply(name: &'static str, wires: &'static [Kind], fate: Fate) -> Facts {
    Facts { name, stage: Stage::Reply, wires, fate }
}

const fn end(name: &'static str, wires: &'static [Kind], fate: Fate) -> Facts {
    Facts { name, stage: Stage::End, wires, fate }
}

const fn handshake(name: &'static str, wires: &'static [Kind], fate: Fate) -> Facts {
    Facts { name, stage: Stage::Handshake, wires, fate }
}

impl Fault {
    /// Its name in the counts.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// The stage at which it is made.
    pub fn stage(self) -> Stage {
        self.facts().stage
    }

    /// Whether it exists on a wire.
    pub fn is_over(self, kind: Kind) -> bool {
        self.facts().wires.contains(&kind)
    }

    /// The cause by which the player counts the attempt as failed, and the query that waits for it as lost; `None` if
    /// the handshake succeeds.
    pub fn failure(self, kind: Kind) -> Option<&'static str> {
        match self.facts().fate {
            Failed("closed") if kind == Quic => Some("quic-close"),
            Failed(cause) => Some(cause),
            _ => None,
        }
    }

    /// The cause by which the player counts the reply as wrong; `None` if it is not.
    pub fn wrong(self) -> Option<&'static str> {
        match self.facts().fate {
            Wrong(cause) => Some(cause),
            _ => None,
        }
    }

    /// Whether the player counts the query as correct.
    pub fn is_correct(self) -> bool {
        self.facts().fate == Correct
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
        assert_eq!((of(Stage::Reply), of(Stage::End), of(Stage::Handshake)), (16, 13, 14));
        assert!(Fault::ALL.is_sorted());
    }

    #[test]
    fn each_wire_has_its_faults() {
        let of = |kind| Fault::ALL.into_iter().filter(|fault| fault.is_over(kind)).count();
        assert_eq!(Kind::ALL.map(of), [15, 26, 32, 25]);
        for kind in Kind::ALL {
            for fault in Fault::ALL {
                assert!(fault.failure(kind).is_none() || fault.stage() == Stage::Handshake, "{fault}");
            }
        }
        assert!(Fault::Mute.is_over(Quic) && !Fault::Mute.is_over(Tcp));
    }

    #[test]
    fn no_fault_has_two_fates() {
        for fault in Fault::ALL {
            let fates = [fault.wrong().is_some(), fault.is_correct(), fault.failure(Quic).is_some()];
            assert!(fates.into_iter().filter(|fate| *fate).count() <= 1, "{fault}");
        }
    }
}
