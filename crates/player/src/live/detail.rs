//! More of what a thread counts while it plays, for those who asked for it: every reply in time with its rcode, its
//! latency and its size.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{BUCKETS, bucket_of, upper_of};

/// The rcodes that a header can hold.
pub const RCODES: usize = 16;

/// The counts of one thread.
#[derive(Debug)]
pub(super) struct Detail {
    rcodes: [AtomicU64; RCODES],
    latency: [AtomicU64; BUCKETS],
    latency_us: AtomicU64,
    latency_squares: AtomicU64,
    latency_min_us: AtomicU64,
    latency_max_us: AtomicU64,
    response_bytes: AtomicU64,
    request_bytes: AtomicU64,
    last_reply_ns: AtomicU64,
    interrupted: AtomicU64,
}

/// The same counts of all threads. They grow from the trial's start.
#[derive(Clone, Debug)]
pub struct DetailSnapshot {
    /// Replies in time by the rcode in their header. A reply that is wrong counts as well.
    pub rcodes: [u64; RCODES],
    latency: Vec<u64>,
    /// The sum of their latencies, microseconds.
    pub latency_us: u64,
    /// The sum of the squares of their latencies, square microseconds.
    pub latency_squares: u64,
    /// Their shortest latency since the start, microseconds; `u64::MAX` without a reply.
    pub latency_min_us: u64,
    /// Their longest latency since the start, microseconds.
    pub latency_max_us: u64,
    /// Their DNS bytes.
    pub response_bytes: u64,
    /// DNS bytes of the queries sent.
    pub request_bytes: u64,
    /// When the last of them came, nanoseconds since the start.
    pub last_reply_ns: u64,
    /// Queries that could still have been answered when the user ended the trial.
    pub interrupted: u64,
}

impl Default for Detail {
    fn default() -> Self {
        Self {
            rcodes: [const { AtomicU64::new(0) }; RCODES],
            latency: [const { AtomicU64::new(0) }; BUCKETS],
            latency_us: AtomicU64::new(0),
            latency_squares: AtomicU64::new(0),
            latency_min_us: AtomicU64::new(u64::MAX),
            latency_max_us: AtomicU64::new(0),
            response_bytes: AtomicU64::new(0),
            request_bytes: AtomicU64::new(0),
            last_reply_ns: AtomicU64::new(0),
            interrupted: AtomicU64::new(0),
        }
    }
}

impl Detail {
    /// Counts a reply in time. Only one thread writes, so load and store need not be one atomic step.
    #[inline]
    pub(super) fn replied(&self, at_ns: u64, latency_ns: u64, reply: &[u8]) {
        let add = |to: &AtomicU64, count: u64| to.store(to.load(Relaxed).saturating_add(count), Relaxed);
        let latency_us = latency_ns / 1000;
        let rcode = reply.get(3).map_or(0, |byte| usize::from(byte & 0x0f));
        add(&self.rcodes[rcode], 1);
        add(&self.latency[bucket_of(latency_us)], 1);
        add(&self.latency_us, latency_us);
        add(&self.latency_squares, latency_us.saturating_mul(latency_us));
        self.latency_min_us.store(self.latency_min_us.load(Relaxed).min(latency_us), Relaxed);
        self.latency_max_us.store(self.latency_max_us.load(Relaxed).max(latency_us), Relaxed);
        add(&self.response_bytes, reply.len() as u64);
        self.last_reply_ns.store(self.last_reply_ns.load(Relaxed).max(at_ns), Relaxed);
    }

    pub(super) fn sent_bytes(&self, request_bytes: u64) {
        self.request_bytes.store(request_bytes, Relaxed);
    }

    pub(super) fn interrupted(&self, queries: u64) {
        self.interrupted.store(queries, Relaxed);
    }
}

impl DetailSnapshot {
    /// The counts of all threads; `None` without threads.
    pub(super) fn of<'d>(threads: impl Iterator<Item = &'d Detail>) -> Option<Self> {
        threads.map(Self::of_thread).reduce(|sum, one| Self {
            latency_min_us: sum.latency_min_us.min(one.latency_min_us),
            latency_max_us: sum.latency_max_us.max(one.latency_max_us),
            last_reply_ns: sum.last_reply_ns.max(one.last_reply_ns),
            ..sum.each(&one, |ours, theirs| ours + theirs)
        })
    }

    fn of_thread(detail: &Detail) -> Self {
        Self {
            rcodes: detail.rcodes.each_ref().map(|count| count.load(Relaxed)),
            latency: detail.latency.iter().map(|count| count.load(Relaxed)).collect(),
            latency_us: detail.latency_us.load(Relaxed),
            latency_squares: detail.latency_squares.load(Relaxed),
            latency_min_us: detail.latency_min_us.load(Relaxed),
            latency_max_us: detail.latency_max_us.load(Relaxed),
            response_bytes: detail.response_bytes.load(Relaxed),
            request_bytes: detail.request_bytes.load(Relaxed),
            last_reply_ns: detail.last_reply_ns.load(Relaxed),
            interrupted: detail.interrupted.load(Relaxed),
        }
    }

    /// The counts that add up, each made from those of both. The others are ours.
    fn each(&self, other: &Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            rcodes: std::array::from_fn(|rcode| of(self.rcodes[rcode], other.rcodes[rcode])),
            latency: self
                .latency
                .iter()
                .zip(&other.latency)
                .map(|(ours, theirs)| of(*ours, *theirs))
                .collect(),
            latency_us: of(self.latency_us, other.latency_us),
            latency_squares: of(self.latency_squares, other.latency_squares),
            response_bytes: of(self.response_bytes, other.response_bytes),
            request_bytes: of(self.request_bytes, other.request_bytes),
            interrupted: of(self.interrupted, other.interrupted),
            ..*self
        }
    }

    /// What happened since an earlier snapshot. The shortest and longest latency are then known to the bucket only.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let since = self.each(earlier, u64::saturating_sub);
        let mut seen = since.latency_buckets();
        let first = seen.next();
        let last = seen.last().or(first);
        let (low_us, high_us) =
            (first.map_or(u64::MAX, |(low, ..)| low), last.map_or(0, |(_, high, _)| high));
        Self {
            latency_min_us: low_us.max(self.latency_min_us),
            latency_max_us: high_us.min(self.latency_max_us),
            ..since
        }
    }

    /// Replies in time.
    pub fn replies(&self) -> u64 {
        self.rcodes.iter().sum()
    }

    /// Their latencies: for each range of microseconds that has any, its lowest, its highest, and how many.
    pub fn latency_buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let counts = self.latency.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(bucket, count)| {
            let low = bucket.checked_sub(1).map_or(0, |before| upper_of(before) + 1);
            (low, upper_of(bucket), *count)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_count_by_rcode_with_their_latencies() {
        let threads = [Detail::default(), Detail::default()];
        threads[0].replied(5_000_000, 40_000, &[0, 0, 0x80, 0x83, 0]);
        threads[1].replied(7_000_000, 60_000, &[0, 0, 0x80, 0]);
        threads[1].interrupted(2);
        let then = DetailSnapshot::of(threads.iter()).unwrap();
        assert_eq!((then.rcodes[0], then.rcodes[3], then.replies()), (1, 1, 2));
        assert_eq!((then.latency_us, then.latency_squares), (100, 40 * 40 + 60 * 60));
        assert_eq!((then.latency_min_us, then.latency_max_us, then.last_reply_ns), (40, 60, 7_000_000));
        assert_eq!((then.response_bytes, then.interrupted), (9, 2));
        threads[0].replied(9_000_000, 1_000_000, &[]);
        let since = DetailSnapshot::of(threads.iter()).unwrap().since(&then);
        assert_eq!((since.replies(), since.latency_us, since.last_reply_ns), (1, 1000, 9_000_000));
        assert_eq!(since.latency_buckets().collect::<Vec<_>>(), [(960, 1023, 1)]);
        assert_eq!((since.latency_min_us, since.latency_max_us), (960, 1000));
        assert!(DetailSnapshot::of([].iter()).is_none());
    }
}
