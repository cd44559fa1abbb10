//! Facts of a trial that replayed a capture, and how the answers differed from the captured ones.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::accounts::Accounts;
use crate::connections::ConnectionFacts;
use crate::histogram::Quantiles;

/// The replay of a capture. Clients are counted, and their addresses in the capture are in no record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Replay {
    /// BLAKE3 of the capture's content, in hex.
    pub hash: String,
    /// The content of the capture.
    pub capture: CaptureContent,
    /// The beginning of the window, seconds after the capture's first query.
    pub from_s: f64,
    /// The end of the window, seconds after the capture's first query.
    pub to_s: f64,
    /// How many times faster than captured the queries were due, with captured arrivals.
    pub speed: f64,
    /// How often the window was to be played.
    pub repeat: u64,
    /// Queries of one pass over the window, by all transports.
    pub window_queries: u64,
    /// How often the window was played: the queries that were played or not, divided by `window_queries`.
    pub passes: f64,
    /// Seconds between the end of the window and its next beginning, with captured arrivals.
    pub gap_s: f64,
    /// Slices of the window that were played at the same time, each with clients of its own.
    pub pile: u32,
    /// The seed of the mapping of clients to addresses.
    pub seed: u64,
    /// Clients of all slices that ask in the window.
    pub clients: u64,
    /// Source addresses that they were mapped to; 1 if the kernel chose the address.
    pub addresses: u64,
    /// UDP sockets, and places for connections, by which a query went. In older records these are all, with the spare
    /// ones.
    pub sockets: u64,
    /// Clients that shared a source address and a port, or a place for a connection, with an earlier client, because
    /// there were not enough.
    pub clients_sharing: u64,
    /// Transport → queries that were intended over it. Sums to those of the accounts.
    pub played: BTreeMap<String, u64>,
    /// Transport → queries that were sent over it. Sums to those of the accounts.
    pub sent: BTreeMap<String, u64>,
    /// Transport → queries that came by it and were not played, because the trial had no lane for it. They are outside
    /// the accounts.
    pub not_played: BTreeMap<String, u64>,
    /// Queries that began a connection in the capture, found an earlier one in use at its place, and no spare place.
    /// They joined the earlier one.
    pub joined: u64,
    /// Connections that were closed before their captured idle time was over, because the next one at their place
    /// began.
    pub closed_early: u64,
    /// Each lane's part: that of a transport by which queries came, or of a share of the clients. Empty without lanes,
    /// and in records older than the field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lanes: Vec<ReplayLane>,
}

/// The part of a replay that the clients of one transport played.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayLane {
    /// The transport of its queries.
    pub transport: String,
    /// The share of the clients that it was to have; `None` if it has the queries that came by its transport.
    pub share: Option<f64>,
    /// The clients that ask by it.
    pub clients: u64,
    /// The fates of its queries. Those of all lanes add up to those of the trial, but `slipped`.
    pub accounts: Accounts,
    /// Cause → its lost queries.
    pub lost_causes: BTreeMap<String, u64>,
    /// Latency of its correct replies in time, from due time, microseconds.
    pub latency_us: Quantiles,
    /// The histogram of those times, as the trial's histograms are kept.
    pub latency: String,
    /// Its connections; `None` over UDP.
    pub connections: Option<ConnectionFacts>,
}

/// The content of a capture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaptureContent {
    /// Packets, or frames of dnstap.
    pub packets: u64,
    /// Queries that were read.
    pub queries: u64,
    /// Responses that were read.
    pub responses: u64,
    /// Messages beyond the first that one packet completed.
    pub further: u64,
    /// Why a packet gave no message → how many.
    pub skipped: BTreeMap<String, u64>,
    /// Seconds from the first query to the last.
    pub duration_s: f64,
    /// Clients.
    pub clients: u64,
    /// Connections.
    pub connections: u64,
    /// Connections that were open at once, at most.
    pub places: u64,
    /// Transport → queries that came by it.
    pub by_transport: BTreeMap<String, u64>,
    /// Packets whose time was before that of an earlier packet, and which were sorted by time.
    pub sorted: u64,
    /// Queries over TCP that follow a truncated response over UDP to the same question.
    pub retried: u64,
    /// COOKIE options that were removed from queries.
    pub cookies: u64,
    /// Options edns-tcp-keepalive that were removed from queries; 0 in records older than the field.
    #[serde(default)]
    pub keepalives: u64,
    /// TSIG records that were removed from queries.
    pub signatures: u64,
    /// Queries with a response in the capture.
    pub answered: u64,
}

/// The replies of one kind that differ from the captured ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// The kind: `rcode NOERROR→SERVFAIL`, `answer` if the rcode is the same and the records are not, `truncated` if a
    /// whole answer was expected, `lost` if there was a response, or another cause of wrong replies.
    pub kind: String,
    /// Queries with such a difference.
    pub count: u64,
    /// Some of them, each different from the others.
    pub examples: Vec<Example>,
}

/// A query whose reply differs. Characters that a terminal obeys are shown as their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Example {
    /// The name that was asked, in presentation form.
    pub name: String,
    /// The type that was asked.
    pub rtype: String,
    /// The answer that the capture has: the rcode, and of other answers under the same rcode the records, if the
    /// capture could be read again.
    pub expected: String,
    /// The digest of the captured answer in hex, if the answer is another one under the same rcode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The reply that came, if any, in words.
    pub got: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_survives_being_stored() {
        let replay = Replay {
            pile: 3,
            speed: 0.5,
            not_played: BTreeMap::from([("tcp".into(), 7)]),
            ..Replay::default()
        };
        let text = serde_json::to_string(&replay).unwrap();
        assert_eq!(serde_json::from_str::<Replay>(&text).unwrap(), replay);
    }
}
