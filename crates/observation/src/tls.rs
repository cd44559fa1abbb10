//! TLS on the connections of a trial: what handshakes agreed on, of which kind they were, and why TLS failed.

use std::collections::BTreeMap;

use derive_more::AddAssign;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::accounts::IdentityViolated;
use crate::histogram::Quantiles;

/// TLS on the connections of all players over one trial. The sum of `handshakes` is the number of connections that were
/// made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TlsFacts {
    /// The certificates that the player accepted: those of issuers that its host trusts (`system`), those of given
    /// issuers (`ca`), or any, without a check (`anyone`).
    pub trust: String,
    /// Whether connections resumed the sessions of earlier ones, if they had a ticket.
    pub resume: bool,
    /// Whether queries that left together shared records. `None` over QUIC, which has no records, and in records older
    /// than the field, whose queries shared them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packing: Option<bool>,
    /// Kind → completed handshakes: `full`, `retry` if the server asked for another group first, `resumed`, or
    /// `0-rtt` if it was resumed and the server took early data.
    pub handshakes: BTreeMap<String, u64>,
    /// Kind → time of a handshake, from the made connection of TCP, or over QUIC from its own beginning, to its end.
    pub handshake_us: BTreeMap<String, Quantiles>,
    /// The sessions that handshakes agreed on, the most frequent first.
    pub sessions: Vec<SessionFacts>,
    /// Tickets that the subject sent.
    pub tickets_received: u64,
    /// Handshakes that offered a ticket. The subject took as many as there are `resumed` and `0-rtt`
    /// handshakes.
    pub tickets_offered: u64,
    /// Early data; `None` if the player was not to send it, and in records older than the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early: Option<EarlyFacts>,
    /// Failure → how often, in words: the alert that the subject sent, what was wrong with its certificate, or what it
    /// did that TLS forbids.
    pub failures: BTreeMap<String, u64>,
}

impl TlsFacts {
    /// Whether a certificate was accepted without a check: the player was to accept any, and a handshake was completed.
    pub fn accepted_unchecked(&self) -> bool {
        self.trust == "anyone" && self.handshakes.values().any(|count| *count > 0)
    }

    /// Checks the identities of early data.
    pub(crate) fn check_early_data(&self) -> Result<(), IdentityViolated> {
        let Some(EarlyFacts { offered, accepted, rejected, undecided, .. }) = self.early else {
            return Ok(());
        };
        let sum = accepted + rejected + undecided;
        if offered != sum {
            return Err(IdentityViolated::Early { offered, sum });
        }
        let handshakes = self.handshakes.get("0-rtt").copied().unwrap_or(0);
        if accepted != handshakes {
            return Err(IdentityViolated::EarlyHandshakes { accepted, handshakes });
        }
        Ok(())
    }
}

/// Early data (0-RTT) of the connections of a trial, or of those of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, AddAssign)]
#[serde(default)]
pub struct EarlyFacts {
    /// Attempts that offered early data: a ticket allowed it, and over TCP they had some. Records without `undecided`
    /// count only attempts that were established. `offered = accepted + rejected + undecided`.
    #[serde(alias = "early_offered")]
    pub offered: u64,
    /// How many of `offered` the subject took early data of.
    #[serde(alias = "early_accepted")]
    pub accepted: u64,
    /// How many of `offered` it did not.
    #[serde(alias = "early_rejected")]
    pub rejected: u64,
    /// How many of `offered` failed, or were not made when the trial ended.
    pub undecided: u64,
    /// Queries that were sent as early data.
    #[serde(alias = "early_queries")]
    pub queries: u64,
    /// How many of them were sent again, since the subject did not take early data.
    #[serde(alias = "early_queries_again")]
    pub queries_again: u64,
}

/// The session that a number of handshakes agreed on.
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
