//! When the queries at a place for connections were written, by the slots of their IDs, and which is the first query of
//! its present connection.

use crate::books::Due;

/// The queries of one connection after the other.
pub(super) struct Stamps {
    /// Microseconds since the start of the trial, modulo 2^32, by slot. There are as many slots as the books have, a
    /// power of two, so that unsettled queries have slots of their own.
    times_us: Vec<u32>,
    first: First,
}

/// The first query of the present connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    /// There was none yet.
    None,
    /// The query with this ID, without a reply.
    Open(u16),
    /// It has its reply, or gets none.
    Over,
}

impl Stamps {
    /// Room for as many unsettled queries as a flow of the books has, a power of two.
    pub(super) fn new(slots: usize) -> Self {
        Self { times_us: vec![0; slots], first: First::None }
    }

    /// Has room for this many unsettled queries at least, a power of two. Call it before queries are handed over, since
    /// the books may have grown.
    #[inline]
    pub(super) fn keep_room(&mut self, slots: usize) {
        if self.times_us.len() < slots {
            self.grow(slots);
        }
    }

    #[cold]
    fn grow(&mut self, slots: usize) {
        // An ID has either the slot that it had, or the one as far in the other half.
        while self.times_us.len() < slots {
            self.times_us.extend_from_within(..);
        }
    }

    /// Notes queries that are handed over at `now_ns`, which counts as their write until a later one is noted.
    #[inline]
    pub(super) fn handed(&mut self, burst: &[Due], now_ns: u64) {
        match (self.first, burst.first()) {
            (First::None, Some(due)) => self.first = First::Open(due.key),
            // The first query was lost, and its ID is another query's.
            (First::Open(first), _) if burst.iter().any(|due| due.key == first) => self.first = First::Over,
            _ => {}
        }
        for due in burst {
            self.stamp(due.key, now_ns);
        }
    }

    /// Notes that the query with this ID was written at `at_ns`.
    #[inline]
    pub(super) fn stamp(&mut self, key: u16, at_ns: u64) {
        let slot = self.slot(key);
        self.times_us[slot] = (at_ns / 1000) as u32;
    }

    /// How long before `at_ns` the query with this ID was written, microseconds.
    #[inline]
    pub(super) fn since_us(&self, key: u16, at_ns: u64) -> u64 {
        let since_us = ((at_ns / 1000) as u32).wrapping_sub(self.times_us[self.slot(key)]);
        // The clocks of the kernel and the player may differ by a little.
        (since_us as i32).max(0) as u64
    }

    /// Whether this ID is that of the connection's first query. It is so once.
    #[inline]
    pub(super) fn is_first(&mut self, key: u16) -> bool {
        let is_first = self.first == First::Open(key);
        if is_first {
            self.first = First::Over;
        }
        is_first
    }

    /// Begins again, for another connection.
    pub(super) fn clear(&mut self) {
        self.first = First::None;
    }

    #[inline]
    fn slot(&self, key: u16) -> usize {
        usize::from(key) & (self.times_us.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use kqps_dataset::Position;

    use super::*;

    fn burst(keys: &[u16]) -> Vec<Due> {
        keys.iter().map(|key| Due { query: Position::default(), due_ns: 0, key: *key, bytes: 8 }).collect()
    }

    #[test]
    fn a_connection_has_one_first_query() {
        let mut stamps = Stamps::new(16);
        assert!(!stamps.is_first(0));
        stamps.handed(&burst(&[7, 8]), 0);
        stamps.handed(&burst(&[9]), 0);
        assert!(!stamps.is_first(8) && stamps.is_first(7) && !stamps.is_first(7));
        stamps.clear();
        stamps.handed(&burst(&[7]), 0);
        stamps.handed(&burst(&[7]), 0);
        assert!(!stamps.is_first(7), "the first one is lost");
    }

    #[test]
    fn a_later_write_takes_the_place_of_an_earlier_one() {
        let mut stamps = Stamps::new(16);
        stamps.handed(&burst(&[1, 2]), 1_000_000);
        stamps.stamp(2, 3_000_000);
        assert_eq!([1, 2].map(|key| stamps.since_us(key, 4_000_000)), [3_000, 1_000]);
        assert_eq!(stamps.since_us(2, 2_900_000), 0);
    }

    #[test]
    fn stamps_stay_when_there_are_more_slots() {
        let mut stamps = Stamps::new(2);
        stamps.handed(&burst(&[4, 7]), 1_000_000);
        stamps.keep_room(8);
        stamps.keep_room(4);
        stamps.handed(&burst(&[5]), 2_000_000);
        assert_eq!([4, 7, 5].map(|key| stamps.since_us(key, 4_000_000)), [3_000, 3_000, 2_000]);
    }
}
