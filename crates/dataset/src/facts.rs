//! The facts of a capture as a whole.

use std::collections::BTreeMap;

use kqps_capture::Transport as Carried;
use serde::{Deserialize, Serialize};

/// The bytes of a client's place in the encoded form.
pub(crate) const PLACE_BYTES: usize = 8;

/// The counts of a capture. None of them names a client, a server or a question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureFacts {
    /// The packets of the capture: `packets + further = queries + responses + Σ skipped`.
    pub packets: u64,
    /// The messages that are queries. The dataset has all of them but those that it skipped as bad messages.
    pub queries: u64,
    /// The messages that are responses.
    pub responses: u64,
    /// The messages beyond the first that one packet completed.
    pub further: u64,
    /// The packets that were skipped, by cause, such as `other-port`.
    pub skipped: BTreeMap<String, u64>,
    /// The packets that were skipped as `other-port`, by the lower one of their ports; of the first 64 such ports.
    #[serde(default)]
    pub other_ports: BTreeMap<u16, u64>,
    /// The time from the first query to the last one, in nanoseconds.
    pub duration_ns: u64,
    /// The clients that asked.
    pub clients: u32,
    /// The servers' addresses that were asked. 64 stands for 64 or more.
    pub servers: u32,
    /// The servers among them that are clients as well, as a resolver is that asks others.
    pub servers_asking: u32,
    /// The networks of the clients: /24 of IPv4 and /48 of IPv6.
    pub networks: u32,
    /// The connections with queries that were open at the same time, at most.
    pub places: u32,
    /// The connections with at least one query.
    pub connections: u64,
    /// The queries by the transport that carried them.
    pub by_transport: BTreeMap<Carried, u64>,
    /// The messages with a time before that of an earlier message.
    pub sorted: u64,
    /// The queries among them that came too late to be sorted. They are due with the query before them.
    pub late: u64,
    /// How often the clock that stamped the packets was set back by more than 5 s, or an earlier capture follows on a
    /// later one. Due times go on with the gaps of the stamps.
    pub steps: u64,
    /// The packets with a stamp more than 5 s away from those around it. They have the time of the packet before them.
    pub strays: u64,
    /// The queries over TCP that followed a truncated response over UDP. The dataset has them.
    pub retried: u64,
    /// The queries from which a COOKIE option was removed.
    pub cookies: u64,
    /// The queries from which the option edns-tcp-keepalive was removed.
    pub keepalives: u64,
    /// The queries with a client subnet that was shortened to the client's network: /24 of IPv4, /48 of IPv6.
    pub subnets: u64,
    /// The queries from which an option was removed that names the client's device, such as its MAC address.
    pub identities: u64,
    /// The queries from which a TSIG record was removed.
    pub signatures: u64,
    /// The queries for the transfer of a zone. Of their answers, the rcode alone is expected.
    pub transfers: u64,
    /// The queries with a response in the capture.
    pub answered: u64,
    /// The time of the first query, in nanoseconds since 1970.
    pub first_unix_ns: u64,
}

/// The place of a client among the others: clients of one network have neighbouring addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientPlace {
    /// The number of the client's network, counted from 0 in the order of first appearance.
    pub network: u32,
    /// The number of the client in its network, counted from 0 in the order of first appearance.
    pub member: u32,
}

impl ClientPlace {
    pub(crate) fn to_bytes(self) -> [u8; PLACE_BYTES] {
        (u64::from(self.member) << 32 | u64::from(self.network)).to_le_bytes()
    }

    pub(crate) fn from_bytes(bytes: [u8; PLACE_BYTES]) -> Self {
        let [n0, n1, n2, n3, member @ ..] = bytes;
        Self { network: u32::from_le_bytes([n0, n1, n2, n3]), member: u32::from_le_bytes(member) }
    }
}
