//! Replies that wait until they are due, with their bytes. All memory is allocated at the start, and none for a reply.
//! Pages of memory that no reply has used yet are not resident.

use super::wheel::Wheel;

/// The bytes of a reply, or of a piece of one, that has a room whenever fewer than the most replies wait.
pub(super) const SHORT_BYTES: usize = 512;

/// Rooms for the bytes of replies: their size, and a divisor of the most replies that gives the number of rooms of this size.
/// Most answers of name servers are short, a signed one is longer, and only one by TCP may be as long as a message can be.
const SIZES: [(usize, usize); 4] = [(SHORT_BYTES, 1), (1536, 2), (4096, 16), (65_537, 512)];

/// Replies that wait, each for a receiver `R`.
pub(super) struct Waiting<R> {
    wheel: Wheel,
    replies: Vec<Held<R>>,
    /// Numbers of replies that were released.
    free: Vec<u32>,
    shelves: [Shelf; SIZES.len()],
    most: usize,
}

/// A reply that waits.
#[derive(Clone, Copy)]
struct Held<R> {
    receiver: R,
    due_ns: u64,
    bytes: usize,
    /// The index of its shelf, and its room there.
    shelf: usize,
    room: usize,
}

/// Rooms of one size.
struct Shelf {
    size: usize,
    memory: Box<[u8]>,
    /// The number of rooms that were ever used.
    used: usize,
    free: Vec<usize>,
}

impl Shelf {
    fn new(size: usize, rooms: usize) -> Self {
        Self { size, memory: vec![0; size * rooms].into(), used: 0, free: Vec::with_capacity(rooms) }
    }

    /// Puts a reply that is no longer than a room into one. Returns the room; `None` if all are taken.
    fn put(&mut self, reply: &[u8]) -> Option<usize> {
        let room = self.take()?;
        self.memory[room * self.size..][..reply.len()].copy_from_slice(reply);
        Some(room)
    }

    /// A room; `None` if all are taken. The room that became free last is taken first, since it is most likely in a cache.
    fn take(&mut self) -> Option<usize> {
        self.free.pop().or_else(|| {
            let room = self.used;
            let has_room = (room + 1) * self.size <= self.memory.len();
            has_room.then(|| {
                self.used += 1;
                room
            })
        })
    }
}

impl<R: Copy> Waiting<R> {
    /// Room for `most` replies, of which a part may be long. None waits at first.
    pub(super) fn new(most: usize, now_ns: u64) -> Self {
        let shelf = |(size, part): (usize, usize)| Shelf::new(size, (most / part).max(1));
        Self {
            wheel: Wheel::new(most, now_ns),
            replies: Vec::with_capacity(most),
            free: Vec::with_capacity(most),
            shelves: SIZES.map(shelf),
            most,
        }
    }

    /// The number of replies that wait.
    pub(super) fn len(&self) -> usize {
        self.replies.len() - self.free.len()
    }

    /// Keeps a reply until this time. Returns false if there is no room for it.
    pub(super) fn hold(&mut self, receiver: R, reply: &[u8], due_ns: u64) -> bool {
        if self.len() == self.most {
            return false;
        }
        let mut fitting = self.shelves.iter_mut().enumerate().filter(|(_, shelf)| shelf.size >= reply.len());
        let Some((shelf, room)) = fitting.find_map(|(number, shelf)| Some((number, shelf.put(reply)?)))
        else {
            return false;
        };
        let held = Held { receiver, due_ns, bytes: reply.len(), shelf, room };
        let number = if let Some(number) = self.free.pop() {
            self.replies[number as usize] = held;
            number
        } else {
            self.replies.push(held);
            u32::try_from(self.replies.len() - 1).expect("fewer than 2³² replies wait")
        };
        self.wheel.insert(number, due_ns);
        true
    }

    /// Calls `each` with every reply that is due, its receiver, and when it was due.
    pub(super) fn release(&mut self, now_ns: u64, mut each: impl FnMut(R, &[u8], u64)) {
        let Self { wheel, replies, free, shelves, .. } = self;
        wheel.expire(now_ns, |number| {
            let Held { receiver, due_ns, bytes, shelf, room } = replies[number as usize];
            let Shelf { size, memory, free: rooms, .. } = &mut shelves[shelf];
            each(receiver, &memory[room * *size..][..bytes], due_ns);
            rooms.push(room);
            free.push(number);
        });
    }

    /// A time at which to call [`Self::release`] again, in nanoseconds; `None` if no reply waits.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.wheel.next_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn released(waiting: &mut Waiting<u32>, now_ns: u64) -> Vec<(u32, Vec<u8>, u64)> {
        let mut all = Vec::new();
        waiting.release(now_ns, |receiver, reply, due_ns| all.push((receiver, reply.to_vec(), due_ns)));
        all
    }

    #[test]
    fn replies_leave_whole_in_the_order_of_their_times() {
        let mut waiting = Waiting::new(16, 0);
        let long = vec![7; 65_535];
        assert!(waiting.hold(1, &long, 3_000_000));
        assert!(waiting.hold(2, b"short", 1_000_000));
        assert!(waiting.hold(3, &[9; 1000], 2_000_000));
        assert_eq!((waiting.len(), waiting.next_ns().is_some()), (3, true));
        assert_eq!(released(&mut waiting, 999_999), []);
        let first = released(&mut waiting, 2_100_000);
        assert_eq!(first, [(2, b"short".to_vec(), 1_000_000), (3, vec![9; 1000], 2_000_000)]);
        assert_eq!(released(&mut waiting, 3_100_000), [(1, long, 3_000_000)]);
        assert_eq!((waiting.len(), waiting.next_ns()), (0, None));
    }

    #[test]
    fn room_is_limited_and_used_again() {
        let mut waiting = Waiting::new(4, 0);
        for round in 0..3 {
            let due_ns = (round + 1) * 1_000_000;
            assert!((0..4).all(|number| waiting.hold(number, &[1, 2, 3], due_ns)));
            assert!(!waiting.hold(4, &[1, 2, 3], due_ns), "all places are taken");
            assert_eq!(released(&mut waiting, due_ns + 10_000).len(), 4);
        }
        // Half as many may be longer than 512 bytes; a further one takes a longer room.
        let taken = (0..5).filter(|number| waiting.hold(*number, &[0; 1000], 9_000_000)).count();
        assert_eq!(taken, 4);
        let capacity = waiting.replies.capacity();
        assert_eq!(released(&mut waiting, 9_100_000).len(), 4);
        assert_eq!(waiting.replies.capacity(), capacity, "nothing was allocated");
    }
}
