//! A queue of blocks: segments in the order in which they were filled. Blocks are added to the newest one and taken
//! from the oldest one.

use std::collections::VecDeque;

pub(crate) struct Queue {
    segments: VecDeque<Filled>,
    /// The bytes of the oldest segment that were passed.
    passed_bytes: usize,
    segment_bits: u32,
}

struct Filled {
    segment: u32,
    /// The bytes that have blocks.
    bytes: u32,
}

impl Queue {
    /// An empty queue of segments of 2^`segment_bits` bytes.
    pub(crate) fn new(segment_bits: u32) -> Self {
        Self { segments: VecDeque::new(), passed_bytes: 0, segment_bits }
    }

    /// The number of segments.
    pub(crate) fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Whether the newest segment has room for this many bytes.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let newest = self.segments.back();
        newest.is_some_and(|newest| newest.bytes as usize + bytes <= 1 << self.segment_bits)
    }

    /// The address for a new block of this many bytes; `None` if the newest segment has no room.
    pub(crate) fn place(&mut self, bytes: usize) -> Option<usize> {
        if !self.has_room(bytes) {
            return None;
        }
        let newest = self.segments.back_mut()?;
        let address = ((newest.segment as usize) << self.segment_bits) + newest.bytes as usize;
        newest.bytes += u32::try_from(bytes).expect("a segment has room for it");
        Some(address)
    }

    /// Adds an empty segment, which becomes the newest.
    pub(crate) fn add(&mut self, segment: u32) {
        self.segments.push_back(Filled { segment, bytes: 0 });
    }

    /// The address of the oldest block; `None` if all blocks of the oldest segment were passed, or if there is none.
    pub(crate) fn oldest(&self) -> Option<usize> {
        let oldest = self.segments.front()?;
        let is_passed = self.passed_bytes >= oldest.bytes as usize;
        (!is_passed).then(|| ((oldest.segment as usize) << self.segment_bits) + self.passed_bytes)
    }

    /// Passes the oldest block, which has this many bytes.
    pub(crate) fn pass(&mut self, bytes: usize) {
        self.passed_bytes += bytes;
    }

    /// Removes the oldest segment.
    pub(crate) fn remove_oldest(&mut self) -> Option<u32> {
        self.passed_bytes = 0;
        self.segments.pop_front().map(|filled| filled.segment)
    }

    /// The memory of the list, in bytes.
    pub(crate) fn list_bytes(&self) -> usize {
        self.segments.capacity() * size_of::<Filled>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_leave_in_the_order_in_which_they_came() {
        let mut queue = Queue::new(4);
        assert_eq!((queue.place(8), queue.oldest(), queue.remove_oldest()), (None, None, None));
        queue.add(5);
        assert_eq!([queue.place(8), queue.place(8), queue.place(8)], [Some(80), Some(88), None]);
        queue.add(2);
        assert_eq!(queue.place(16), Some(32));
        for address in [80, 88] {
            assert_eq!(queue.oldest(), Some(address));
            queue.pass(8);
        }
        assert_eq!((queue.oldest(), queue.remove_oldest()), (None, Some(5)));
        assert_eq!((queue.oldest(), queue.segments()), (Some(32), 1));
    }
}
