//! A shard of a cache.

use kqps_message::rcode;
use siphasher::sip::SipHasher13;

use crate::answered::{Answered, Failure, Purpose, Put, Why};
use crate::block::{Content, outcome};
use crate::compose::{Reply, question_of};
use crate::counts::Counts;
use crate::key::{Key, Kind};
use crate::query::{Query, Ttl, Written};
use crate::settings::{FAILURE_S_MOST, Rules, Settings};
use crate::store::Store;

/// Kept answers of one shard of a [`crate::Shared`].
pub(crate) struct Cache {
    store: Store,
    rules: Rules,
    counts: Counts,
}

impl Cache {
    /// An empty shard.
    pub(crate) fn new(settings: &Settings, seed: [u64; 2]) -> Self {
        let hasher = SipHasher13::new_with_keys(seed[0], seed[1]);
        let rules = Rules::from_settings(settings);
        let store = Store::new(settings.memory_bytes, hasher, rules.stale_most_s());
        Self { store, rules, counts: Counts::default() }
    }

    /// Answers a query for the question of a key: see [`crate::Shared::answer_read`].
    #[inline]
    pub(crate) fn answer_key(
        &mut self,
        key: &Key,
        query: Query,
        message: &mut [u8],
        limit_bytes: usize,
        now_s: u64,
        purpose: Purpose,
    ) -> Answered {
        let now_s = lower_half(now_s);
        let kept_counts = (purpose != Purpose::Client).then_some(self.counts);
        let answered = self.find_answer(key, query, message, limit_bytes, now_s, purpose);
        if let Some(counts) = kept_counts {
            self.counts = counts;
        }
        answered
    }

    #[inline]
    fn find_answer(
        &mut self,
        key: &Key,
        query: Query,
        message: &mut [u8],
        limit_bytes: usize,
        now_s: u32,
        purpose: Purpose,
    ) -> Answered {
        let mut stale = None;
        for kind in [Kind::Data, Kind::NameError] {
            let Some(address) = self.store.find(key, kind) else { continue };
            if self.store.block(address).is_fresh(now_s) {
                return self.hit(query, message, limit_bytes, (address, now_s), purpose);
            }
            stale = stale.or(Some(address));
        }
        let failure = self.store.find(key, Kind::Failure);
        let has_failed = failure.is_some_and(|address| self.store.block(address).is_fresh(now_s));
        if !has_failed && purpose != Purpose::Late {
            self.counts.misses += 1;
            return Answered::Miss;
        }
        if let Some(address) = stale
            && let Some(written) = self.stale(query, message, limit_bytes, (address, now_s), purpose)
        {
            self.counts.stale += 1;
            self.counts.truncated += u64::from(written.is_truncated);
            return Answered::Stale { bytes: written.bytes };
        }
        if !has_failed {
            self.counts.misses += 1;
            return Answered::Miss;
        }
        self.counts.failed += 1;
        Answered::Failed { bytes: query.refuse(message, rcode::SERVFAIL).bytes }
    }

    #[inline]
    fn hit(
        &mut self,
        query: Query,
        message: &mut [u8],
        limit_bytes: usize,
        (address, now_s): (usize, u32),
        purpose: Purpose,
    ) -> Answered {
        let block = self.store.block(address);
        let (age_s, ttl_s, usage) = (block.age_s(now_s), block.ttl_s(), block.usage());
        let written = query.answer(message, limit_bytes, block, Ttl::After(age_s));
        self.counts.hits += 1;
        self.counts.truncated += u64::from(written.is_truncated);
        if purpose != Purpose::Client {
            return Answered::Hit { bytes: written.bytes, prefetch: false };
        }
        let prefetch = self.rules.is_late(ttl_s, ttl_s - age_s) && !usage.is_prefetched();
        let used = if prefetch { usage.hit().prefetched() } else { usage.hit() };
        if used != usage {
            self.store.set_usage(address, used);
        }
        self.counts.prefetches += u64::from(prefetch);
        Answered::Hit { bytes: written.bytes, prefetch }
    }

    /// Notes that the answer to a question is not fetched anew although a hit asked for it, so that a later hit asks
    /// again.
    pub(crate) fn forget_prefetch(&mut self, key: &Key) {
        for kind in [Kind::Data, Kind::NameError] {
            if let Some(address) = self.store.find(key, kind) {
                let usage = self.store.block(address).usage();
                self.store.set_usage(address, usage.not_prefetched());
            }
        }
    }

    /// Answers from a block whose TTL has ended, if that is allowed and not too long ago.
    fn stale(
        &mut self,
        query: Query,
        message: &mut [u8],
        limit_bytes: usize,
        (address, now_s): (usize, u32),
        purpose: Purpose,
    ) -> Option<Written> {
        let stale = self.rules.stale?;
        let block = self.store.block(address);
        if !block.is_within(stale.most_s, now_s) {
            return None;
        }
        let used = block.usage().hit();
        let written = query.answer(message, limit_bytes, block, Ttl::All(stale.answer_ttl_s));
        if purpose == Purpose::Client {
            self.store.set_usage(address, used);
        }
        Some(written)
    }

    /// Keeps the whole reply to the question of a key, in place of what was known of it.
    pub(crate) fn keep(&mut self, key: &Key, reply: &Reply, now_s: u64) -> Put {
        let put = self.store(key, reply.kind, reply, now_s);
        if let Put::Kept { .. } = put {
            self.store.remove(key, Kind::Failure);
            let contradicted = if reply.kind == Kind::Data { Kind::NameError } else { Kind::Data };
            self.store.remove(key, contradicted);
            if !reply.is_joined {
                self.store.remove(key, Kind::Part);
            }
        }
        self.count_entries();
        put
    }

    /// Keeps the reply of a server to the question of a key, whose chain of aliases goes on elsewhere. No query is
    /// answered from it.
    pub(crate) fn keep_part(&mut self, key: &Key, reply: &Reply, now_s: u64) -> Put {
        let put = self.store(key, Kind::Part, reply, now_s);
        self.count_entries();
        put
    }

    fn store(&mut self, key: &Key, kind: Kind, reply: &Reply, now_s: u64) -> Put {
        let put = reply.ttl_s.and_then(|ttl_s| {
            let content = Content {
                key,
                kind,
                stored_s: lower_half(now_s),
                ttl_s,
                outcome: outcome(reply.rcode, reply.is_authentic),
                counts: reply.counts,
                ttl_places: &reply.ttl_places,
                records: &reply.records,
            };
            if self.store.put(&content) { Ok(ttl_s) } else { Err(Why::TooBig) }
        });
        match put {
            Ok(ttl_s) => {
                self.counts.kept += 1;
                Put::Kept { ttl_s }
            }
            Err(why) => {
                self.counts.not_kept += 1;
                Put::NotKept(why)
            }
        }
    }

    /// Finds the reply that is kept for the question of a key, if its TTL has not ended: a message, and whether it is
    /// whole. If not, its chain of aliases goes on elsewhere; since no query uses such a part, this counts as its use.
    pub(crate) fn known(&mut self, key: &Key, now_s: u64) -> Option<(Vec<u8>, bool)> {
        let now_s = lower_half(now_s);
        let kinds = [Kind::Data, Kind::NameError, Kind::Part];
        let (kind, address) = kinds.into_iter().find_map(|kind| {
            let address = self.store.find(key, kind)?;
            self.store.block(address).is_fresh(now_s).then_some((kind, address))
        })?;
        let block = self.store.block(address);
        let mut message = question_of(&key.question());
        let query = Query::whole(message.len());
        message.resize(message.len() + block.records().len(), 0);
        let limit_bytes = message.len();
        query.answer(&mut message, limit_bytes, block, Ttl::After(block.age_s(now_s)));
        let used = block.usage().hit();
        if kind == Kind::Part {
            self.store.set_usage(address, used);
        }
        Some((message, kind != Kind::Part))
    }

    /// Keeps that the question of a key failed: see [`crate::Shared::failed`].
    pub(crate) fn failed(&mut self, key: &Key, failure: Failure, now_s: u64) {
        let stored_s = lower_half(now_s);
        let mut ttl_s = self.rules.failure_s;
        if let Some(address) = self.store.find(key, Kind::Failure) {
            let block = self.store.block(address);
            if block.is_fresh(stored_s) {
                return;
            }
            if failure == Failure::Unusable && block.is_within(block.ttl_s(), stored_s) {
                ttl_s = block.ttl_s().saturating_mul(2).min(FAILURE_S_MOST);
            }
        }
        let kind = Kind::Failure;
        let nothing =
            Content { key, kind, stored_s, ttl_s, outcome: 0, counts: [0; 2], ttl_places: &[], records: &[] };
        self.counts.failures += u64::from(self.store.put(&nothing));
        self.count_entries();
    }

    /// Counts what a change of the entries did to others.
    fn count_entries(&mut self) {
        self.counts.evicted = self.store.evicted;
        self.counts.expired = self.store.expired;
        self.counts.entries = self.store.entries();
    }

    /// The counts of the cache and its entries.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The memory that the cache has in use, in bytes. It grows with what is kept, up to the bound.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.store.memory_bytes() + size_of::<Self>()) as u64
    }
}

/// The lower half of a time in seconds, which is enough for ages.
#[inline]
fn lower_half(now_s: u64) -> u32 {
    let [low @ .., _, _, _, _] = now_s.to_le_bytes();
    u32::from_le_bytes(low)
}
