//! Answers the queries of a worker, or of a thread of connections: from the cache, in the buffer of the query, or by a
//! resolver, which gets the query at the end of the turn.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use kqps_cache::{Answered as Lookup, Key, Purpose, Question, Shared};
use kqps_kernel::clock::now_s;
use kqps_message::query::CLASS_IN;
use kqps_message::rcode;
use kqps_server::connections::frame::MESSAGE_BYTES;
use kqps_server::counts::{Cause, Rcodes};
use kqps_server::later::{Mailbox, Origin};
use kqps_server::{Answer, Answered, Client, Query};

use crate::handoff::{Asker, Batch};
use crate::parsed_query::{ParsedQuery, Refusal};
use crate::reply::refuse;
use crate::resolvers::Resolvers;
use crate::tally::{Count, Tally};
use crate::upstreams::Zones;

/// Data that all threads of a server have.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) resolvers: Arc<Resolvers>,
    pub(crate) zones: Arc<Zones>,
    /// The longest UDP reply to a query with EDNS, in bytes.
    pub(crate) payload_bytes: u16,
}

/// Answers the queries of one thread.
pub(crate) struct CacheAnswer {
    cache: Arc<Shared>,
    common: Common,
    /// The number of the worker, or of the worker whose cache a thread of connections uses.
    worker: usize,
    mailbox: Option<Arc<Mailbox>>,
    tally: Arc<Tally>,
    rcodes: Rcodes,
    /// The queries for each resolver, and whether there are any.
    batches: Vec<Batch>,
    has_batches: bool,
    /// The time of the turn in seconds; `None` before its first query.
    now_s: Option<u64>,
}

impl CacheAnswer {
    /// Answers for a worker with this number. A thread of connections has a mailbox.
    pub(crate) fn new(
        cache: Arc<Shared>,
        common: Common,
        worker: usize,
        mailbox: Option<Arc<Mailbox>>,
        tally: Arc<Tally>,
    ) -> Self {
        let batches = common.resolvers.inboxes.iter().map(|_| Batch::default()).collect();
        Self {
            cache,
            common,
            worker,
            mailbox,
            tally,
            rcodes: Rcodes::default(),
            batches,
            has_batches: false,
            now_s: None,
        }
    }

    /// Answers with an rcode of the server itself.
    #[cold]
    fn refuse(&mut self, buffer: &mut [u8], bytes: usize, rcode: u16) -> Answered<Infallible> {
        self.tally.add(Count::Refused);
        self.tally.add(Count::Answered);
        self.rcodes.add(rcode);
        Answered::One(refuse(buffer, bytes, rcode))
    }

    /// Puts a query that the cache does not answer into the batch of its resolver.
    fn defer(
        &mut self,
        query: Query<'_>,
        asked: ParsedQuery,
        key: &Key,
        limit_bytes: usize,
    ) -> Answered<Infallible> {
        let Query { buffer, bytes, client, origin } = query;
        let Common { resolvers, zones, .. } = &self.common;
        if zones.find(key.name(), asked.rtype).is_none() {
            return self.refuse(buffer, bytes, rcode::REFUSED);
        }
        self.tally.add(Count::Misses);
        let number = resolvers.find(self.worker, key.name(), asked.rtype);
        let batch = &mut self.batches[number];
        if !resolvers.inboxes[number].has_room(batch.len()) {
            return Answered::None(Cause::OverloadNewest);
        }
        let asker = match (&self.mailbox, client, origin) {
            (None, Client::Udp(source), Origin::Datagrams { endpoint, local }) => {
                Asker::Datagram { worker: self.worker, endpoint, to: *source, from: local }
            }
            (Some(mailbox), ..) => Asker::Connection(mailbox.clone(), origin),
            // Without a mailbox there are only datagrams.
            (None, ..) => return Answered::None(Cause::ClientGone),
        };
        batch.push(asker, asked, buffer, limit_bytes);
        self.has_batches = true;
        Answered::Later
    }

    /// Has the resolver ask once more for a question that was just answered by `reply`, whose TTL is about to run out.
    /// The cache reports this once for each answer, and once more if the resolver has no room.
    #[cold]
    fn prefetch(&mut self, asked: ParsedQuery, key: &Key, reply: &[u8]) {
        let Self { cache, common, batches, .. } = self;
        let number = common.resolvers.find(self.worker, key.name(), asked.rtype);
        if common.resolvers.inboxes[number].has_room(batches[number].len()) {
            batches[number].push(Asker::Nobody, asked, reply, 0);
            self.has_batches = true;
        } else {
            cache.forget_prefetch(key);
        }
    }
}

/// The question about a name.
#[inline]
fn question(name: &[u8], asked: ParsedQuery) -> Question<'_> {
    let ParsedQuery { rtype, dnssec_ok, checking_disabled, .. } = asked;
    Question { name, rtype, class: CLASS_IN, dnssec_ok, checking_disabled }
}

impl Answer for CacheAnswer {
    const GROWS: bool = true;

    const LATER: bool = true;

    type Many = Infallible;

    #[inline]
    fn answer(&mut self, query: Query<'_>) -> Answered<Infallible> {
        self.tally.add(Count::Received);
        if query.is_too_long() {
            return Answered::None(Cause::QueryTooLong);
        }
        if matches!(query.client, Client::Udp(source) if source.port() == 0) {
            return Answered::None(Cause::PortZero);
        }
        let Query { buffer, bytes, client, origin } = query;
        let asked = match ParsedQuery::from_query(&buffer[..bytes]) {
            Ok(asked) => asked,
            Err(Refusal::Drop(cause)) => return Answered::None(cause),
            Err(Refusal::Say(rcode)) => return self.refuse(buffer, bytes, rcode),
        };
        let Some(key) = self.cache.key(&question(asked.name(buffer), asked)) else {
            return self.refuse(buffer, bytes, rcode::FORMERR);
        };
        let is_datagram = matches!(client, Client::Udp(_));
        let most = if is_datagram { asked.payload(self.common.payload_bytes) } else { MESSAGE_BYTES };
        let limit_bytes = most.min(buffer.len());
        let now_s = *self.now_s.get_or_insert_with(now_s);
        let found = self.cache.answer_read(&key, asked.form(), buffer, limit_bytes, now_s, Purpose::Client);
        let (count, reply_bytes, ends_soon) = match found {
            Lookup::Hit { bytes, prefetch } => (Count::Hits, bytes, prefetch),
            Lookup::Stale { bytes } => (Count::Stale, bytes, false),
            Lookup::Failed { bytes } => (Count::Failures, bytes, false),
            Lookup::Miss => {
                return self.defer(Query { buffer, bytes, client, origin }, asked, &key, limit_bytes);
            }
        };
        self.tally.add(count);
        self.tally.add(Count::Answered);
        // Only rcodes without upper bits are kept.
        self.rcodes.add(u16::from(buffer[3] & 0x0f));
        if ends_soon {
            self.prefetch(asked, &key, buffer);
        }
        Answered::One(reply_bytes)
    }

    fn next(&mut self, many: &mut Infallible, _: &mut [u8]) -> Option<usize> {
        match *many {}
    }

    #[inline]
    fn end_turn(&mut self) {
        self.now_s = None;
        if !self.has_batches {
            return;
        }
        self.has_batches = false;
        let batches = self.common.resolvers.inboxes.iter().zip(&mut self.batches);
        for (inbox, batch) in batches.filter(|(_, batch)| batch.len() > 0) {
            inbox.hand_over(batch);
        }
    }

    fn mailbox(&self) -> Option<Arc<Mailbox>> {
        self.mailbox.clone()
    }

    fn response_rcodes(&self) -> BTreeMap<String, u64> {
        self.rcodes.report()
    }
}
