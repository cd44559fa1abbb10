//! The loop of one resolver. Each turn it reads answers of servers, keeps them and replies to the clients that wait for
//! them, and then takes the questions that came in. At its end it sends queries and replies in few calls.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kqps_cache::{Answered as Found, Put, Question};
use kqps_front::FrontSettings;
use kqps_front::upstream::{Answers, Outcome, Upstream};
use kqps_kernel::clock::now_s;
use kqps_message::query::CLASS_IN;
use kqps_message::rcode;
use kqps_server::connections::frame::MESSAGE_BYTES;
use kqps_server::counts::{Cause, Counts, Rcodes};

use crate::asked::Asked;
use crate::asks::{Ask, Asks, Waiter};
use crate::handoff::{Asker, Batch, Inbox, Job};
use crate::overview::{Duty, Overview};
use crate::replies::Replies;
use crate::reply::{pass_on, refuse};
use crate::resolvers::Resolvers;
use crate::store::Store;
use crate::tally::{Count, Tally};
use crate::upstreams::Zones;
use crate::usable::is_answer;
use crate::{key, outgoing};

/// How often the counts of servers are reported while there is work, in nanoseconds.
const REPORT_NS: u64 = 100_000_000;

/// What a resolver is made of.
pub(crate) struct Parts {
    /// Its number.
    pub(crate) number: usize,
    pub(crate) settings: Arc<FrontSettings>,
    pub(crate) resolvers: Arc<Resolvers>,
    pub(crate) store: Arc<Store>,
    pub(crate) zones: Arc<Zones>,
    pub(crate) overview: Arc<Overview>,
    /// The maximum number of clients that wait.
    pub(crate) waiting: usize,
}

/// A resolver, which belongs to the thread that made it.
pub(crate) struct Resolver {
    parts: Parts,
    upstream: Upstream,
    replies: Replies,
    tally: Arc<Tally>,
    asks: Asks,
    /// What became of queries in this turn, and the questions that came in.
    answers: Answers,
    batch: Batch,
    /// Working memory: a key, a query, an answer that is not kept, and a reply.
    key: Vec<u8>,
    query: Vec<u8>,
    passed: Vec<u8>,
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
            answers: Answers::default(),
            batch: Batch::default(),
            key: Vec::new(),
            query: Vec::new(),
            passed: Vec::new(),
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
        // Its worker has read it.
        let Ok(asked) = Asked::of(query) else { return self.drop(&job.asker, Cause::QueryTooShort) };
        key::write(&mut self.key, asked.name(query), asked);
        let known = self.asks.find(&self.key);
        if matches!(job.asker, Asker::Nobody) {
            if known.is_none() {
                self.tally.add(Count::Prefetches);
                self.ask();
            }
            return;
        }
        if !self.asks.has_room() {
            return self.drop(&job.asker, Cause::OverloadNewest);
        }
        let number = match known {
            Some(number) => {
                self.tally.add(Count::Coalesced);
                Some(number)
            }
            None if self.is_overtaken(&job, asked, query) => return,
            None => self.ask(),
        };
        let Some(number) = number else { return self.drop(&job.asker, Cause::ClientGone) };
        let Job { asker, limit_bytes, .. } = job;
        self.asks.wait(number, Waiter { asker, asked, query: query.into(), limit_bytes });
    }

    /// Whether the answer came since the worker looked. The client then has it.
    fn is_overtaken(&mut self, job: &Job, asked: Asked, query: &[u8]) -> bool {
        self.buffer[..query.len()].copy_from_slice(query);
        let question = question(query, asked);
        let found =
            self.parts.store.answer(&mut self.buffer, query.len(), &question, job.limit_bytes, self.now_s);
        let bytes = match found {
            Found::Hit { bytes, .. } | Found::Stale { bytes } | Found::Failed { bytes } => bytes,
            Found::Miss => return false,
        };
        self.tally.add(Count::Overtaken);
        self.send(&job.asker, bytes);
        true
    }

    /// Asks a server the question of the key. Returns its number; `None` if no server answers for its name, which its
    /// worker has refused then.
    fn ask(&mut self) -> Option<u32> {
        let Self { parts, upstream, asks, key, query, .. } = self;
        let zone = parts.zones.of(key::name(key))?;
        let number = asks.add(key, &zone.name);
        outgoing::write(query, &key::question(key), zone.is_forwarded, || upstream.random());
        upstream.ask(number, query);
        Some(number)
    }

    /// Handles what became of queries.
    fn settle(&mut self) {
        let mut answers = std::mem::take(&mut self.answers);
        self.upstream.exchange(&mut answers);
        for (number, outcome) in answers.iter() {
            self.end(number, outcome);
        }
        answers.clear();
        self.answers = answers;
    }

    /// Keeps the answer to a question, or notes that there is none, and replies to all clients that wait for it.
    fn end(&mut self, number: u32, outcome: Outcome<'_>) {
        let Some(Ask { key, zone, waiters }) = self.asks.remove(number) else { return };
        let question = key::question(&key);
        let answer = match outcome {
            Outcome::Dropped(cause) => {
                return waiters.iter().for_each(|waiter| self.drop(&waiter.asker, cause));
            }
            Outcome::Reply(message) if is_answer(message) => {
                let put = self.parts.store.put(&question, message, &zone, self.now_s);
                self.tally.add(if matches!(put, Put::Kept { .. }) { Count::Kept } else { Count::NotKept });
                Some(message)
            }
            Outcome::Reply(_) => {
                self.tally.add(Count::Unusable);
                None
            }
            Outcome::Failed => None,
        };
        // What is in the cache is still good if its renewal failed.
        if answer.is_none() && !waiters.is_empty() {
            self.parts.store.failed(&question, self.now_s);
        }
        for waiter in &waiters {
            self.reply(waiter, answer, &zone);
        }
    }

    /// Replies to a client, from the cache if it has the answer now, and otherwise with the answer that is not kept.
    /// Without an answer the client gets a stale one or SERVFAIL.
    fn reply(&mut self, waiter: &Waiter, answer: Option<&[u8]>, zone: &[u8]) {
        let Waiter { asker, asked, query, limit_bytes } = waiter;
        let (asked, limit_bytes) = (*asked, *limit_bytes);
        self.buffer[..query.len()].copy_from_slice(query);
        let Self { parts, buffer, passed, .. } = self;
        let found = parts.store.answer(buffer, query.len(), &question(query, asked), limit_bytes, self.now_s);
        let bytes = match (found, answer) {
            (Found::Hit { bytes, .. }, _) => bytes,
            (_, Some(answer)) if pass_on(query, asked, answer, zone, limit_bytes, passed) => {
                buffer[..passed.len()].copy_from_slice(passed);
                passed.len()
            }
            (Found::Stale { bytes }, None) => {
                self.tally.add(Count::StaleAfterFailure);
                bytes
            }
            (Found::Failed { bytes }, None) => bytes,
            _ => {
                buffer[..query.len()].copy_from_slice(query);
                refuse(buffer, query.len(), rcode::SERVFAIL)
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

/// The question of a client's query.
fn question(query: &[u8], asked: Asked) -> Question<'_> {
    let Asked { rtype, dnssec_ok, checking_disabled, .. } = asked;
    Question { name: asked.name(query), rtype, class: CLASS_IN, dnssec_ok, checking_disabled }
}
