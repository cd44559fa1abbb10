//! The counts of a caching server, besides those of its clients' queries.

use derive_more::AddAssign;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Outcomes of the queries at a cache, over all transports: each query of which the server read the question is one of
/// `hits`, `stale`, `failures`, `misses` and `refused`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, AddAssign)]
pub struct CacheReport {
    /// Queries that were answered from the cache at once.
    pub hits: u64,
    /// Queries that were answered with records whose TTL had run out, since no server answered (RFC 8767).
    pub stale: u64,
    /// Queries that were answered SERVFAIL at once, since the same question had failed shortly before (RFC 9520).
    pub failures: u64,
    /// Queries whose answers had to come from a server.
    pub misses: u64,
    /// Queries that the server answered with an error of its own, such as REFUSED for a transfer.
    pub refused: u64,
    /// How many of `misses` waited for a question that was under way already.
    pub coalesced: u64,
    /// How many of `misses` were answered from the cache after all: the answer came between the look and the question.
    pub overtaken: u64,
    /// How many of `misses` were answered with records whose TTL had run out, since no server answered, or not within
    /// 1.8 s.
    pub stale_after_failure: u64,
    /// Questions that were asked before the TTL of their answers ran out, since clients asked for them.
    pub prefetches: u64,
    /// Answers that were kept.
    pub kept: u64,
    /// Answers that could not be kept.
    pub not_kept: u64,
    /// Answers of servers that were taken for failures: SERVFAIL, REFUSED, a referral, and whatever is no answer.
    pub unusable: u64,
    /// Answers and failures that were removed to make room, before their time had run out.
    pub evictions: u64,
    /// Answers and failures that are kept, at the time of the report.
    pub entries: u64,
    /// The memory of the cache in bytes, at the time of the report.
    pub memory_bytes: u64,
}
