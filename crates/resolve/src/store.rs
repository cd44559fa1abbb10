//! The cache of all workers, or of one worker.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kqps_cache::{Answered, Cache, Counts, Put, Question, Settings, Shared};

use crate::settings::Sharing;

/// A cache that workers and resolvers use at the same time.
pub(crate) enum Store {
    /// That of all workers.
    Shared(Box<Shared>),
    /// That of one worker. Its resolver locks it for the moment in which it puts an answer in.
    Own(Box<Mutex<Cache>>),
}

impl Store {
    /// The caches of this number of workers, which are all of the memory: one for each, or one that all have. Fails if
    /// the kernel has no random numbers.
    pub(crate) fn of_all(
        settings: &Settings,
        sharing: Sharing,
        workers: usize,
    ) -> std::io::Result<Vec<Arc<Self>>> {
        if sharing == Sharing::Shared {
            return Ok(vec![Arc::new(Self::Shared(Box::new(Shared::new(settings, seed()?))))]);
        }
        let each = Settings { memory_bytes: settings.memory_bytes / workers as u64, ..settings.clone() };
        let own = |_: usize| -> std::io::Result<Arc<Self>> {
            Ok(Arc::new(Self::Own(Box::new(Mutex::new(Cache::new(&each, seed()?))))))
        };
        (0..workers).map(own).collect()
    }

    /// Writes the reply to the query in the first `query_bytes` bytes of `message` over it, if there is one.
    #[inline]
    pub(crate) fn answer(
        &self,
        message: &mut [u8],
        query_bytes: usize,
        question: &Question<'_>,
        limit_bytes: usize,
        now_s: u64,
    ) -> Answered {
        match self {
            Self::Shared(cache) => cache.answer(message, query_bytes, question, limit_bytes, now_s),
            Self::Own(cache) => lock(cache).answer(message, query_bytes, question, limit_bytes, now_s),
        }
    }

    /// Keeps the answer of a server for `zone`, if it can be kept.
    pub(crate) fn put(&self, question: &Question<'_>, reply: &[u8], zone: &[u8], now_s: u64) -> Put {
        match self {
            Self::Shared(cache) => cache.put(question, reply, zone, now_s),
            Self::Own(cache) => lock(cache).put(question, reply, zone, now_s),
        }
    }

    /// Notes that no server answered a question.
    pub(crate) fn failed(&self, question: &Question<'_>, now_s: u64) {
        match self {
            Self::Shared(cache) => cache.failed(question, now_s),
            Self::Own(cache) => lock(cache).failed(question, now_s),
        }
    }

    /// What the cache counted, and its memory in bytes.
    pub(crate) fn facts(&self) -> (Counts, u64) {
        match self {
            Self::Shared(cache) => (cache.counts(), cache.memory_bytes()),
            Self::Own(cache) => {
                let cache = lock(cache);
                (*cache.counts(), cache.memory_bytes())
            }
        }
    }
}

fn lock(cache: &Mutex<Cache>) -> MutexGuard<'_, Cache> {
    cache.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An unpredictable seed for a cache's hashes.
pub(crate) fn seed() -> std::io::Result<[u64; 2]> {
    let mut bytes = [[0; 8]; 2];
    getrandom::fill(bytes.as_flattened_mut())
        .map_err(|error| std::io::Error::other(format!("no random numbers: {error}")))?;
    Ok(bytes.map(u64::from_ne_bytes))
}
