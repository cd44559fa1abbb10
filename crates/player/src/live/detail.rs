//! Counts that a thread keeps on request while it plays: every reply in time with its rcode, its latency and its size,
//! queries without one, and connections.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::counters::{Counters, add};
use super::times::{Times, TimesSnapshot};

/// The rcodes that a header and an OPT record can hold together (RFC 6891, section 6.1.3).
pub(super) const RCODES: usize = 1 << 12;

/// The counts of one thread, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Detail {
    rcodes: Counters,
    latency: Times,
    connection_attempts: AtomicU64,
    connections: Times,
    response_bytes: AtomicU64,
    request_bytes: AtomicU64,
    last_reply_ns: AtomicU64,
    timed_out: AtomicU64,
    interrupted: AtomicU64,
}

/// The detailed counts of all threads. They grow from the trial's start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DetailSnapshot {
    /// Replies in time by their rcode, 0 to 4095. A reply that is wrong counts as well. Of one that does not belong to
    /// its query only the header's four bits are known.
    pub rcodes: BTreeMap<u16, u64>,
    /// Their latencies.
    pub latency: TimesSnapshot,
    /// Connections by TCP that were begun, those before the load began among them.
    pub connection_attempts: u64,
    /// How long those that were made took, with TLS and HTTP until they took queries.
    pub connections: TimesSnapshot,
    /// DNS bytes of the replies in time.
    pub response_bytes: u64,
    /// DNS bytes of the queries sent.
    pub request_bytes: u64,
    /// When the last reply in time came, nanoseconds since the start.
    pub last_reply_ns: u64,
    /// Queries whose time ran out without a reply, or that a broken connection lost.
    pub timed_out: u64,
    /// Queries that could still have been answered when the user ended the trial.
    pub interrupted: u64,
}

impl Default for Detail {
    fn default() -> Self {
        Self {
            rcodes: Counters::new(RCODES),
            latency: Times::default(),
            connection_attempts: AtomicU64::default(),
            connections: Times::default(),
            response_bytes: AtomicU64::default(),
            request_bytes: AtomicU64::default(),
            last_reply_ns: AtomicU64::default(),
            timed_out: AtomicU64::default(),
            interrupted: AtomicU64::default(),
        }
    }
}

impl Detail {
    /// Counts a reply in time.
    #[inline]
    pub(super) fn replied(&self, at_ns: u64, latency_ns: u64, (rcode, bytes): (u16, usize)) {
        self.rcodes.count(usize::from(rcode) % RCODES);
        self.latency.add(latency_ns / 1000);
        add(&self.response_bytes, bytes as u64);
        self.last_reply_ns.store(self.last_reply_ns.load(Relaxed).max(at_ns), Relaxed);
    }

    pub(super) fn sent_bytes(&self, request_bytes: u64) {
        self.request_bytes.store(request_bytes, Relaxed);
    }

    pub(super) fn connecting(&self) {
        add(&self.connection_attempts, 1);
    }

    pub(super) fn connected(&self, took_ns: u64) {
        self.connections.add(took_ns / 1000);
    }

    pub(super) fn timed_out(&self, queries: u64) {
        add(&self.timed_out, queries);
    }

    pub(super) fn interrupted(&self, queries: u64) {
        self.interrupted.store(queries, Relaxed);
    }
}

impl DetailSnapshot {
    /// The counts of all threads; `None` without threads.
    pub(super) fn from_threads<'d>(threads: impl Iterator<Item = &'d Detail>) -> Option<Self> {
        threads.map(Self::of_thread).reduce(|sum, one| Self {
            latency: sum.latency.and(&one.latency),
            connections: sum.connections.and(&one.connections),
            last_reply_ns: sum.last_reply_ns.max(one.last_reply_ns),
            ..sum.each(&one, |ours, theirs| ours + theirs)
        })
    }

    fn of_thread(detail: &Detail) -> Self {
        Self {
            rcodes: (0..).zip(detail.rcodes.values()).filter(|(_, count)| *count > 0).collect(),
            latency: detail.latency.snapshot(),
            connection_attempts: detail.connection_attempts.load(Relaxed),
            connections: detail.connections.snapshot(),
            response_bytes: detail.response_bytes.load(Relaxed),
            request_bytes: detail.request_bytes.load(Relaxed),
            last_reply_ns: detail.last_reply_ns.load(Relaxed),
            timed_out: detail.timed_out.load(Relaxed),
            interrupted: detail.interrupted.load(Relaxed),
        }
    }

    /// The counts that add up, each made from those of both. The others are ours, without the times.
    fn each(&self, other: &Self, of: impl Fn(u64, u64) -> u64) -> Self {
        let count = |counts: &Self, rcode| counts.rcodes.get(rcode).copied().unwrap_or(0);
        let both = self.rcodes.keys().chain(other.rcodes.keys());
        Self {
            rcodes: both.map(|rcode| (*rcode, of(count(self, rcode), count(other, rcode)))).collect(),
            connection_attempts: of(self.connection_attempts, other.connection_attempts),
            response_bytes: of(self.response_bytes, other.response_bytes),
            request_bytes: of(self.request_bytes, other.request_bytes),
            timed_out: of(self.timed_out, other.timed_out),
            interrupted: of(self.interrupted, other.interrupted),
            last_reply_ns: self.last_reply_ns,
            ..Self::default()
        }
    }

    /// Counts since an earlier snapshot. The shortest and longest times are those since the start.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            latency: self.latency.since(&earlier.latency),
            connections: self.connections.since(&earlier.connections),
            ..self.each(earlier, u64::saturating_sub)
        }
    }

    /// Replies in time.
    pub fn replies(&self) -> u64 {
        self.rcodes.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_count_by_rcode_with_their_latencies() {
        let threads = [Detail::default(), Detail::default()];
        threads[0].replied(5_000_000, 40_000, (3, 5));
        threads[1].replied(7_000_000, 60_000, (0, 4));
        threads[1].interrupted(2);
        let then = DetailSnapshot::from_threads(threads.iter()).unwrap();
        assert_eq!((&then.rcodes, then.replies()), (&BTreeMap::from([(0, 1), (3, 1)]), 2));
        assert_eq!((then.latency.sum_us, then.latency.min_us, then.latency.max_us), (100, 40, 60));
        assert_eq!((then.response_bytes, then.interrupted, then.last_reply_ns), (9, 2, 7_000_000));
        threads[0].replied(9_000_000, 1_000_000, (23, 0));
        threads[0].timed_out(3);
        threads[1].connecting();
        threads[1].connected(30_000);
        let since = DetailSnapshot::from_threads(threads.iter()).unwrap().since(&then);
        assert_eq!((since.replies(), since.latency.sum_us, since.last_reply_ns), (1, 1000, 9_000_000));
        assert_eq!(since.rcodes, BTreeMap::from([(0, 0), (3, 0), (23, 1)]));
        assert_eq!((since.timed_out, since.interrupted, since.response_bytes), (3, 0, 0));
        assert_eq!(
            (since.connection_attempts, since.connections.count, since.connections.sum_us),
            (1, 1, 30)
        );
        assert!(DetailSnapshot::from_threads([].iter()).is_none());
    }
}
