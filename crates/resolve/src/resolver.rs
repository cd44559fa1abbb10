//! The loop of one resolver. Each turn it reads answers of servers, keeps them and replies to the clients that wait for
//! them, and then takes the questions that came in. At its end it sends queries and replies in few calls.

mod late;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kqps_cache::{Answered as Lookup, Failure, Key, Purpose, Put, Reply, Shared};
use kqps_front::FrontSettings;
use kqps_front::upstream::{Answers, Outcome, Upstream};
use kqps_kernel::clock::now_s;
use kqps_message::rcode;
use kqps_server::connections::frame::MESSAGE_BYTES;
use kqps_server::counts::{Cause, Counts, Rcodes};

use crate::asks::{Ask, Asks, Waiter};
use crate::chase::{Chase, Step};
use crate::handoff::{Asker, Batch, Inbox, Job};
use crate::overview::{Duty, Overview};
use crate::replies::Replies;
use crate::reply::refuse;
use crate::resolvers::Resolvers;
use crate::tally::{Count, Tally};
use crate::upstreams::Zones;
use crate::{key, outgoing};
use late::Late;

/// How often the counts of servers are reported while there is work, in nanoseconds.
const REPORT_NS: u64 = 100_000_000;

/// The parts of which a resolver is made.
pub(crate) struct Parts {
    /// Its number.
    pub(crate) number: usize,
    pub(crate) settings: Arc<FrontSettings>,
    pub(crate) resolvers: Arc<Resolvers>,
    pub(crate) cache: Arc<Shared>,
    pub(crate) zones: Arc<Zones>,
    pub(crate) overview: Arc<Overview>,
    /// The maximum number of clients that wait.
    pub(crate) waiting: usize,
    /// Whether clients may get stale answers.
    pub(crate) has_stale: bool,
}

/// A resolver, which belongs to the thread that made it.
pub(crate) struct Resolver {
    parts: Parts,
    upstream: Upstream,
    replies: Replies,
    tally: Arc<Tally>,
    asks: Asks,
    /// When clients of questions get stale answers, the first at the front.
    late: VecDeque<Late>,
    /// The outcomes of queries in this turn, and the questions that came in.
    answers: Answers,
    batch: Batch,
    /// Working memory: a key, a query, and a reply.
    key: Vec<u8>,
    query: Vec<u8>,
    buffer: Box<[u8]>,
    now_s: u64,
    report_ns: u64,
}

impl Resolver {
    /// Opens sockets to the servers. Call it on the thread that runs the resolver. It sends replies to datagrams by
    /// `replies`.
    pub(crate) fn new(parts: Parts, replies: Replies) -> io::Result<Self> {
        let upstream = Upstream::new(&parts.settings)?;
        parts.resolvers.inboxes[parts.number].set_waker(upstream.waker()?);
        Ok(Self {
            upstream,
            replies,
            tally: parts.overview.tally(Duty::Resolver),
            asks: Asks::new(parts.waiting),
            late: VecDeque::new(),
            answers: Answers::default(),
            batch: Batch::default(),
            key: Vec::new(),
            query: Vec::new(),
            buffer: vec![0; MESSAGE_BYTES].into(),
            now_s: 0,
            report_ns: 0,
            parts,
        })
    }

    /// Works until it is stopped. Returns the counts of replies to datagrams.
    pub(crate) fn run(mut self, stop: &AtomicBool) -> io::Result<(Counts, Rcodes)> {
        while !stop.load(Ordering::Relaxed) {
            let may_wait = self.inbox().sleeps();
            self.upstream.wait(may_wait && !stop.load(Ordering::Relaxed))?;
            self.inbox().works();
            // The clock of the workers: an answer must not be from their future.
            self.now_s = now_s();
            self.settle();
            self.answer_late();
            self.take();
            self.upstream.end_turn();
            // Without a server that is up, questions have failed already.
            self.settle();
            self.replies.send();
            self.report();
        }
        self.upstream.stop();
        self.settle();
        let mut batch = std::mem::take(&mut self.batch);
        self.inbox().take(&mut batch);
        batch.drain(|job, _| self.drop(&job.asker, Cause::Stopped));
        self.replies.send();
        self.report_ns = 0;
        self.report();
        Ok((self.replies.counts, self.replies.rcodes))
    }

    fn inbox(&self) -> &Inbox {
        &self.parts.resolvers.inboxes[self.parts.number]
    }

    /// Takes the questions that came in.
    fn take(&mut self) {
        let mut batch = std::mem::take(&mut self.batch);
        self.inbox().take(&mut batch);
        batch.drain(|job, query| self.begin(job, query));
        self.batch = batch;
    }

    /// Has a client wait for the answer to its question, which is asked unless it is under way.
    fn begin(&mut self, job: Job, query: &[u8]) {
        let Job { asker, asked, limit_bytes, .. } = job;
        key::write(&mut self.key, asked.name(query), asked);
        let known = self.asks.find(&self.key);
        if matches!(asker, Asker::Nobody) {
            if known.is_none() {
                self.tally.add(Count::Prefetches);
                self.ask(None);
            }
            return;
        }
        let waiter = Waiter { asker, asked, query: query.into(), limit_bytes };
        if !self.asks.has_room() {
            return self.drop(&waiter.asker, Cause::OverloadNewest);
        }
        match known {
            Some(number) => {
                self.tally.add(Count::Coalesced);
                if !self.is_late(number) || !self.answer_stale(&waiter) {
                    self.asks.wait(number, waiter);
                }
            }
            None if self.is_overtaken(&waiter) => {}
            None => self.ask(Some(waiter)),
        }
    }

    /// Whether the answer came since the worker looked. The client then has it.
    fn is_overtaken(&mut self, waiter: &Waiter) -> bool {
        let found = self.find(waiter, Purpose::Waiter);
        let (Lookup::Hit { bytes, .. } | Lookup::Stale { bytes } | Lookup::Failed { bytes }) = found else {
            return false;
        };
        self.tally.add(Count::Overtaken);
        self.send(&waiter.asker, bytes);
        true
    }

    /// Looks in the cache for a client that waits. The reply is in the buffer.
    fn find(&mut self, waiter: &Waiter, purpose: Purpose) -> Lookup {
        let Self { parts, buffer, key, now_s, .. } = self;
        let Waiter { asked, query, limit_bytes, .. } = waiter;
        key::write(key, asked.name(query), *asked);
        let Some(key) = parts.cache.key(&key::question(key)) else { return Lookup::Miss };
        buffer[..query.len()].copy_from_slice(query);
        parts.cache.answer_read(&key, asked.form(), buffer, *limit_bytes, *now_s, purpose)
    }

    /// Asks the question of the key for a client that waits, or to renew the answer. The worker has refused it if no
    /// server answers for its name.
    fn ask(&mut self, waiter: Option<Waiter>) {
        let Self { parts, asks, key, now_s, .. } = self;
        let question = key::question(key);
        let Some(mut chase) = Chase::new(&question, &parts.zones, waiter.is_none()) else {
            return waiter.iter().for_each(|waiter| self.drop(&waiter.asker, Cause::ClientGone));
        };
        let step = chase.look(&question, &parts.zones, &parts.cache, *now_s);
        let number = asks.add(key, chase);
        if let Some(waiter) = waiter {
            asks.wait(number, waiter);
        }
        self.go_on(number, step);
        self.note_late(number);
    }

    /// Asks the next question on the way to an answer, or ends.
    fn go_on(&mut self, number: u32, step: Step) {
        match step {
            Step::Ask => {
                let Self { parts, upstream, asks, query, .. } = self;
                let Some(Ask { key, chase, .. }) = asks.get_mut(number) else { return };
                let (zone, question) = (chase.zone(), key::question(key));
                let is_forwarded = parts.zones.get(zone).is_forwarded;
                outgoing::write(query, &chase.target(&question), is_forwarded, || upstream.random());
                upstream.ask(number, zone, query);
            }
            Step::Whole(reply) => self.end(number, Ok(&reply)),
            Step::Broken => self.end(number, Err(Failure::Unusable)),
        }
    }

    /// Handles what became of queries.
    fn settle(&mut self) {
        let mut answers = std::mem::take(&mut self.answers);
        // A full table may end a question at once.
        loop {
            self.upstream.exchange(&mut answers);
            if answers.is_empty() {
                break;
            }
            for (number, outcome) in answers.iter() {
                self.take_outcome(number, outcome);
            }
            answers.clear();
        }
        self.answers = answers;
    }

    /// Handles what became of a query.
    fn take_outcome(&mut self, number: u32, outcome: Outcome<'_>) {
        match outcome {
            Outcome::Dropped(cause) => self.abandon(number, cause),
            Outcome::Failed => self.end(number, Err(Failure::Silent)),
            Outcome::Reply(message) => {
                let Self { parts, asks, now_s, .. } = self;
                let Some(Ask { key, chase, .. }) = asks.get_mut(number) else { return };
                let question = key::question(key);
                let step = chase.take(&question, message, &parts.zones, &parts.cache, *now_s);
                self.go_on(number, step);
            }
        }
    }

    /// Keeps the answer to a question, or notes that there is none, and replies to all clients that wait for it.
    fn end(&mut self, number: u32, answer: Result<&Reply, Failure>) {
        let Some(Ask { key, waiters, .. }) = self.asks.remove(number) else { return };
        let question = key::question(&key);
        match answer {
            Ok(reply) => {
                let put = self.parts.cache.keep(&question, reply, self.now_s);
                self.tally.add(if matches!(put, Put::Kept { .. }) { Count::Kept } else { Count::NotKept });
            }
            Err(failure) => {
                if failure == Failure::Unusable {
                    self.tally.add(Count::Unusable);
                }
                // An answer in the cache is still good if its renewal failed.
                if !waiters.is_empty() {
                    self.parts.cache.failed(&question, failure, self.now_s);
                }
            }
        }
        for waiter in &waiters {
            self.reply(waiter, answer.ok());
        }
    }

    /// Drops a question for which there is no room, with the clients that wait for it.
    fn abandon(&mut self, number: u32, cause: Cause) {
        let Some(Ask { key, waiters, .. }) = self.asks.remove(number) else { return };
        for waiter in &waiters {
            self.drop(&waiter.asker, cause);
        }
        let key: Option<Key> = self.parts.cache.key(&key::question(&key));
        if let Some(key) = key.filter(|_| waiters.is_empty()) {
            self.parts.cache.forget_prefetch(&key);
        }
    }

    /// Replies to a client. Without an answer the client gets what the cache has, a stale answer or SERVFAIL.
    fn reply(&mut self, waiter: &Waiter, answer: Option<&Reply>) {
        let Waiter { asker, asked, query, limit_bytes } = waiter;
        let bytes = if let Some(reply) = answer {
            self.buffer[..query.len()].copy_from_slice(query);
            reply.answer(asked.form(), &mut self.buffer, *limit_bytes)
        } else {
            match self.find(waiter, Purpose::Waiter) {
                Lookup::Hit { bytes, .. } | Lookup::Failed { bytes } => bytes,
                Lookup::Stale { bytes } => {
                    self.tally.add(Count::StaleAfterFailure);
                    bytes
                }
                Lookup::Miss => {
                    self.buffer[..query.len()].copy_from_slice(query);
                    refuse(&mut self.buffer, query.len(), rcode::SERVFAIL)
                }
            }
        };
        self.send(asker, bytes);
    }

    /// Sends the first `bytes` bytes of the buffer to a client.
    fn send(&mut self, asker: &Asker, bytes: usize) {
        let reply = &self.buffer[..bytes];
        match asker {
            Asker::Datagram { worker, endpoint, to, from } => {
                self.tally.add(Count::Answered);
                self.replies.push((*worker, *endpoint), *to, *from, reply);
            }
            Asker::Connection(mailbox, origin) => {
                self.tally.add(Count::AnsweredConnection);
                mailbox.post(*origin, Ok(reply));
            }
            Asker::Nobody => {}
        }
    }

    /// Counts a query that gets no answer.
    fn drop(&mut self, asker: &Asker, cause: Cause) {
        match asker {
            Asker::Datagram { .. } => self.replies.counts.drop(cause),
            Asker::Connection(mailbox, origin) => mailbox.post(*origin, Err(cause)),
            Asker::Nobody => {}
        }
    }

    /// Reports the counts of servers, now and then.
    fn report(&mut self) {
        let now_ns = self.upstream.now_ns();
        if now_ns >= self.report_ns {
            self.report_ns = now_ns + REPORT_NS;
            self.parts.overview.store_back_ends(self.parts.number, self.upstream.reports());
        }
    }
}
