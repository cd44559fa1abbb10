//! The facts that `kqps show` prints, as text and as JSON.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

/// The content of a capture or a query file. No client is named in it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename = "show")]
pub(crate) struct FileFacts {
    /// Queries; of a capture those that went to a server.
    pub(super) queries: u64,
    /// Facts that only a capture has.
    pub(super) capture: Option<CaptureShown>,
    /// Bad lines or messages of a query file that cannot be played, by cause. Empty for a capture.
    pub(super) skipped: BTreeMap<String, u64>,
    /// Type → queries.
    pub(super) types: BTreeMap<String, u64>,
    /// Expected rcode → queries of a query file that expect it.
    pub(super) expected_rcodes: BTreeMap<String, u64>,
    /// Extras that queries carry beside their question.
    pub(super) extras: ExtrasShown,
    /// Sizes of the queries' DNS messages.
    pub(super) query_bytes: Option<SpreadShown>,
    /// The names that are asked most often, the most frequent first.
    pub(super) top_names: Vec<NameShown>,
}

/// Facts about a capture beside its queries.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct CaptureShown {
    /// Packets, or messages of a tap. They are `queries + responses + skipped - further`.
    pub(super) packets: u64,
    /// Responses of the servers.
    pub(super) responses: u64,
    /// Messages that ended in the same packet as another one.
    pub(super) further: u64,
    /// Why a packet ended no query and no response → packets.
    pub(super) skipped: BTreeMap<String, u64>,
    /// The packets among them that were skipped as `other-port`, by the lower one of their ports; of the first 64 such
    /// ports.
    pub(super) other_ports: BTreeMap<u16, u64>,
    /// When the first query came, milliseconds since 1970. `None` without a query.
    pub(super) first_unix_ms: Option<u64>,
    /// How often the clock that stamped the packets was set back by more than 5 s. From there on the gaps of the stamps
    /// are kept.
    pub(super) clock_steps: u64,
    /// Packets with a stamp more than 5 s away from those around it. They got the time of the packet before them.
    pub(super) strays: u64,
    /// Seconds from the first query to the last.
    pub(super) span_s: f64,
    /// Queries a second. `None` without a query.
    pub(super) rate: Option<SpreadShown>,
    /// Clients, by their addresses. If `clients_at_least`, there are more.
    pub(super) clients: u64,
    /// Networks of clients: prefixes of 24 bits of IPv4 and of 48 bits of IPv6.
    pub(super) networks: u64,
    /// Whether there are more clients than kqps counts.
    pub(super) clients_at_least: bool,
    /// Transport → queries.
    pub(super) transports: BTreeMap<String, u64>,
    /// Connections with a query.
    pub(super) connections: u64,
    /// Rcode → responses.
    pub(super) rcodes: BTreeMap<String, u64>,
    /// Truncated responses.
    pub(super) truncated: u64,
    /// Sizes of the responses' DNS messages.
    pub(super) response_bytes: Option<SpreadShown>,
}

/// Extras that queries carry beside their question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct ExtrasShown {
    /// Queries with EDNS (RFC 6891).
    pub(super) edns: u64,
    /// Queries with the DO bit (RFC 3225).
    pub(super) dnssec_ok: u64,
    /// Queries with a client subnet (RFC 7871).
    pub(super) client_subnet: u64,
    /// Queries with a cookie (RFC 7873).
    pub(super) cookie: u64,
    /// Queries with a signature (TSIG, RFC 8945).
    pub(super) signed: u64,
}

/// Mean, quantiles and maximum. Quantiles have three significant digits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct SpreadShown {
    pub(super) mean: f64,
    pub(super) p50: u64,
    pub(super) p99: u64,
    pub(super) max: u64,
}

/// A name, with how often it is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct NameShown {
    /// In lower case.
    pub(super) name: String,
    /// Queries for it, at most.
    pub(super) queries: u64,
    /// By how many `queries` may be too high: rare names are not counted one by one.
    pub(super) too_high_by: u64,
}
