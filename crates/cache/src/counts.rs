//! Counts of a cache.

use derive_more::AddAssign;

/// Counts since the cache was made. `hits + stale + failed + misses` is the number of queries, and `kept + not_kept`
/// that of replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, AddAssign)]
pub struct Counts {
    /// Queries that were answered from a reply within its TTL.
    pub hits: u64,
    /// Queries that were answered from a reply after its TTL.
    pub stale: u64,
    /// Queries that were answered SERVFAIL, since the question had failed a short time before.
    pub failed: u64,
    /// Queries without an answer.
    pub misses: u64,
    /// Answers that were truncated; they are among those above.
    pub truncated: u64,
    /// Hits that asked for the answer to be fetched anew.
    pub prefetches: u64,
    /// Replies that were kept.
    pub kept: u64,
    /// Replies that were not kept.
    pub not_kept: u64,
    /// Failures that were reported and kept.
    pub failures: u64,
    /// Entries that were dropped to make room, before their time had ended.
    pub evicted: u64,
    /// Entries that were dropped to make room after their time had ended.
    pub expired: u64,
    /// Entries that the cache has now: replies and failures.
    pub entries: u64,
}
