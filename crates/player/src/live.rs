//! Progress of a running trial. Each thread publishes its counts in its own atomics. Only that thread writes them,
//! with relaxed ordering, so reading them costs the player nothing.

mod counters;
mod detail;
mod fates;
mod times;

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use kqps_kernel::clock;
use kqps_observation::live::{LIVE_RANGES, live_range_of};
use kqps_observation::{LiveClass, LiveCounts, LivePhase, LiveTimes};

use crate::connections::ConnectionCounts;
use crate::tally::Tally;
use detail::Detail;
use fates::Fates;

pub use detail::DetailSnapshot;
pub use times::TimesSnapshot;

/// The published counts of all threads.
#[derive(Debug)]
pub struct Live {
    threads: Box<[ThreadLive]>,
    /// The threads of each class of clients, with its name; empty if there is one class.
    classes: Vec<(String, Range<usize>)>,
    began_ns: OnceLock<u64>,
    has_ended: AtomicBool,
    ended_ns: OnceLock<u64>,
}

/// The published counts of one thread, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub struct ThreadLive {
    sent: AtomicU64,
    correct: AtomicU64,
    bad: AtomicU64,
    /// Attempts of attackers.
    attempts: AtomicU64,
    /// Latencies of correct replies. Each bucket is an eighth of a power of two of microseconds.
    latency: [AtomicU64; LIVE_RANGES],
    /// More counts, if they were asked for.
    detail: Option<Box<Detail>>,
    /// The fates of queries and connections, if they were asked for.
    fates: Option<Box<Fates>>,
    /// The thread's ID; 0 before it is ready.
    id: AtomicU32,
    /// The CPU time that the thread had used when it ended, nanoseconds; 0 before.
    cpu_ns: AtomicU64,
    has_sent_all: AtomicBool,
}

impl Default for ThreadLive {
    fn default() -> Self {
        Self {
            sent: AtomicU64::new(0),
            correct: AtomicU64::new(0),
            bad: AtomicU64::new(0),
            attempts: AtomicU64::new(0),
            latency: [const { AtomicU64::new(0) }; LIVE_RANGES],
            detail: None,
            fates: None,
            id: AtomicU32::new(0),
            cpu_ns: AtomicU64::new(0),
            has_sent_all: AtomicBool::new(false),
        }
    }
}

/// A snapshot of a running trial. Counts grow from the trial's start.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Queries sent.
    pub sent: u64,
    /// Correct replies.
    pub correct: u64,
    /// Queries known to be bad by now: unsent, refused by the kernel, or without a correct reply within the timeout.
    pub bad: u64,
    /// Attempts of attackers that were begun. They are no queries.
    pub attempts: u64,
    /// The latencies of correct replies.
    pub latency: LiveTimes,
    /// More counts, if they were asked for.
    pub detail: Option<DetailSnapshot>,
}

impl Live {
    /// Counts of zero, with room for `threads` threads.
    pub fn new(threads: usize) -> Self {
        Self::from_threads((0..threads).map(|_| ThreadLive::default()).collect())
    }

    fn from_threads(threads: Box<[ThreadLive]>) -> Self {
        Self {
            threads,
            classes: Vec::new(),
            began_ns: OnceLock::new(),
            has_ended: AtomicBool::new(false),
            ended_ns: OnceLock::new(),
        }
    }

    /// Counts of zero with [`Snapshot::detail`] as well, which costs the player some nanoseconds for each reply.
    pub fn detailed(threads: usize) -> Self {
        let thread = || ThreadLive { detail: Some(Box::default()), ..ThreadLive::default() };
        Self::from_threads((0..threads).map(|_| thread()).collect())
    }

    /// Adds the fates that [`Self::counts`] needs. The threads publish them once in a millisecond, from counts that
    /// they have in any case, so that a query costs them nothing.
    #[must_use]
    pub fn with_fates(mut self) -> Self {
        self.threads.iter_mut().for_each(|thread| thread.fates = Some(Box::default()));
        self
    }

    /// Divides the threads into classes of clients, each with its name and the number of its threads, for
    /// [`LiveCounts::classes`].
    #[must_use]
    pub fn with_classes(mut self, classes: impl IntoIterator<Item = (String, usize)>) -> Self {
        let mut first = 0;
        for (name, threads) in classes {
            let end = (first + threads).min(self.threads.len());
            self.classes.push((name, first..end));
            first = end;
        }
        self
    }

    /// Notes that the threads begin to send at this time on the monotonic clock.
    pub(crate) fn begin(&self, start_ns: u64) {
        let _ = self.began_ns.set(start_ns);
    }

    /// Notes that the load of the last thread ended.
    pub(crate) fn load_ended(&self) {
        self.has_ended.store(true, Relaxed);
    }

    /// Notes that all threads have ended, and have published all.
    pub(crate) fn end(&self) {
        let _ = self.ended_ns.set(clock::now_ns());
    }

    /// The trial's start on the monotonic clock, nanoseconds, which may lie some milliseconds ahead. `None` while
    /// threads get ready.
    pub fn began_ns(&self) -> Option<u64> {
        self.began_ns.get().copied()
    }

    /// Whether no thread sends any more. Replies may still arrive.
    pub fn has_sent_all(&self) -> bool {
        self.threads.iter().all(|thread| thread.has_sent_all.load(Relaxed))
    }

    /// The counters of one thread, by its number from 0. Panics if there is no such thread.
    pub fn thread(&self, number: usize) -> &ThreadLive {
        &self.threads[number]
    }

    /// The current counts of all threads.
    pub fn snapshot(&self) -> Snapshot {
        let sum = |field: fn(&ThreadLive) -> &AtomicU64| {
            self.threads.iter().map(|thread| field(thread).load(Relaxed)).sum::<u64>()
        };
        // Replies are read before queries, so that none is without its query.
        let detail =
            DetailSnapshot::from_threads(self.threads.iter().filter_map(|thread| thread.detail.as_deref()));
        Snapshot {
            sent: sum(|thread| &thread.sent),
            correct: sum(|thread| &thread.correct),
            bad: sum(|thread| &thread.bad),
            attempts: sum(|thread| &thread.attempts),
            latency: latencies(&self.threads),
            detail,
        }
    }

    /// The counts so far of a class of clients.
    fn class(&self, (name, threads): &(String, Range<usize>)) -> LiveClass {
        let threads = &self.threads[threads.clone()];
        let mut counts = LiveCounts::default();
        for fates in threads.iter().filter_map(|thread| thread.fates.as_deref()) {
            fates.add_to(&mut counts);
        }
        let attempts = threads.iter().map(|thread| thread.attempts.load(Relaxed)).sum();
        LiveClass { name: name.clone(), accounts: counts.accounts, attempts, latency: latencies(threads) }
    }

    /// The present phase of the player.
    fn phase(&self) -> LivePhase {
        match self.began_ns() {
            _ if self.ended_ns.get().is_some() => LivePhase::Over,
            Some(began_ns) if began_ns <= clock::now_ns() => {
                if self.has_ended.load(Relaxed) {
                    LivePhase::Draining
                } else {
                    LivePhase::Sending
                }
            }
            _ => LivePhase::Preparing,
        }
    }

    /// The CPU time that the threads have used, seconds; `None` if that of none is known.
    fn cpu_s(&self) -> Option<f64> {
        let of_each = self.threads.iter().filter_map(ThreadLive::cpu_ns);
        of_each.reduce(|sum, one| sum + one).map(|sum_ns| sum_ns as f64 / 1e9)
    }

    /// The counts so far of all threads. The subject's CPU time is not known here. Accounts and causes are 0 unless
    /// [`Self::with_fates`] asked for them.
    pub fn counts(&self) -> LiveCounts {
        let phase = self.phase();
        let until_ns = self.ended_ns.get().copied().unwrap_or_else(clock::now_ns);
        let latency = latencies(&self.threads);
        let classes = self.classes.iter().map(|class| self.class(class)).collect();
        let player_cpu_s = self.cpu_s();
        let mut counts = LiveCounts { phase, latency, player_cpu_s, classes, ..LiveCounts::default() };
        for fates in self.threads.iter().filter_map(|thread| thread.fates.as_deref()) {
            fates.add_to(&mut counts);
        }
        counts.at_s = self.began_ns().map_or(0, |began_ns| until_ns.saturating_sub(began_ns)) as f64 / 1e9;
        counts
    }
}

/// The latencies of these threads.
fn latencies(threads: &[ThreadLive]) -> LiveTimes {
    let of_bucket = |bucket: usize| threads.iter().map(|thread| thread.latency[bucket].load(Relaxed)).sum();
    LiveTimes::of_ranges((0..LIVE_RANGES).map(of_bucket))
}

impl ThreadLive {
    /// Notes that the thread with this ID is ready.
    pub(crate) fn thread_begins(&self, id: u32) {
        self.id.store(id, Relaxed);
    }

    /// Notes that the thread sends nothing more.
    pub(crate) fn sent_all(&self) {
        self.has_sent_all.store(true, Relaxed);
    }

    /// Notes that the calling thread has played. Its CPU time cannot be read when it is gone.
    pub(crate) fn thread_ends(&self) {
        self.cpu_ns.store(clock::thread_cpu_ns(), Relaxed);
    }

    /// The CPU time that the thread has used, nanoseconds, 0 before it is ready; `None` if it is not known.
    fn cpu_ns(&self) -> Option<u64> {
        match (self.cpu_ns.load(Relaxed), self.id.load(Relaxed)) {
            (0, 0) => Some(0),
            (0, id) => clock::thread_cpu_ns_of(id).ok(),
            (ended_ns, _) => Some(ended_ns),
        }
    }

    /// Publishes the thread's counts. `waiting` are queries that may still be answered in time.
    #[inline]
    pub(crate) fn publish(&self, tally: &Tally, waiting: u64) {
        let accounts = &tally.accounts;
        if let Some(detail) = &self.detail {
            detail.sent_bytes(tally.request_bytes);
        }
        if let Some(fates) = &self.fates {
            fates.publish(tally, waiting);
        }
        self.sent.store(accounts.sent, Relaxed);
        self.correct.store(accounts.correct, Relaxed);
        let unanswered = accounts.sent.saturating_sub(accounts.correct + waiting);
        self.bad.store(accounts.unsent + accounts.send_failed + unanswered, Relaxed);
    }

    /// Publishes how many attempts of attackers were begun.
    pub(crate) fn attempted(&self, begun: u64) {
        self.attempts.store(begun, Relaxed);
    }

    /// Publishes what was sent, if replies are counted as they come: no reply may count before its query.
    #[inline]
    pub(crate) fn sent(&self, tally: &Tally) {
        if let Some(detail) = &self.detail {
            detail.sent_bytes(tally.request_bytes);
            self.sent.store(tally.accounts.sent, Relaxed);
        }
    }

    /// Publishes the counts of the thread's connections.
    pub(crate) fn connections(&self, counts: &ConnectionCounts) {
        if let Some(fates) = &self.fates {
            fates.connections(counts);
        }
    }

    /// Counts a reply with this rcode and so many bytes that arrived in time at `at_ns`.
    #[inline]
    pub(crate) fn replied(&self, at_ns: u64, latency_ns: u64, (rcode, bytes): (u16, usize)) {
        if let Some(detail) = &self.detail {
            detail.replied(at_ns, latency_ns, (rcode, bytes));
        }
    }

    /// Counts a connection that is begun.
    pub(crate) fn connecting(&self) {
        if let Some(detail) = &self.detail {
            detail.connecting();
        }
    }

    /// Counts a connection that was made.
    pub(crate) fn connected(&self, took_ns: u64) {
        if let Some(detail) = &self.detail {
            detail.connected(took_ns);
        }
    }

    /// Counts queries that got no reply in time.
    #[inline]
    pub(crate) fn timed_out(&self, queries: u64) {
        if let Some(detail) = &self.detail {
            detail.timed_out(queries);
        }
    }

    /// Notes how many queries the user's end of the trial cut off.
    pub(crate) fn interrupted(&self, queries: u64) {
        if let Some(detail) = &self.detail {
            detail.interrupted(queries);
        }
    }

    /// Counts a latency. Only this thread writes, so load and store need not be one atomic step.
    #[inline]
    pub(crate) fn latency(&self, latency_ns: u64) {
        let bucket = &self.latency[live_range_of(latency_ns / 1000)];
        bucket.store(bucket.load(Relaxed) + 1, Relaxed);
    }
}

impl Snapshot {
    /// Counts since an earlier snapshot.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            sent: self.sent - earlier.sent,
            correct: self.correct - earlier.correct,
            bad: self.bad - earlier.bad,
            attempts: self.attempts - earlier.attempts,
            latency: self.latency.since(&earlier.latency),
            detail: self.detail.as_ref().zip(earlier.detail.as_ref()).map(|(now, then)| now.since(then)),
        }
    }

    /// The share of bad queries, from 0 to 1, among those whose fate is known; 0 if there are none. Queries that fell
    /// due but have no fate yet do not count.
    pub fn bad_share(&self) -> f64 {
        self.bad as f64 / (self.bad + self.correct).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use kqps_kernel::affinity;
    use kqps_observation::Accounts;

    use super::*;

    /// How long the kernel may take to forget a thread.
    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn a_query_is_bad_once_its_timeout_has_gone_by_and_only_once() {
        let live = Live::new(1);
        let accounts =
            Accounts { intended: 10, unsent: 1, send_failed: 1, sent: 8, correct: 3, ..Accounts::default() };
        let publish = |accounts, waiting| {
            let mut tally = Tally::default();
            tally.accounts = accounts;
            live.threads[0].publish(&tally, waiting);
        };
        publish(accounts, 3);
        let began = live.snapshot();
        assert_eq!((began.bad, began.bad_share()), (4, 4.0 / 7.0));
        // Nothing falls due any more. One of the three gets no reply, and the overdue queries are lost.
        publish(Accounts { correct: 5, lost: 3, ..accounts }, 0);
        let then = live.snapshot().since(&began);
        assert_eq!((then.bad, then.bad_share()), (1, 1.0 / 3.0));
        let nothing = live.snapshot().since(&live.snapshot());
        assert_eq!((nothing.bad, nothing.bad_share()), (0, 0.0));
    }

    #[test]
    fn cpu_time_is_that_of_the_threads_alone_also_when_they_have_ended() {
        let live = Live::new(3);
        assert_eq!(live.counts().player_cpu_s, Some(0.0), "no thread is ready");
        let play = |number: usize, notes_its_end: bool| {
            live.thread(number).thread_begins(affinity::thread_id());
            assert!(live.thread(number).cpu_ns().is_some());
            if notes_its_end {
                live.thread(number).thread_ends();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| play(0, true)).join().unwrap();
            scope.spawn(|| play(1, false)).join().unwrap();
        });
        let ended_ns = live.thread(0).cpu_ns().unwrap();
        // A thread can be joined a moment before the kernel forgets it.
        let begun = Instant::now();
        while live.thread(1).cpu_ns().is_some() && begun.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
        assert_eq!((live.thread(1).cpu_ns(), live.thread(2).cpu_ns()), (None, Some(0)));
        assert_eq!(live.counts().player_cpu_s, Some(ended_ns as f64 / 1e9));
    }
}
