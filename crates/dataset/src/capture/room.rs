//! The room in which queries wait until they are in order of time and have met their responses. Ends of connections
//! wait here too, so that they keep their place among the queries.

use std::num::NonZeroU64;

use kqps_capture::Transport as Carried;

use super::blocks::Blocks;
use super::clients::ClientKey;
use super::expectation::Expectation;
use super::order::Order;

/// The most that wait. With the blocks of their messages, their order and the buckets this is 15 MiB: 80 bytes each for
/// [`Slot`], 68 for a block, twice 16 for [`Order`], and 0.5 MiB.
const SLOTS_MOST: usize = 80 << 10;
const BLOCKS_MOST: usize = 80 << 10;
const BUCKETS: usize = 1 << 17;
/// Stands for no slot.
const NONE: u32 = u32::MAX;

/// A query or an end of a connection that waits, without the bytes of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) at_ns: u64,
    /// The number that the query has in common with its response.
    pub(super) exchange: u64,
    pub(super) connection: Option<Connection>,
    pub(super) expectation: Expectation,
    pub(super) client: ClientKey,
    pub(super) carried: Carried,
    pub(super) state: State,
}

/// The number of a connection plus 1, so that an option of it takes 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Connection(NonZeroU64);

impl Connection {
    pub(super) fn of_number(number: u64) -> Option<Self> {
        NonZeroU64::new(number.wrapping_add(1)).map(Self)
    }

    pub(super) fn number(self) -> u64 {
        self.0.get() - 1
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// A query without a response so far.
    Open,
    /// A query with a response.
    Answered,
    /// The end of a connection.
    Closed,
}

struct Slot {
    waiting: Waiting,
    message_bytes: u16,
    block: u32,
    /// The next slot of the bucket that came later. Only while the query is open.
    newer: u32,
    /// The next slot of the bucket that came earlier, or the next free slot.
    older: u32,
}

pub(super) struct Room {
    slots: Vec<Slot>,
    /// The first free slot.
    free: u32,
    used: usize,
    blocks: Blocks,
    order: Order,
    /// The latest open query of each bucket of exchanges.
    buckets: Vec<u32>,
}

impl Room {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::with_capacity(SLOTS_MOST),
            free: NONE,
            used: 0,
            blocks: Blocks::new(BLOCKS_MOST),
            order: Order::default(),
            buckets: vec![NONE; BUCKETS],
        }
    }

    /// Whether one more can wait, with a message of as many bytes. An empty room has room for any message.
    pub(super) fn has_room(&self, message_bytes: usize) -> bool {
        self.used < SLOTS_MOST && self.blocks.has_room(message_bytes)
    }

    /// Takes a query with its message of at most 65535 bytes, or the end of a connection without one. There must be
    /// room.
    pub(super) fn put(&mut self, waiting: Waiting, message: &[u8]) {
        let slot = Slot {
            waiting,
            message_bytes: u16::try_from(message.len()).expect("a message has 65,535 bytes at most"),
            block: self.blocks.keep(message),
            newer: NONE,
            older: NONE,
        };
        let number = self.place(slot);
        self.order.push(waiting.at_ns, number);
        if waiting.state == State::Open {
            self.link(number);
        }
    }

    /// Gives a response, which came at this time, to the latest open query of its exchange. Returns false if there is
    /// none.
    pub(super) fn answer(&mut self, exchange: u64, at_ns: u64, expectation: Expectation) -> bool {
        let mut number = self.buckets[bucket_of(exchange)];
        while number != NONE && self.slots[number as usize].waiting.exchange != exchange {
            number = self.slots[number as usize].older;
        }
        if number == NONE {
            return false;
        }
        self.unlink(number);
        let waiting = &mut self.slots[number as usize].waiting;
        let after_ns = at_ns.saturating_sub(waiting.at_ns);
        (waiting.expectation, waiting.state) = (expectation.after(after_ns), State::Answered);
        true
    }

    /// The earliest time of what waits.
    pub(super) fn first_ns(&self) -> Option<u64> {
        self.order.first_ns()
    }

    /// Removes what has the earliest time, and writes its message to `message`, whatever that held.
    pub(super) fn take(&mut self, message: &mut Vec<u8>) -> Option<Waiting> {
        let number = self.order.pop()?;
        if self.slots[number as usize].waiting.state == State::Open {
            self.unlink(number);
        }
        let slot = &mut self.slots[number as usize];
        slot.older = std::mem::replace(&mut self.free, number);
        self.used -= 1;
        message.clear();
        self.blocks.release(slot.block, usize::from(slot.message_bytes), message);
        Some(slot.waiting)
    }

    fn place(&mut self, slot: Slot) -> u32 {
        self.used += 1;
        if self.free == NONE {
            self.slots.push(slot);
            return u32::try_from(self.slots.len() - 1).expect("slots have numbers of 20 bits");
        }
        let number = self.free;
        self.free = std::mem::replace(&mut self.slots[number as usize], slot).older;
        number
    }

    /// Makes a query the first of its bucket.
    fn link(&mut self, number: u32) {
        let bucket = bucket_of(self.slots[number as usize].waiting.exchange);
        let older = std::mem::replace(&mut self.buckets[bucket], number);
        self.slots[number as usize].older = older;
        if older != NONE {
            self.slots[older as usize].newer = number;
        }
    }

    /// Takes a query out of its bucket.
    fn unlink(&mut self, number: u32) {
        let Slot { newer, older, waiting, .. } = &self.slots[number as usize];
        let (newer, older, bucket) = (*newer, *older, bucket_of(waiting.exchange));
        if newer == NONE {
            self.buckets[bucket] = older;
        } else {
            self.slots[newer as usize].older = older;
        }
        if older != NONE {
            self.slots[older as usize].newer = newer;
        }
    }
}

fn bucket_of(exchange: u64) -> usize {
    exchange as usize & (BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(at_ns: u64, exchange: u64) -> Waiting {
        Waiting {
            at_ns,
            exchange,
            connection: None,
            expectation: Expectation::NONE,
            client: [0; 18],
            carried: Carried::Udp,
            state: State::Open,
        }
    }

    /// The content that leaves the room: times, states and messages.
    fn all(room: &mut Room) -> Vec<(u64, State, Vec<u8>)> {
        let mut message = b"anything".to_vec();
        let mut left = Vec::new();
        while let Some(waiting) = room.take(&mut message) {
            left.push((waiting.at_ns, waiting.state, message.clone()));
        }
        left
    }

    #[test]
    fn a_response_is_for_the_latest_open_query_of_its_exchange() {
        let mut room = Room::new();
        // Two exchanges of one bucket, and one of another.
        let (one, other, third) = (5, 5 + BUCKETS as u64, 6);
        for (at_ns, exchange, message) in
            [(1, one, b"a"), (2, other, b"b"), (3, one, b"c"), (4, third, b"d"), (5, one, b"e")]
        {
            room.put(query(at_ns, exchange), message);
        }
        assert!(room.answer(one, 9, Expectation::NONE) && room.answer(one, 9, Expectation::NONE));
        assert!(room.answer(other, 9, Expectation::NONE) && !room.answer(other, 9, Expectation::NONE));
        let expected = [
            (1, State::Open, b"a".to_vec()),
            (2, State::Answered, b"b".to_vec()),
            (3, State::Answered, b"c".to_vec()),
            (4, State::Open, b"d".to_vec()),
            (5, State::Answered, b"e".to_vec()),
        ];
        assert_eq!(all(&mut room), expected);
        assert!(!room.answer(one, 9, Expectation::NONE), "it has left");
        assert!(!room.answer(third, 9, Expectation::NONE), "it has left");
        assert!(room.buckets.iter().all(|bucket| *bucket == NONE));
    }

    #[test]
    fn a_full_room_has_room_again_when_one_left() {
        let mut room = Room::new();
        for number in 0..SLOTS_MOST as u64 {
            assert!(room.has_room(64));
            room.put(query(number ^ 1, number), &number.to_le_bytes());
        }
        assert!(!room.has_room(0));
        let mut message = Vec::new();
        assert_eq!(room.take(&mut message).map(|waiting| waiting.at_ns), Some(0));
        assert_eq!(message, 1_u64.to_le_bytes());
        assert!(room.has_room(64) && !room.has_room(65));
        room.put(query(u64::MAX, 0), b"last");
        let left = all(&mut room);
        assert_eq!(left.len(), SLOTS_MOST);
        assert!(left.is_sorted_by_key(|(at_ns, ..)| *at_ns));
        assert_eq!(left.last().map(|(.., message)| &message[..]), Some(&b"last"[..]));
        assert!(room.has_room(usize::from(u16::MAX)));
    }

    #[test]
    fn slots_are_as_small_as_the_arithmetic_says() {
        assert_eq!(size_of::<Slot>(), 80);
        assert_eq!(Connection::of_number(7).map(Connection::number), Some(7));
    }
}
