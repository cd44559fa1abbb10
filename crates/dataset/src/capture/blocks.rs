//! Room for messages of any length, which leave in any order: blocks of 64 bytes, several for a longer message.

const BLOCK_BYTES: usize = 64;
/// Stands for no block.
const NONE: u32 = u32::MAX;

pub(super) struct Blocks {
    bytes: Vec<u8>,
    /// The next block of the same message, or the next free one.
    next: Vec<u32>,
    /// The first free block.
    free: u32,
    used: usize,
    most: usize,
}

impl Blocks {
    /// Room for as many blocks. Memory is touched when it is first used.
    pub(super) fn new(most: usize) -> Self {
        let bytes = Vec::with_capacity(most * BLOCK_BYTES);
        Self { bytes, next: Vec::with_capacity(most), free: NONE, used: 0, most }
    }

    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.used + bytes.div_ceil(BLOCK_BYTES) <= self.most
    }

    /// Keeps a message, and returns its first block. There must be room.
    pub(super) fn keep(&mut self, message: &[u8]) -> u32 {
        let mut first = NONE;
        // From the end, so that the next block is known.
        for part in message.chunks(BLOCK_BYTES).rev() {
            let block = self.unused();
            let at = block as usize * BLOCK_BYTES;
            self.bytes[at..at + part.len()].copy_from_slice(part);
            self.next[block as usize] = first;
            first = block;
        }
        first
    }

    /// Appends the message of `length` bytes that begins in block `first` to `message`, and frees its blocks.
    pub(super) fn release(&mut self, first: u32, length: usize, message: &mut Vec<u8>) {
        let (mut block, mut left) = (first, length);
        while block != NONE {
            let at = block as usize * BLOCK_BYTES;
            let part = left.min(BLOCK_BYTES);
            message.extend_from_slice(&self.bytes[at..at + part]);
            left -= part;
            let next = std::mem::replace(&mut self.next[block as usize], self.free);
            self.free = block;
            self.used -= 1;
            block = next;
        }
    }

    fn unused(&mut self) -> u32 {
        self.used += 1;
        if self.free == NONE {
            self.next.push(NONE);
            self.bytes.resize(self.next.len() * BLOCK_BYTES, 0);
            return u32::try_from(self.next.len() - 1).expect("blocks have numbers of 32 bits");
        }
        let block = self.free;
        self.free = self.next[block as usize];
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_in_any_order() {
        let mut blocks = Blocks::new(8);
        let messages = [vec![1; 1], vec![2; 64], vec![3; 65], (0..200).collect::<Vec<u8>>()];
        for order in [[0, 1, 2, 3], [3, 0, 2, 1], [2, 3, 1, 0]] {
            let kept = messages.clone().map(|message| blocks.keep(&message));
            assert!(!blocks.has_room(1), "8 of 8 blocks are used");
            for index in order {
                let mut message = b"before".to_vec();
                blocks.release(kept[index], messages[index].len(), &mut message);
                assert_eq!(message[6..], messages[index]);
            }
            assert!(blocks.has_room(8 * 64) && !blocks.has_room(8 * 64 + 1));
        }
        assert_eq!(blocks.next.len(), 8);
    }

    #[test]
    fn an_empty_message_takes_no_block() {
        let mut blocks = Blocks::new(0);
        assert!(blocks.has_room(0));
        let mut message = Vec::new();
        let first = blocks.keep(&message);
        blocks.release(first, 0, &mut message);
        assert!(message.is_empty());
    }
}
