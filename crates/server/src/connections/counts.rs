//! The counts of a process's connections, and why each of them ended.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, VariantArray};

use crate::counts::Counts;

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum End {
    /// The peer closed it, and all replies were sent.
    #[strum(serialize = "by-peer")]
    Peer,
    /// The peer or the network broke it.
    Broken,
    /// No whole query arrived for too long.
    Idle,
    /// The peer read too little for too long.
    #[strum(serialize = "slow-reader")]
    Slow,
    /// The peer sent something that is not DNS: a message length too small for a header. Over QUIC, or it broke another
    /// rule of RFC 9250.
    NotDns,
    /// The handshake of TLS failed, or the peer sent something that TLS forbids.
    Tls,
    /// The client did something that HTTP/2 forbids.
    Http,
    /// It was idle, and another connection needed its place.
    Displaced,
    /// The client had too many connections.
    #[strum(serialize = "too-many-of-client")]
    Client,
    /// All places were taken, and no connection was idle.
    #[strum(serialize = "too-many")]
    Full,
    /// The server stopped.
    Stopped,
    /// The server at this address is meant to refuse connections.
    Refused,
}

/// The counts of the connections of one thread.
#[derive(Debug, Default)]
pub(super) struct ConnectionCounts {
    /// Connections that were accepted.
    pub(super) accepted: u64,
    ended: [u64; End::VARIANTS.len()],
}

impl ConnectionCounts {
    /// Counts a connection that has ended.
    pub(super) fn end(&mut self, end: End) {
        self.ended[end as usize] += 1;
    }

    /// The counts so far, with these of the connections' queries, and without transfers and rcodes.
    pub(super) fn report(&self, queries: &Counts) -> TcpReport {
        let ended = End::VARIANTS.iter().map(|end| (end.to_string(), self.ended[*end as usize]));
        TcpReport {
            connections: self.accepted,
            received: queries.received,
            answered: queries.answered,
            transfers: 0,
            dropped: queries.dropped(),
            ended: ended.filter(|(_, count)| *count > 0).collect(),
            response_rcodes: BTreeMap::new(),
            handshakes: BTreeMap::new(),
            refused: BTreeMap::new(),
        }
    }
}

/// Counts over a server's life. `received = answered + transfers + Σ dropped`, and `connections = Σ ended`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TcpReport {
    /// Connections that the server accepted.
    pub connections: u64,
    /// Queries that arrived whole.
    pub received: u64,
    /// Queries that got a reply of one message.
    pub answered: u64,
    /// Queries that got, or began to get, a reply of many messages.
    pub transfers: u64,
    /// Queries without an answer, by cause.
    pub dropped: BTreeMap<String, u64>,
    /// Connections by what ended them.
    pub ended: BTreeMap<String, u64>,
    /// Replies by rcode, without transfers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub response_rcodes: BTreeMap<String, u64>,
    /// Completed handshakes of TLS by kind: `full`, `retry` if the server asked for another group first,
    /// `resumed`, or over QUIC `0-rtt`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub handshakes: BTreeMap<String, u64>,
    /// Requests by HTTP that are no query, by the status that they got, such as `404`. `received` does not count them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<String, u64>,
}

impl TcpReport {
    /// Adds the counts of another process.
    pub fn add(&mut self, other: Self) {
        self.connections += other.connections;
        self.received += other.received;
        self.answered += other.answered;
        self.transfers += other.transfers;
        add_counts(&mut self.dropped, other.dropped);
        add_counts(&mut self.ended, other.ended);
        add_counts(&mut self.response_rcodes, other.response_rcodes);
        add_counts(&mut self.handshakes, other.handshakes);
        add_counts(&mut self.refused, other.refused);
    }
}

/// Adds counts by name to others.
pub(crate) fn add_counts(to: &mut BTreeMap<String, u64>, counts: BTreeMap<String, u64>) {
    for (name, count) in counts {
        *to.entry(name).or_default() += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_as_they_are() {
        let expected = "by-peer broken idle slow-reader not-dns tls http displaced too-many-of-client \
             too-many stopped refused";
        let names: Vec<String> = End::VARIANTS.iter().map(ToString::to_string).collect();
        assert_eq!(names.join(" "), expected);
    }
}
