//! Fates of attempts to connect. A client repeats its first datagram if no answer comes soon, so each attempt is known
//! by the connection ID that the client chose, and has one fate.

use std::collections::HashMap;

use quinn_proto::{ConnectionId, Incoming};

use crate::streams::fault::Fault;
use crate::streams::kind::Kind;
use crate::streams::shared::Shared;

/// Where the first connection ID of a first datagram begins: its length, after the flags and the version (RFC 9000,
/// section 17.2).
const IDS: usize = 5;

/// A version that no player speaks: one that is reserved for this (RFC 9000, section 15).
const OTHER_VERSION: u32 = 0x0a1a_2a3a;

/// The fate of a first datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The connection is accepted. Its handshake has this fault.
    Accept(Option<Fault>),
    Ignore,
    Refuse,
    Retry,
    /// The answer offers another version.
    OtherVersion,
}

struct Attempt {
    fault: Option<Fault>,
    is_accepted: bool,
}

/// The attempts so far.
#[derive(Default)]
pub(super) struct Attempts {
    all: HashMap<ConnectionId, Attempt>,
}

impl Attempts {
    /// Decides the fate of a first datagram. Draws and counts the fault of a new attempt.
    pub(super) fn fate(&mut self, incoming: &Incoming, shared: &mut Shared) -> Fate {
        let attempt = self.all.entry(*incoming.orig_dst_cid()).or_insert_with(|| {
            let fault = shared.settings.plan.of_handshake(&mut shared.random);
            shared.counts.connections += 1;
            if let Some(fault) = fault {
                shared.counts.spoil(fault, Kind::Quic);
                note_end(fault, shared);
            }
            Attempt { fault, is_accepted: false }
        });
        if attempt.is_accepted {
            return Fate::Ignore;
        }
        let fate = match attempt.fault {
            Some(Fault::Mute) => Fate::Ignore,
            Some(Fault::Refused) => Fate::Refuse,
            Some(Fault::OtherVersion) => Fate::OtherVersion,
            Some(Fault::Retry) if !incoming.remote_address_validated() => Fate::Retry,
            fault => Fate::Accept(fault),
        };
        attempt.is_accepted = matches!(fate, Fate::Accept(_));
        fate
    }
}

/// Counts how the player reports the end of the attempt, if it has words for it.
fn note_end(fault: Fault, shared: &mut Shared) {
    let words = match fault {
        Fault::Refused => "closed by QUIC with 0x2",
        // An application that closes in the handshake does not give its own code away (RFC 9000, section 10.2.3).
        Fault::HandshakeClose => "closed by QUIC with 0xc",
        Fault::OtherVersion => "no common version of QUIC",
        _ => return,
    };
    *shared.counts.ends.entry(words).or_default() += 1;
}

/// A packet that offers another version (RFC 9000, section 17.2.1) in answer to this first datagram; `None` if it has
/// no connection IDs.
pub(super) fn other_version(datagram: &[u8]) -> Option<Vec<u8>> {
    let (to, rest) = connection_id(datagram.get(IDS..)?)?;
    let (from, _) = connection_id(rest)?;
    // Any first byte with the bit of a long header, and version 0.
    Some([&[0xc0, 0, 0, 0, 0][..], from, to, &OTHER_VERSION.to_be_bytes()].concat())
}

/// A connection ID after its length, with that, and the bytes that follow.
fn connection_id(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = 1 + usize::from(*bytes.first()?);
    bytes.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_of_another_version_swaps_the_connection_ids() {
        let first = b"\xc3\x00\x00\x00\x01\x02ab\x03xyz and the rest";
        assert_eq!(other_version(first).unwrap(), b"\xc0\x00\x00\x00\x00\x03xyz\x02ab\x0a\x1a\x2a\x3a");
        assert!(other_version(&first[..8]).is_none());
    }
}
