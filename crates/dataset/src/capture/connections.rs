//! The connections of a capture: the places that they take, and the last query of each.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::captured::{Captured, IDLE_BEYOND};

/// The most connections that are known at once: 49 bytes each in a table of 64 Ki, 3.1 MiB. The reader of a capture
/// holds fewer and reports the end of each. So the limit matters only if the times of a capture contradict each other.
const OPEN_MOST: usize = 56 << 10;

/// The record of a connection's last query so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Last {
    /// Where the record begins in the encoded form.
    pub(super) record: u64,
    pub(super) captured: Captured,
    /// The time of the latest response on the connection so far, from the first query; 0 if there was none.
    pub(super) replied_ns: u64,
}

#[derive(Default)]
pub(super) struct Connections {
    open: HashMap<u64, Last>,
    /// Places below `places` that no open connection has.
    free: BinaryHeap<Reverse<u32>>,
    places: u32,
    begun: u64,
}

impl Connections {
    /// Ends connections if there are too many for this one: those whose last queries are the earliest, half of them.
    pub(super) fn make_room(&mut self, connection: u64, due_ns: u64) -> Vec<Last> {
        self.make_room_among(OPEN_MOST, connection, due_ns)
    }

    fn make_room_among(&mut self, most: usize, connection: u64, due_ns: u64) -> Vec<Last> {
        if self.open.len() < most || self.open.contains_key(&connection) {
            return Vec::new();
        }
        let mut dues: Vec<u64> = self.open.values().map(|last| last.captured.due_ns).collect();
        let middle = dues.len() / 2;
        let limit_ns = *dues.select_nth_unstable(middle).1;
        let early: Vec<Last> =
            self.open.extract_if(|_, last| last.captured.due_ns <= limit_ns).map(|(_, last)| last).collect();
        early.into_iter().map(|last| self.end(last, due_ns)).collect()
    }

    /// The place of a connection that has a query, and whether this is its first one. [`Self::wrote`] must follow.
    pub(super) fn enter(&mut self, connection: u64) -> (u32, bool) {
        if let Some(last) = self.open.get(&connection) {
            return (last.captured.place, false);
        }
        self.begun += 1;
        let place = self.free.pop().map_or(self.places, |Reverse(place)| place);
        self.places = self.places.max(place + 1);
        (place, true)
    }

    /// Takes note of the last query of a connection.
    pub(super) fn wrote(&mut self, connection: u64, last: Last) {
        let known = self.open.entry(connection).or_insert(last);
        *known = Last { replied_ns: known.replied_ns.max(last.replied_ns), ..last };
    }

    /// Takes note of a response on a connection whose query was written before.
    pub(super) fn replied(&mut self, connection: u64, at_ns: u64) {
        if let Some(last) = self.open.get_mut(&connection) {
            last.replied_ns = last.replied_ns.max(at_ns);
        }
    }

    /// Ends a connection, at a time from the first query. Returns its last query with the end, if it had any.
    pub(super) fn close(&mut self, connection: u64, at_ns: u64) -> Option<Last> {
        let last = self.open.remove(&connection)?;
        Some(self.end(last, at_ns))
    }

    /// The last queries of the connections that are open when the capture ends, in the order of their records.
    pub(super) fn still_open(&mut self) -> Vec<Last> {
        let ended = |last: Last| {
            let captured = Captured { ends: true, idle_ms: IDLE_BEYOND, ..last.captured };
            Last { captured, ..last }
        };
        let mut open: Vec<Last> = self.open.drain().map(|(_, last)| ended(last)).collect();
        open.sort_unstable_by_key(|last| last.record);
        open
    }

    /// The connections that were open at the same time, at most.
    pub(super) fn places(&self) -> u32 {
        self.places
    }

    /// The connections that had a query.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    fn end(&mut self, last: Last, at_ns: u64) -> Last {
        self.free.push(Reverse(last.captured.place));
        let idle_ms = at_ns.saturating_sub(last.captured.due_ns.max(last.replied_ns)) / 1_000_000;
        let idle_ms = u32::try_from(idle_ms).unwrap_or(IDLE_BEYOND).min(IDLE_BEYOND - 1);
        Last { captured: Captured { ends: true, idle_ms, ..last.captured }, ..last }
    }
}

#[cfg(test)]
mod tests {
    use kqps_capture::Transport as Carried;

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Has a connection ask at a time, in a record of that number.
    fn ask(connections: &mut Connections, connection: u64, due_ns: u64) -> Captured {
        let (place, begins) = connections.enter(connection);
        let captured =
            Captured { due_ns, client: 0, carried: Carried::Tcp, place, begins, ends: false, idle_ms: 0 };
        connections.wrote(connection, Last { record: due_ns, captured, replied_ns: 0 });
        captured
    }

    #[test]
    fn a_connection_has_the_lowest_place_that_is_free() {
        let mut connections = Connections::default();
        let places = [7, 9, 8].map(|connection| ask(&mut connections, connection, 1).place);
        assert_eq!(places, [0, 1, 2]);
        let again = ask(&mut connections, 9, 2);
        assert_eq!((again.place, again.begins), (1, false));
        for connection in [9, 7] {
            assert!(connections.close(connection, 3).is_some());
        }
        assert_eq!(connections.close(9, 4), None);
        let later = [20, 21, 22].map(|connection| ask(&mut connections, connection, 5));
        assert_eq!(later.map(|captured| captured.place), [0, 1, 3]);
        assert!(later.iter().all(|captured| captured.begins));
        assert_eq!((connections.places(), connections.begun()), (4, 6));
    }

    #[test]
    fn the_last_query_says_how_long_its_connection_was_idle() {
        let mut connections = Connections::default();
        ask(&mut connections, 1, SECOND_NS);
        let asked = ask(&mut connections, 1, 2 * SECOND_NS);
        let last = connections.close(1, 12 * SECOND_NS + 1).expect("a last query");
        assert_eq!(last.record, 2 * SECOND_NS);
        assert_eq!(last.captured, Captured { ends: true, idle_ms: 10_000, ..asked });
        ask(&mut connections, 2, SECOND_NS);
        let last = connections.close(2, 0).expect("a last query");
        assert_eq!(last.captured.idle_ms, 0, "closed before it was asked, as the times say");
        ask(&mut connections, 3, 0);
        let last = connections.close(3, u64::MAX).expect("a last query");
        assert_eq!(last.captured.idle_ms, u32::MAX - 1);
    }

    #[test]
    fn idle_time_begins_with_the_last_response() {
        let mut connections = Connections::default();
        let captured = ask(&mut connections, 1, SECOND_NS);
        connections.wrote(1, Last { record: 7, captured, replied_ns: 5 * SECOND_NS });
        let again = ask(&mut connections, 1, 2 * SECOND_NS);
        let last = connections.close(1, 12 * SECOND_NS).expect("a last query");
        assert_eq!(last.captured, Captured { ends: true, idle_ms: 7_000, ..again });
        ask(&mut connections, 2, SECOND_NS);
        connections.replied(2, 4 * SECOND_NS);
        connections.replied(2, 3 * SECOND_NS);
        connections.replied(3, 3 * SECOND_NS);
        let last = connections.close(2, 5 * SECOND_NS).expect("a last query");
        assert_eq!(last.captured.idle_ms, 1_000);
        assert_eq!(connections.close(3, SECOND_NS), None);
    }

    #[test]
    fn what_is_open_at_the_end_stays_open() {
        let mut connections = Connections::default();
        for (connection, due_ns) in [(1, 7), (2, 5), (3, 6)] {
            ask(&mut connections, connection, due_ns);
        }
        let open = connections.still_open();
        assert_eq!(open.iter().map(|last| last.record).collect::<Vec<_>>(), [5, 6, 7]);
        assert!(open.iter().all(|last| last.captured.ends && last.captured.idle_ms == u32::MAX));
    }

    #[test]
    fn too_many_connections_lose_the_half_that_was_used_the_longest_ago() {
        let mut connections = Connections::default();
        for connection in 0..10 {
            assert!(connections.make_room_among(10, connection, connection).is_empty());
            ask(&mut connections, connection, connection);
        }
        assert!(connections.make_room_among(10, 3, 100).is_empty(), "it is open");
        let mut ended = connections.make_room_among(10, 10, 3_000_000);
        ended.sort_unstable_by_key(|last| last.record);
        assert_eq!(ended.iter().map(|last| last.record).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(ended[0].captured.idle_ms, 3);
        assert_eq!(ask(&mut connections, 10, 200).place, 0);
    }
}
