//! QUIC below the connections of a trial: what streams and packets did, and why QUIC ended connections.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tls::EarlyFacts;

/// QUIC on the connections of all players over one trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuicFacts {
    /// How the player limits the bytes on their way: `fixed` if it does not, or `cubic`.
    pub congestion: String,
    /// Queries that waited for a stream, since the subject allowed no further one (`MAX_STREAMS`).
    pub blocked_queries: u64,
    /// For how long connections had such queries, microseconds; the sum of all connections.
    pub blocked_us: u64,
    /// Replies of the subject by Retry packets: it asked connections to prove their address first.
    pub retries: u64,
    /// Tokens for later connections (`NEW_TOKEN`) that the subject sent.
    pub tokens_received: u64,
    /// Early data in records of the first versions, which have it here ([`crate::ConnectionFacts::early_data`]).
    #[serde(flatten, skip_serializing)]
    #[schemars(skip)]
    pub early_in_old_records: EarlyFacts,
    /// Datagrams sent.
    pub datagrams_sent: u64,
    /// Datagrams received for a connection.
    pub datagrams_received: u64,
    /// How often the kernel had no room for a datagram, so that it waited in the player, and with it what followed on its
    /// connection; 0 in records older than the field.
    #[serde(default)]
    pub send_waits: u64,
    /// Packets sent. A datagram may hold several.
    pub packets_sent: u64,
    /// How many of them were lost; what they held was sent again.
    pub packets_lost: u64,
    /// Failure, in words → how often: the code with which the subject closed a connection or reset a stream, or what it
    /// did that QUIC or RFC 9250 forbids.
    pub failures: BTreeMap<String, u64>,
}
