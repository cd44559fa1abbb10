//! The questions that are under way at servers, each once, with all clients that wait for its answer.

use std::collections::HashMap;

use crate::chase::Chase;
use crate::handoff::Asker;
use crate::parsed_query::ParsedQuery;

/// A question that is under way.
#[derive(Debug)]
pub(crate) struct Ask {
    /// The question ([`crate::key`]).
    pub(crate) key: Box<[u8]>,
    /// The clients that wait; none if the answer is asked for before its TTL runs out.
    pub(crate) waiters: Vec<Waiter>,
    /// How far its answer has come.
    pub(crate) chase: Chase,
    /// The number of questions before it.
    pub(crate) serial: u64,
    /// Whether its clients have waited for so long that they get stale answers.
    pub(crate) is_late: bool,
}

/// A client that waits.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) asker: Asker,
    pub(crate) asked: ParsedQuery,
    /// The query as far as its reply needs it ([`ParsedQuery::write_short`]).
    pub(crate) query: Box<[u8]>,
    /// The longest reply in bytes.
    pub(crate) limit_bytes: usize,
}

/// The questions, by number and by key.
pub(crate) struct Asks {
    all: Vec<Option<Ask>>,
    free: Vec<u32>,
    /// The hash has a random key, so that nobody can choose names that collide.
    by_key: HashMap<Box<[u8]>, u32>,
    waiting: usize,
    waiting_most: usize,
    /// The number of questions so far.
    added: u64,
}

impl Asks {
    /// A table in which `waiting_most` clients may wait.
    pub(crate) fn new(waiting_most: usize) -> Self {
        let (all, free, by_key) = (Vec::new(), Vec::new(), HashMap::new());
        Self { all, free, by_key, waiting: 0, waiting_most, added: 0 }
    }

    /// Whether another client may wait.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting < self.waiting_most
    }

    /// The question with this key.
    pub(crate) fn find(&self, key: &[u8]) -> Option<u32> {
        self.by_key.get(key).copied()
    }

    /// Adds a question, which must not be there. Returns its number.
    pub(crate) fn add(&mut self, key: &[u8], chase: Chase) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            u32::try_from(self.all.len() - 1).expect("questions have numbers of 32 bits")
        });
        let key: Box<[u8]> = key.into();
        self.by_key.insert(key.clone(), number);
        let (waiters, serial, is_late) = (Vec::new(), self.added, false);
        self.added += 1;
        self.all[number as usize] = Some(Ask { key, waiters, chase, serial, is_late });
        number
    }

    /// The question with this number.
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Ask> {
        self.all.get_mut(number as usize)?.as_mut()
    }

    /// Takes all clients that wait for the answer to a question, which stays.
    pub(crate) fn take_waiters(&mut self, number: u32) -> Vec<Waiter> {
        let waiters = self.get_mut(number).map(|ask| std::mem::take(&mut ask.waiters)).unwrap_or_default();
        self.waiting -= waiters.len();
        waiters
    }

    /// Adds a client to a question that is there.
    pub(crate) fn wait(&mut self, number: u32, waiter: Waiter) {
        if let Some(ask) = &mut self.all[number as usize] {
            ask.waiters.push(waiter);
            self.waiting += 1;
        }
    }

    /// Removes a question.
    pub(crate) fn remove(&mut self, number: u32) -> Option<Ask> {
        let ask = self.all.get_mut(number as usize)?.take()?;
        self.by_key.remove(&ask.key);
        self.waiting -= ask.waiters.len();
        self.free.push(number);
        Some(ask)
    }
}

#[cfg(test)]
mod tests {
    use kqps_cache::Question;

    use super::*;
    use crate::Upstreams;

    fn waiter() -> Waiter {
        let query = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";
        let asked = ParsedQuery::from_query(query).unwrap();
        Waiter { asker: Asker::Nobody, asked, query: query[..].into(), limit_bytes: 512 }
    }

    fn chase() -> Chase {
        let zones = Upstreams::new(&["127.0.0.1:53".parse().unwrap()], &[]).zones;
        let question =
            Question { name: &[0], rtype: 1, class: 1, dnssec_ok: false, checking_disabled: false };
        Chase::new(&question, &zones, false).unwrap()
    }

    #[test]
    fn a_question_is_there_once_with_all_that_wait() {
        let mut asks = Asks::new(3);
        let [one, two] = [&b"one"[..], b"two"].map(|key| asks.add(key, chase()));
        assert_eq!((asks.find(b"one"), asks.find(b"two"), asks.find(b"three")), (Some(one), Some(two), None));
        for number in [one, one, two] {
            assert!(asks.has_room());
            asks.wait(number, waiter());
        }
        assert!(!asks.has_room());
        let waiters = asks.take_waiters(one);
        assert!(waiters.len() == 2 && asks.has_room());
        for waiter in waiters {
            asks.wait(one, waiter);
        }
        let ask = asks.remove(one).unwrap();
        assert_eq!((&*ask.key, ask.waiters.len(), ask.serial), (&b"one"[..], 2, 0));
        assert!(asks.has_room() && asks.find(b"one").is_none() && asks.remove(one).is_none());
        assert_eq!(asks.add(b"three", chase()), one, "the number is free again");
        assert_eq!(asks.get_mut(one).map(|ask| ask.serial), Some(2), "and the question is another");
    }
}
