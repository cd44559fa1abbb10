//! The queries that left without a response, which may still come: the last 65,536 of them.

use std::mem;
use std::ops::RangeInclusive;

const MOST: usize = 1 << 16;

/// Stands for a record that has met its response.
const TAKEN: u64 = u64::MAX;

#[derive(Clone, Copy, Default)]
struct Entry {
    exchange: u64,
    at_ns: u64,
    record: u64,
    /// The number of the entry before it in its bucket; 0 if there was none.
    older: u64,
}

/// A ring of entries, 2.5 MiB with its buckets.
pub(super) struct Slow {
    /// The entry with a number is at this number modulo [`MOST`]. Numbers begin with 1.
    entries: Vec<Entry>,
    /// The number of the latest entry of each bucket of exchanges; 0 if there was none.
    buckets: Vec<u64>,
    latest: u64,
}

impl Slow {
    pub(super) fn new() -> Self {
        Self { entries: vec![Entry::default(); MOST], buckets: vec![0; MOST], latest: 0 }
    }

    /// Remembers a query of this time and the place of its record.
    pub(super) fn put(&mut self, exchange: u64, at_ns: u64, record: u64) {
        self.latest += 1;
        let older = mem::replace(&mut self.buckets[bucket_of(exchange)], self.latest);
        self.entries[self.latest as usize % MOST] = Entry { exchange, at_ns, record, older };
    }

    /// Forgets the latest query of an exchange, if its time is among these. Returns the place of its record.
    pub(super) fn take(&mut self, exchange: u64, times_ns: RangeInclusive<u64>) -> Option<u64> {
        let bucket = bucket_of(exchange);
        let mut number = self.buckets[bucket];
        while self.is_kept(number) {
            let entry = &mut self.entries[number as usize % MOST];
            if entry.exchange == exchange && entry.record != TAKEN {
                if !times_ns.contains(&entry.at_ns) {
                    return None;
                }
                let record = mem::replace(&mut entry.record, TAKEN);
                self.trim(bucket);
                return Some(record);
            }
            number = entry.older;
        }
        None
    }

    /// Takes out of a bucket the latest ones that have met their responses, so that no search passes over them.
    fn trim(&mut self, bucket: usize) {
        let mut number = self.buckets[bucket];
        while self.is_kept(number) && self.entries[number as usize % MOST].record == TAKEN {
            number = self.entries[number as usize % MOST].older;
        }
        self.buckets[bucket] = number;
    }

    /// Whether the entry with this number is still in the ring.
    fn is_kept(&self, number: u64) -> bool {
        number > 0 && number + MOST as u64 > self.latest
    }
}

fn bucket_of(exchange: u64) -> usize {
    exchange as usize % MOST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_query_of_an_exchange_is_found_once_and_in_time() {
        let mut slow = Slow::new();
        let other = 7 + MOST as u64;
        for (exchange, at_ns, record) in [(7, 10, 1), (other, 11, 2), (7, 12, 3)] {
            slow.put(exchange, at_ns, record);
        }
        assert_eq!(slow.take(7, 13..=20), None);
        assert_eq!(slow.take(7 + 2 * MOST as u64, 0..=20), None);
        assert_eq!([slow.take(7, 0..=20), slow.take(7, 0..=20)], [Some(3), Some(1)]);
        assert_eq!([slow.take(7, 0..=20), slow.take(other, 0..=20)], [None, Some(2)]);
    }

    #[test]
    fn the_last_ones_are_known_and_no_others() {
        let mut slow = Slow::new();
        let queries = 3 * MOST as u64 + 5;
        for number in 0..queries {
            // Every third one is of the same exchange.
            slow.put(if number.is_multiple_of(3) { 1 } else { number * 7 + 2 }, number, number);
        }
        for number in (0..queries).filter(|number| !number.is_multiple_of(3)) {
            let is_known = number >= queries - MOST as u64;
            assert_eq!(slow.take(number * 7 + 2, 0..=queries), is_known.then_some(number), "{number}");
        }
        let mut same = 0;
        while slow.take(1, 0..=queries).is_some() {
            same += 1;
        }
        assert_eq!(same, (queries - MOST as u64..queries).filter(|number| number.is_multiple_of(3)).count());
    }
}
