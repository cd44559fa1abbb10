//! The IDs of queries on a link to a back end. Each query gets an unpredictable ID (RFC 5452, section 9.2), from
//! the kernel's random numbers, and keeps it until it is settled.

use std::io;

/// Marks an ID without a query.
const NONE: u16 = u16::MAX;

/// The number of possible IDs.
const IDS: usize = 1 << 16;

/// The maximum number of IDs in use, which keeps the search for a free one short.
pub(super) const IDS_MOST: usize = IDS / 2;

/// The query of each ID, as a place in the table of queries.
pub(super) struct Ids {
    queries: Box<[u16]>,
    used: usize,
}

impl Ids {
    pub(super) fn new() -> Self {
        Self { queries: vec![NONE; IDS].into(), used: 0 }
    }

    /// The number of IDs in use.
    #[inline]
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// Gives an unused ID to a query. Call it only while fewer than [`IDS_MOST`] are in use.
    #[inline]
    pub(super) fn give(&mut self, query: u16, random: &mut RandomIds) -> u16 {
        debug_assert!(self.used < IDS_MOST, "a free ID can be found");
        loop {
            let id = random.word();
            let place = &mut self.queries[usize::from(id)];
            if *place == NONE {
                *place = query;
                self.used += 1;
                return id;
            }
        }
    }

    /// The query with this ID.
    #[inline]
    pub(super) fn query(&self, id: u16) -> Option<u16> {
        Some(self.queries[usize::from(id)]).filter(|&query| query != NONE)
    }

    /// Frees an ID.
    #[inline]
    pub(super) fn free(&mut self, id: u16) {
        let query = std::mem::replace(&mut self.queries[usize::from(id)], NONE);
        self.used -= usize::from(query != NONE);
    }
}

/// The number of random words that one call takes from the kernel.
const WORDS: usize = 2048;

/// Unpredictable random words.
pub(super) struct RandomIds {
    words: Box<[u8]>,
    next: usize,
}

impl RandomIds {
    /// Fails if the kernel has no random numbers.
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

    /// A random number below `count`, which is at least 1. The bias towards small numbers is less than one in 2³² /
    /// `count`.
    #[inline]
    pub(super) fn below(&mut self, count: u32) -> u32 {
        let word = u64::from(self.word()) << 16 | u64::from(self.word());
        let [_, _, _, _, upper @ ..] = (word * u64::from(count)).to_le_bytes();
        u32::from_le_bytes(upper)
    }

    #[cold]
    fn refill(&mut self) {
        // The kernel had random numbers when the worker started, and never runs out of them (random(7)).
        getrandom::fill(&mut self.words).expect("the kernel has random numbers");
        self.next = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_has_an_id_of_its_own() {
        let (mut ids, mut random) = (Ids::new(), RandomIds::new().unwrap());
        let given: Vec<u16> = (0..IDS_MOST as u16).map(|query| ids.give(query, &mut random)).collect();
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
        let mut random = RandomIds::new().unwrap();
        let mut seen = [0; 3];
        (0..30_000).for_each(|_| seen[random.below(3) as usize] += 1);
        // Each is drawn about 10,000 times, with a standard deviation of 82: the limits are 40 of those away.
        assert!(seen.iter().all(|&count| (6_700..13_300).contains(&count)), "{seen:?}");
    }
}
