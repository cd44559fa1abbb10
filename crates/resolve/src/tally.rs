//! The counters of one thread, which others read while it runs.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The names of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// Queries that a worker or a thread of connections got.
    Received,
    /// Replies at once, or later to datagrams.
    Answered,
    /// Later replies to connections.
    AnsweredConnection,
    /// Counts of [`kqps_server::report::CacheReport`], in its order.
    Hits,
    Stale,
    Failures,
    Misses,
    Refused,
    Coalesced,
    Overtaken,
    StaleAfterFailure,
    Prefetches,
    Kept,
    NotKept,
    Unusable,
}

/// The number of counts.
pub(crate) const COUNTS: usize = Count::Unusable as usize + 1;

/// The counters of one thread. They have cache lines of their own, so that threads do not slow each other down.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Tally([AtomicU64; COUNTS]);

impl Default for Tally {
    fn default() -> Self {
        Self(array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Tally {
    /// Counts one more. Only the thread that has the counters calls it, so it needs no locked instruction.
    #[inline]
    pub(crate) fn add(&self, count: Count) {
        let counter = &self.0[count as usize];
        counter.store(counter.load(Relaxed) + 1, Relaxed);
    }

    /// The counts so far.
    pub(crate) fn read(&self) -> [u64; COUNTS] {
        array::from_fn(|index| self.0[index].load(Relaxed))
    }
}
