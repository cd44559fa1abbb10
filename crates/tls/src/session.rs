//! The parameters on which a handshake agreed.

use rustls::{CipherSuite, CommonState, HandshakeKind, ProtocolVersion};

use crate::key::key_type;
use crate::offer::{Group, Suite};

/// How two ends came to an agreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By a full handshake.
    Full,
    /// By a full handshake with another round trip, since the server did not take the first group
    /// (`HelloRetryRequest`, RFC 8446, section 4.1.4).
    Retried,
    /// By a ticket or session of an earlier handshake.
    Resumed,
    /// Likewise, and the server took early data (0-RTT, RFC 8446, section 2.3).
    Early,
}

impl Kind {
    /// The names, by [`Self::number`].
    pub const NAMES: [&'static str; 4] = ["full", "retry", "resumed", "0-rtt"];

    /// The index of this kind among the counts of all.
    pub fn number(self) -> usize {
        self as usize
    }
}

/// The parameters on which a handshake agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// How it was agreed on.
    pub kind: Kind,
    /// `TLSv1.3` or `TLSv1.2`.
    pub version: &'static str,
    /// The cipher suite.
    pub suite: Suite,
    /// The group of the exchange of keys; `None` if TLS 1.2 resumed a session, which exchanges none.
    pub group: Option<Group>,
    /// The type of the peer's key in its certificate, such as `ECDSA-P256`; `None` if the peer sent no certificate, as
    /// clients do.
    pub certificate: Option<&'static str>,
}

impl Session {
    /// The parameters on which this connection's handshake agreed; meaningful once it is complete. Whether early data
    /// was taken is not part of the state.
    pub fn from_state(state: &CommonState) -> Self {
        let kind = match state.handshake_kind() {
            Some(HandshakeKind::Resumed) => Kind::Resumed,
            Some(HandshakeKind::FullWithHelloRetryRequest) => Kind::Retried,
            _ => Kind::Full,
        };
        let version = match state.protocol_version() {
            Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "unknown",
        };
        let suite = state.negotiated_cipher_suite().map_or(CipherSuite::Unknown(0), |suite| suite.suite());
        Self {
            kind,
            version,
            suite: Suite(suite),
            group: state.negotiated_key_exchange_group().map(|group| Group(group.name())),
            certificate: state.peer_certificates().and_then(|chain| chain.first()).map(key_type),
        }
    }

    /// Whether two sessions agreed on the same, by whatever kind of handshake.
    pub fn is_like(&self, other: &Self) -> bool {
        Self { kind: other.kind, ..*self } == *other
    }
}
