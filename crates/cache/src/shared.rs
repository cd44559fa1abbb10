//! A cache for all workers: shards, of which each has its lock.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use siphasher::sip::SipHasher13;

use crate::answered::{Answered, Failure, Purpose, Put, Why};
use crate::bailiwick::Bailiwick;
use crate::cache::Cache;
use crate::compose::Reply;
use crate::counts::Counts;
use crate::key::{Key, Question};
use crate::query::{Form, Query};
use crate::settings::{Rules, Settings};

/// A shard has at least this much memory in bytes, so that it has room for long replies.
const SHARD_BYTES_LEAST: u64 = 4 << 20;

/// With this many shards, two of 16 workers that look something up at every moment seldom meet.
const SHARDS_MOST: u64 = 64;

/// Kept answers, for all workers. All questions about a name are in one shard. Its lock is held for one look-up and the
/// copy of one reply; what is done to a new reply is done before.
pub struct Shared {
    shards: Box<[Shard]>,
    rules: Rules,
    hasher: SipHasher13,
}

/// Locks of two shards are in two cache lines, and in two pairs of lines that a processor fetches together.
#[repr(align(128))]
struct Shard(Mutex<Cache>);

impl Shared {
    /// An empty cache. The shards divide the memory of the settings. The seed is a secret, without which no client can
    /// choose names whose hashes are equal.
    pub fn new(settings: &Settings, seed: [u64; 2]) -> Self {
        Self::with_shards(settings, seed, shards(settings.memory_bytes))
    }

    /// An empty cache for one worker, and for one thread that puts replies in: it has one shard. The worker waits for
    /// the copy of a reply at most, and not while the reply is read.
    pub fn for_one(settings: &Settings, seed: [u64; 2]) -> Self {
        Self::with_shards(settings, seed, 1)
    }

    fn with_shards(settings: &Settings, seed: [u64; 2], shards: u64) -> Self {
        let of_shard = Settings { memory_bytes: settings.memory_bytes / shards, ..settings.clone() };
        Self {
            shards: (0..shards).map(|_| Shard(Mutex::new(Cache::new(&of_shard, seed)))).collect(),
            rules: Rules::from_settings(settings),
            hasher: SipHasher13::new_with_keys(seed[0], seed[1]),
        }
    }

    /// The key of a question in this cache; `None` if its name is malformed.
    #[inline]
    pub fn key(&self, question: &Question<'_>) -> Option<Key> {
        Key::from_question(question, &self.hasher)
    }

    /// Answers a query that the server has read: `message` begins with a query for the question of `key`, and the query
    /// has this form. The reply overwrites it; only after a miss is `message` unchanged.
    ///
    /// ID, RD, CD and the question are those of the query, RA is set and AA is not. AD is set if the upstream server
    /// set it and the client set DO or AD. If the query has EDNS, the reply has an OPT record of version 0 with the
    /// query's DO flag and without options. A reply that is longer than `limit_bytes` or `message` becomes one with
    /// TC and without records, which is not longer than the query. `now_s` is the time in seconds since any moment.
    #[inline]
    pub fn answer_read(
        &self,
        key: &Key,
        form: Form,
        message: &mut [u8],
        limit_bytes: usize,
        now_s: u64,
        purpose: Purpose,
    ) -> Answered {
        let query = Query::read(message, form);
        self.shard(key).answer_key(key, query, message, limit_bytes, now_s, purpose)
    }

    /// Notes that the answer to a question is not fetched anew although a hit asked for it. A later hit asks again.
    pub fn forget_prefetch(&self, key: &Key) {
        self.shard(key).forget_prefetch(key);
    }

    /// Reads the reply to a question, from a server that speaks for these names. It must have come from the server that
    /// was asked, with the ID and from the port of the query: the cache cannot see this. It drops records outside of the
    /// names, and records that the question did not ask for, such as the whole additional section. A question for ANY
    /// gets one RRset (RFC 8482, section 4.1). TTLs are changed to those of the settings.
    ///
    /// # Errors
    ///
    /// If the reply is of no use as an answer.
    pub fn read(&self, question: &Question<'_>, reply: &[u8], names: &Bailiwick) -> Result<Reply, Why> {
        Reply::read(question, reply, Some(names), &self.rules)
    }

    /// Keeps the whole reply to a question, in place of what was known of it. It stays for as long as all its records may.
    pub fn keep(&self, question: &Question<'_>, reply: &Reply, now_s: u64) -> Put {
        let Some(key) = self.key(question) else { return Put::NotKept(Why::OtherQuestion) };
        self.shard(&key).keep(&key, reply, now_s)
    }

    /// Keeps an open reply ([`Reply::is_open`]) to a question whose chain of aliases goes on elsewhere. No query is
    /// answered from it: it is for [`Self::known`] alone.
    pub fn keep_part(&self, question: &Question<'_>, reply: &Reply, now_s: u64) -> Put {
        let Some(key) = self.key(question) else { return Put::NotKept(Why::OtherQuestion) };
        self.shard(&key).keep_part(&key, reply, now_s)
    }

    /// Finds the reply to a question that is kept, if its TTL has not ended, and whether it is whole. If not, it was kept
    /// as a part of a chain ([`Self::keep_part`]).
    pub fn known(&self, question: &Question<'_>, now_s: u64) -> Option<(Reply, bool)> {
        let key = self.key(question)?;
        let (message, is_whole) = self.shard(&key).known(&key, now_s)?;
        let reply = Reply::read(question, &message, None, &self.rules.without_least()).ok()?;
        Some((reply, is_whole))
    }

    /// Keeps that a question failed: no server gave an answer that is of use. For the time of `failure_s` its queries
    /// are answered SERVFAIL, or stale if that is allowed. If servers answer it with nothing of use again within as
    /// long after that, the time doubles, up to 300 s (RFC 9520, section 3.2). It does not double while no server
    /// answers: an outage is no property of the question, and must not go on for clients when it is over.
    pub fn failed(&self, question: &Question<'_>, failure: Failure, now_s: u64) {
        if let Some(key) = self.key(question) {
            self.shard(&key).failed(&key, failure, now_s);
        }
    }

    /// The sum of the counts of all shards. Questions whose name is malformed are in no shard and are not counted, nor
    /// are replies that cannot be read.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for shard in &self.shards {
            sum += *lock(shard).counts();
        }
        sum
    }

    /// The memory that all shards have in use, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| lock(shard).memory_bytes()).sum()
    }

    #[inline]
    fn shard(&self, key: &Key) -> MutexGuard<'_, Cache> {
        let shard = key.name_hash() as usize & (self.shards.len() - 1);
        lock(&self.shards[shard])
    }
}

/// The number of shards: a power of two, since bits of a hash choose the shard.
fn shards(memory_bytes: u64) -> u64 {
    1 << (memory_bytes / SHARD_BYTES_LEAST).clamp(1, SHARDS_MOST).ilog2()
}

/// Locks a shard. A worker that panicked while it held the lock left a cache that others may find odd, but not unsound.
fn lock(shard: &Shard) -> MutexGuard<'_, Cache> {
    shard.0.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Shared {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Shared").field("shards", &self.shards.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_is_divided_among_shards() {
        for (memory_bytes, shards) in
            [(0, 1), (4 << 20, 1), (12 << 20, 2), (64 << 20, 16), (1 << 30, 64), (8 << 30, 64)]
        {
            assert_eq!(super::shards(memory_bytes), shards, "{memory_bytes}");
        }
        let settings = Settings { memory_bytes: 12 << 20, ..Settings::default() };
        assert_eq!(Shared::for_one(&settings, [1, 2]).shards.len(), 1);
        let shared = Shared::new(&settings, [1, 2]);
        assert_eq!(shared.shards.len(), 2);
        assert!(shared.memory_bytes() <= 12 << 20);
    }
}
