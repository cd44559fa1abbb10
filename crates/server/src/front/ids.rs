//! The IDs of a connection to a back end. Each query gets one that nobody can foresee (RFC 5452, section 9.2), from
//! the kernel's random numbers, and keeps it for itself until it is settled.

use std::io;

/// No query.
const NONE: u16 = u16::MAX;

/// How many IDs there are.
const IDS: usize = 1 << 16;

/// No more than this many are in use at once, so that a free one is soon found.
pub(super) const IDS_MOST: usize = IDS / 2;

/// Which query has which ID: the place of each in the table of queries.
pub(super) struct Ids {
    queries: Box<[u16]>,
    used: usize,
}

impl Ids {
    pub(super) fn new() -> Self {
        Self { queries: vec![NONE; IDS].into(), used: 0 }
    }

    /// How many are in use.
    #[inline]
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Gives an ID to a query. To be called only while fewer than [`IDS_MOST`] are in use.
    #[inline]
    pub(super) fn give(&mut self, query: u16, chance: &mut Chance) -> u16 {
        debug_assert!(self.used < IDS_MOST, "a free ID can be found");
        loop {
            let id = chance.word();
            let place = &mut self.queries[usize::from(id)];
            if *place == NONE {
                *place = query;
                self.used += 1;
                return id;
            }
        }
    }

    /// The query that has an ID.
    #[inline]
    pub(super) fn query(&self, id: u16) -> Option<u16> {
        Some(self.queries[usize::from(id)]).filter(|&query| query != NONE)
    }

    /// The ID is free again.
    #[inline]
    pub(super) fn free(&mut self, id: u16) {
        let query = std::mem::replace(&mut self.queries[usize::from(id)], NONE);
        self.used -= usize::from(query != NONE);
    }
}

/// The random words taken from the kernel at a time.
const WORDS: usize = 2048;

/// Random words that nobody can foresee.
pub(super) struct Chance {
    words: Box<[u8]>,
    next: usize,
}

impl Chance {
    /// The error is that the kernel has no random numbers.
    pub(super) fn new() -> io::Result<Self> {
        let mut words = vec![0; 2 * WORDS].into_boxed_slice();
        getrandom::fill(&mut words)
            .map_err(|error| io::Error::other(format!("no random numbers: {error}")))?;
        Ok(Self { words, next: 0 })
    }

    #[inline]
    pub(super) fn word(&mut self) -> u16 {
        if self.next == self.words.len() {
            self.refill();
        }
        let word = u16::from_le_bytes([self.words[self.next], self.words[self.next + 1]]);
        self.next += 2;
        word
    }

    /// One of `count` things, at least 1, by chance; the first are preferred by less than one in 2³² / `count`.
    #[inline]
    pub(super) fn below(&mut self, count: u32) -> u32 {
        let word = u64::from(self.word()) << 16 | u64::from(self.word());
        ((word * u64::from(count)) >> 32) as u32
    }

    #[cold]
    fn refill(&mut self) {
        // The kernel had them when the worker started, and never runs out of them again (random(7)).
        getrandom::fill(&mut self.words).expect("the kernel has random numbers");
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_has_an_id_of_its_own() {
        let (mut ids, mut chance) = (Ids::new(), Chance::new().unwrap());
        let given: Vec<u16> = (0..IDS_MOST as u16).map(|query| ids.give(query, &mut chance)).collect();
        for (query, &id) in (0..).zip(&given) {
            assert_eq!(ids.query(id), Some(query));
        }
        assert_eq!(ids.used(), IDS_MOST);
        for &id in &given {
            ids.free(id);
            ids.free(id);
            assert_eq!(ids.query(id), None);
        }
        assert_eq!(ids.used(), 0);
    }

    #[test]
    fn chance_reaches_everything() {
        let mut chance = Chance::new().unwrap();
        let mut seen = [0; 3];
        (0..30_000).for_each(|_| seen[chance.below(3) as usize] += 1);
        // Each is drawn 10,000 times but for a hundred: this is off by 40 standard deviations.
        assert!(seen.iter().all(|&count| (6_700..13_300).contains(&count)), "{seen:?}");
    }
}
