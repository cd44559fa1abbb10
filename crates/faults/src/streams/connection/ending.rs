//! How the server ends connections, and spoils handshakes.

use super::{Connection, Ending};
use crate::streams::fault::Fault;
use crate::streams::http2;
use crate::streams::outbox::Then;
use crate::streams::reply::{self, APART_NS, Query};
use crate::streams::shared::Shared;

/// An alert in place of a handshake: `handshake_failure`, or `no_application_protocol` (RFC 8446, section 6.2).
const NO_HANDSHAKE: [u8; 7] = [21, 3, 3, 0, 2, 2, 40];
const NO_PROTOCOL: [u8; 7] = [21, 3, 3, 0, 2, 2, 120];

impl Connection {
    /// Spoils the handshake.
    pub(super) fn spoil(&mut self, fault: Fault, shared: &mut Shared, now_ns: u64) {
        shared.counts.spoil(fault, shared.settings.wire.kind());
        self.ending = Some(Ending::Handshake);
        // A bad certificate comes in an ordinary handshake, and so does the lack of a protocol.
        self.is_deaf =
            !matches!(fault, Fault::OtherName | Fault::Expired | Fault::UnknownIssuer | Fault::NoAlpn);
        match fault {
            Fault::HandshakeAlert => self.out.push_apart(NO_HANDSHAKE.to_vec(), 0, Some(Then::Fin)),
            Fault::OtherAlpn => self.out.push_apart(NO_PROTOCOL.to_vec(), 0, Some(Then::Fin)),
            Fault::PlainAnswer => self.out.push(&reply::framed(b"no message in TLS")),
            Fault::HandshakeReset => self.out.push_apart(Vec::new(), now_ns, Some(Then::Reset)),
            Fault::HandshakeClose => self.out.push_apart(Vec::new(), now_ns, Some(Then::Fin)),
            // A mute server sends nothing.
            _ => {}
        }
    }

    /// Ends the connection, instead of a reply or after it.
    pub(super) fn end(&mut self, fault: Fault, query: Query, shared: &mut Shared, now_ns: u64) {
        self.ending = Some(match fault {
            Fault::Reset | Fault::ResetInReply => Ending::By("reset"),
            Fault::Alert => Ending::By("tls-alert"),
            Fault::GoAway | Fault::GoAwayAll => Ending::By("goaway"),
            Fault::Framing => Ending::By("framing"),
            _ => Ending::Fin,
        });
        match fault {
            Fault::Reset => self.out.push_apart(Vec::new(), now_ns, Some(Then::Reset)),
            Fault::ResetInReply => {
                let frame = self.right(query);
                let mut bytes = self.layer.seal(&frame);
                bytes.truncate(bytes.len() / 2);
                self.out.push_apart(bytes, now_ns, None);
                self.out.push_apart(Vec::new(), now_ns + APART_NS, Some(Then::Reset));
            }
            Fault::HalfClose => {
                let frame = self.right(query);
                self.reply(&frame);
                self.close(true, now_ns);
            }
            Fault::TooLong => {
                self.send(&reply::too_long(query.message));
                self.close(true, now_ns);
            }
            Fault::Garbage => {
                self.send(&reply::garbage(query.message, &mut shared.random));
                self.close(true, now_ns);
            }
            Fault::GoAway => {
                // The player learns that the server goes away while this query is open, and then its reply comes.
                self.go_away(query.stream, http2::NO_ERROR, shared);
                self.open -= 1;
                let frame = self.right(query);
                let bytes = self.layer.seal(&frame);
                self.out.push_apart(bytes, now_ns + APART_NS, None);
            }
            Fault::GoAwayAll => self.go_away(0, http2::ENHANCE_YOUR_CALM, shared),
            // The player ends the connection, so that all that it sent before is read.
            Fault::Framing => self.send(&http2::forbidden()),
            Fault::Alert => {
                let bytes = self.layer.alert();
                self.is_deaf = true;
                self.out.push_apart(bytes, now_ns, Some(Then::Fin));
            }
            _ => self.close(fault != Fault::NoNotify, now_ns),
        }
    }

    /// Goes away: no stream after `last` is processed. The player ends the connection.
    fn go_away(&mut self, last: u32, code: u32, shared: &mut Shared) {
        *shared.counts.goaways.entry(http2::name(code)).or_default() += 1;
        self.send(&http2::goaway(last, code));
    }

    /// Ends the connection by FIN, since the server refuses connections for a while.
    pub(in super::super) fn refuse(&mut self, now_ns: u64) {
        if !self.is_ending() {
            self.ending = Some(Ending::Fin);
            self.close(true, now_ns);
        }
    }

    /// Closes the server's direction after what is to be written, and after `close_notify` if `notifies`.
    fn close(&mut self, notifies: bool, now_ns: u64) {
        if notifies {
            let bytes = self.layer.notify();
            self.out.push(&bytes);
        }
        self.out.push_apart(Vec::new(), now_ns, Some(Then::Fin));
    }
}
