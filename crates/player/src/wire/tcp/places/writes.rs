//! When the queries of a place were written, by the slots of their IDs. A query counts as written when it was handed
//! over, if the kernel took it at once. Otherwise it counts from the write that took its last byte.

use std::collections::VecDeque;

use crate::books::Due;
use crate::wire::stamps::Stamps;

/// The bytes of the length before each message.
const LENGTH_BYTES: u64 = 2;

/// The queries of one connection after the other.
pub(super) struct Writes {
    pub(super) stamps: Stamps,
    /// Bytes of the queries that were handed to the present connection.
    handed_bytes: u64,
    /// How many of them have not been written.
    unwritten_bytes: u64,
    /// Where the queries that have not been written end among the bytes handed, and their IDs.
    unwritten: VecDeque<(u64, u16)>,
}

impl Writes {
    /// Room for as many unsettled queries as a flow of the books has, a power of two.
    pub(super) fn new(slots: usize) -> Self {
        Self { stamps: Stamps::new(slots), handed_bytes: 0, unwritten_bytes: 0, unwritten: VecDeque::new() }
    }

    /// Notes queries that are handed over at `now_ns`, before they are written.
    #[inline]
    pub(super) fn handed(&mut self, burst: &[Due], now_ns: u64) {
        self.stamps.handed(burst, now_ns);
        let bytes = burst.iter().map(length).sum::<u64>();
        self.handed_bytes += bytes;
        self.unwritten_bytes += bytes;
    }

    /// Notes which queries of the burst that was just handed over are not written whole.
    #[inline]
    pub(super) fn keep_unwritten(&mut self, burst: &[Due]) {
        if self.unwritten_bytes == 0 {
            return;
        }
        let written = self.handed_bytes - self.unwritten_bytes;
        let mut end = self.handed_bytes - burst.iter().map(length).sum::<u64>();
        for due in burst {
            end += length(due);
            if end > written {
                self.unwritten.push_back((end, due.key));
            }
        }
    }

    /// Whether there are queries that a write left over.
    #[inline]
    pub(super) fn has_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// Notes a write at `at_ns`, after which so many bytes have not been written.
    #[inline]
    pub(super) fn written(&mut self, unwritten_bytes: u64, at_ns: u64) {
        self.unwritten_bytes = unwritten_bytes.min(self.handed_bytes);
        let written = self.handed_bytes - self.unwritten_bytes;
        while let Some(&(end, key)) = self.unwritten.front()
            && end <= written
        {
            self.unwritten.pop_front();
            self.stamps.stamp(key, at_ns);
        }
    }

    /// Begins again, for another connection.
    pub(super) fn clear(&mut self) {
        (self.handed_bytes, self.unwritten_bytes) = (0, 0);
        self.stamps.clear();
        self.unwritten.clear();
    }
}

fn length(due: &Due) -> u64 {
    LENGTH_BYTES + u64::from(due.bytes)
}

#[cfg(test)]
mod tests {
    use kqps_dataset::Position;

    use super::*;

    /// Queries of 8 bytes, or 10 with their length.
    fn burst(keys: &[u16]) -> Vec<Due> {
        keys.iter().map(|key| Due { query: Position::default(), due_ns: 0, key: *key, bytes: 8 }).collect()
    }

    #[test]
    fn a_query_counts_from_the_write_of_its_last_byte() {
        let mut writes = Writes::new(16);
        writes.handed(&burst(&[1, 2, 3]), 1_000_000);
        // The kernel took the first query and a part of the second.
        writes.written(15, 1_000_000);
        writes.keep_unwritten(&burst(&[1, 2, 3]));
        assert!(writes.has_unwritten());
        writes.handed(&burst(&[20]), 2_000_000);
        writes.keep_unwritten(&burst(&[20]));
        writes.written(10, 3_000_000);
        assert_eq!([1, 2, 3].map(|key| writes.stamps.since_us(key, 4_000_000)), [3_000, 1_000, 1_000]);
        assert_eq!(
            writes.stamps.since_us(20, 4_000_000),
            2_000,
            "it was handed over at 2 ms and has not been written"
        );
        writes.written(0, 3_500_000);
        assert_eq!(writes.stamps.since_us(20, 4_000_000), 500);
        assert!(!writes.has_unwritten());
        assert_eq!(writes.stamps.since_us(20, 3_400_000), 0);
    }

    #[test]
    fn queries_that_wait_for_a_connection_count_from_its_first_write() {
        let mut writes = Writes::new(16);
        for at_ns in [1_000_000, 2_000_000] {
            writes.handed(&burst(&[(at_ns / 1_000_000) as u16]), at_ns);
            writes.keep_unwritten(&burst(&[(at_ns / 1_000_000) as u16]));
        }
        // Bytes of a handshake were written.
        writes.written(20, 5_000_000);
        writes.written(u64::MAX, 6_000_000);
        writes.written(0, 7_000_000);
        assert_eq!([1, 2].map(|key| writes.stamps.since_us(key, 9_000_000)), [2_000, 2_000]);
        writes.handed(&burst(&[3]), 8_000_000);
        writes.clear();
        writes.keep_unwritten(&burst(&[3]));
        assert!(!writes.has_unwritten(), "the connection has ended");
    }
}
