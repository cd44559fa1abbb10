//! How questions get from workers to a resolver: in batches, of which a worker hands over one at the end of each turn.
//! A resolver that works takes them when it comes to it, and one that sleeps is woken once.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use kqps_kernel::{Address, LocalAddress};
use kqps_server::later::{Mailbox, Origin};
use mio::Waker;

use crate::parsed_query::ParsedQuery;

/// The queries, and their bytes, for which a batch always keeps its memory.
const KEPT_JOBS: usize = 256;
const KEPT_BYTES: usize = 16 * 1024;

/// Who waits for an answer.
#[derive(Clone, Debug)]
pub(crate) enum Asker {
    /// The sender of a datagram.
    Datagram {
        /// The worker that got it, and the index of the endpoint there.
        worker: usize,
        endpoint: usize,
        to: Address,
        /// The address to which the query was sent, if the reply must name it.
        from: Option<LocalAddress>,
    },
    /// A client on a connection, whose thread has this mailbox.
    Connection(Arc<Mailbox>, Origin),
    /// No client: the answer is asked for before its TTL runs out.
    Nobody,
}

/// A query that a resolver answers.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) asker: Asker,
    pub(crate) asked: ParsedQuery,
    /// The query as far as the reply needs it, as a place in the bytes of the batch.
    query: Range<usize>,
    /// The longest reply in bytes.
    pub(crate) limit_bytes: usize,
}

/// Queries on their way to a resolver.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    jobs: Vec<Job>,
    bytes: Vec<u8>,
}

impl Batch {
    /// The number of queries.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Adds a query, of which `asked` was read. The batch keeps what the reply needs of it.
    #[inline]
    pub(crate) fn push(&mut self, asker: Asker, asked: ParsedQuery, query: &[u8], limit_bytes: usize) {
        let start = self.bytes.len();
        asked.write_short(query, &mut self.bytes);
        self.jobs.push(Job { asker, asked, query: start..self.bytes.len(), limit_bytes });
    }

    /// Moves all queries of another batch behind those of this one.
    fn append(&mut self, other: &mut Self) {
        if self.jobs.is_empty() {
            std::mem::swap(self, other);
            return;
        }
        let before = self.bytes.len();
        self.bytes.append(&mut other.bytes);
        let moved = other.jobs.drain(..).map(|job| {
            let query = job.query.start + before..job.query.end + before;
            Job { query, ..job }
        });
        self.jobs.extend(moved);
    }

    /// Takes each query, with its bytes. The batch is empty afterwards. It keeps memory for a few times as many
    /// queries: a flood leaves none behind once it is over.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(Job, &[u8])) {
        let (jobs, bytes) = (self.jobs.len(), self.bytes.len());
        for job in self.jobs.drain(..) {
            let query = job.query.clone();
            each(job, &self.bytes[query]);
        }
        self.bytes.clear();
        if self.jobs.capacity() > KEPT_JOBS.max(4 * jobs) {
            self.jobs.shrink_to(KEPT_JOBS.max(2 * jobs));
        }
        if self.bytes.capacity() > KEPT_BYTES.max(4 * bytes) {
            self.bytes.shrink_to(KEPT_BYTES.max(2 * bytes));
        }
    }
}

/// The queries that wait for a resolver.
pub(crate) struct Inbox {
    waiting: Mutex<Batch>,
    /// The number of queries that wait.
    length: AtomicUsize,
    /// The maximum number of queries that wait.
    most: usize,
    /// Whether the resolver waits for events, or is about to.
    is_asleep: AtomicBool,
    waker: OnceLock<Waker>,
}

impl Inbox {
    /// An inbox for `most` queries.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            waiting: Mutex::default(),
            length: AtomicUsize::new(0),
            most,
            is_asleep: AtomicBool::new(false),
            waker: OnceLock::new(),
        }
    }

    /// Sets what wakes the resolver, before it sleeps for the first time.
    pub(crate) fn set_waker(&self, waker: Waker) {
        // It is set once, by the one resolver that has the inbox.
        let _ = self.waker.set(waker);
    }

    /// Whether there is room for one more query besides `others` that are not handed over.
    #[inline]
    pub(crate) fn has_room(&self, others: usize) -> bool {
        self.length.load(SeqCst) + others < self.most
    }

    /// Hands over all queries of a batch.
    pub(crate) fn hand_over(&self, batch: &mut Batch) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.append(batch);
        self.length.store(waiting.len(), SeqCst);
        drop(waiting);
        if self.is_asleep.swap(false, SeqCst) {
            self.wake();
        }
    }

    /// Wakes the resolver.
    pub(crate) fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            // It fails only if the counter of the eventfd is full, and then the resolver is awake.
            let _ = waker.wake();
        }
    }

    /// Announces that the resolver goes to sleep. Returns whether it may: no query waits.
    pub(crate) fn sleeps(&self) -> bool {
        self.is_asleep.store(true, SeqCst);
        // A worker that did not see the announcement has handed over before, which shows here.
        let may_sleep = self.length.load(SeqCst) == 0;
        if !may_sleep {
            self.is_asleep.store(false, SeqCst);
        }
        may_sleep
    }

    /// Notes that the resolver works.
    pub(crate) fn works(&self) {
        self.is_asleep.store(false, SeqCst);
    }

    /// Exchanges the queries that wait for `batch`, which must be empty.
    pub(crate) fn take(&self, batch: &mut Batch) {
        if self.length.load(SeqCst) == 0 {
            return;
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *waiting, batch);
        self.length.store(0, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A query for a name of one letter.
    fn query(letter: u8) -> Vec<u8> {
        [&b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x01"[..], &[letter], b"\0\0\x01\0\x01"].concat()
    }

    fn push(batch: &mut Batch, letter: u8, limit_bytes: usize) {
        let query = query(letter);
        batch.push(Asker::Nobody, ParsedQuery::from_query(&query).unwrap(), &query, limit_bytes);
    }

    fn queries(batch: &mut Batch) -> Vec<(Vec<u8>, usize)> {
        let mut all = Vec::new();
        batch.drain(|job, query| {
            assert_eq!(ParsedQuery::from_query(query), Ok(job.asked));
            all.push((query.to_vec(), job.limit_bytes));
        });
        all
    }

    #[test]
    fn a_flood_leaves_no_memory_behind() {
        let mut batch = Batch::default();
        (0..10_000).for_each(|_| push(&mut batch, b'a', 512));
        assert_eq!(queries(&mut batch).len(), 10_000);
        assert!(batch.jobs.capacity() >= 10_000, "the next turn may bring as many");
        push(&mut batch, b'a', 512);
        assert_eq!(queries(&mut batch).len(), 1);
        assert!(batch.jobs.capacity() <= 2 * KEPT_JOBS && batch.bytes.capacity() <= 2 * KEPT_BYTES);
    }

    #[test]
    fn batches_arrive_in_order() {
        let inbox = Inbox::new(4);
        let (mut first, mut second, mut taken) = (Batch::default(), Batch::default(), Batch::default());
        for _ in 0..2 {
            assert!(inbox.sleeps());
            push(&mut first, b'a', 1);
            push(&mut first, b'b', 2);
            push(&mut second, b'c', 3);
            inbox.hand_over(&mut first);
            assert!(inbox.has_room(1) && !inbox.has_room(2));
            inbox.hand_over(&mut second);
            assert_eq!((first.len(), second.len()), (0, 0));
            assert!(!inbox.sleeps(), "queries wait");
            inbox.take(&mut taken);
            let expected = [(query(b'a'), 1), (query(b'b'), 2), (query(b'c'), 3)];
            assert_eq!(queries(&mut taken), expected);
        }
        inbox.take(&mut taken);
        assert_eq!(taken.len(), 0);
    }
}
