//! TLS on the connections of a trial: what handshakes agreed on, of which kind they were, and why TLS failed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::histogram::Quantiles;

/// TLS on the connections of all players over one trial. The sum of `handshakes` is the number of connections that were
/// made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TlsFacts {
    /// Which certificates the player accepted: those of issuers that its host trusts (`system`), those of given issuers
    /// (`ca`), or any, without a check (`anyone`).
    pub trust: String,
    /// Whether connections resumed the sessions of earlier ones, if they had a ticket.
    pub resume: bool,
    /// Kind → completed handshakes: `full`, `retry` if the server asked for another group first, `resumed`, or
    /// `0-rtt` if it was resumed and the server took early data.
    pub handshakes: BTreeMap<String, u64>,
    /// Kind → time of a handshake, from the made connection of TCP, or over QUIC from its own beginning, to its end.
    pub handshake_us: BTreeMap<String, Quantiles>,
    /// What handshakes agreed on, the most frequent first.
    pub sessions: Vec<SessionFacts>,
    /// Tickets that the subject sent.
    pub tickets_received: u64,
    /// Handshakes that offered a ticket. The subject took as many as there are `resumed` and `0-rtt`
    /// handshakes.
    pub tickets_offered: u64,
    /// What went wrong → how often, in words: the alert that the subject sent, what was wrong with its certificate, or
    /// what it did that TLS forbids.
    pub failures: BTreeMap<String, u64>,
}

/// What a number of handshakes agreed on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionFacts {
    /// `TLSv1.3` or `TLSv1.2`.
    pub version: String,
    /// The cipher suite by its IANA name.
    pub suite: String,
    /// The group of the exchange of keys, such as `x25519`; `None` if none were exchanged.
    pub group: Option<String>,
    /// The type of the key in the subject's certificate, such as `ECDSA-P256`.
    pub certificate: Option<String>,
    /// The number of connections.
    pub connections: u64,
}
