//! Blocks of memory that connections borrow, and chains of them.

/// Stands for no block.
pub(super) const NONE: u32 = u32::MAX;

/// Blocks of one size. They are made as they are needed, up to a limit, and used again.
pub(super) struct Pool {
    bytes: Vec<u8>,
    /// The block after each one in its chain, or among the free ones.
    next: Vec<u32>,
    free: u32,
    block_bytes: usize,
    blocks_most: usize,
}

/// Bytes in blocks, of which the first may be read in part. It must go back to its pool by [`Pool::clear`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain {
    first: u32,
    last: u32,
    /// Where the bytes begin in the first block.
    start: u32,
    /// The number of bytes.
    pub(super) bytes: u32,
}

impl Chain {
    pub(super) const EMPTY: Self = Self { first: NONE, last: NONE, start: 0, bytes: 0 };
}

impl Pool {
    /// A pool that grows up to so many bytes. Their addresses are reserved, and memory is used as blocks are.
    pub(super) fn new(block_bytes: usize, bytes_most: usize) -> Self {
        let blocks_most = (bytes_most / block_bytes).min(NONE as usize);
        Self {
            bytes: Vec::with_capacity(blocks_most * block_bytes),
            next: Vec::with_capacity(blocks_most),
            free: NONE,
            block_bytes,
            blocks_most,
        }
    }

    /// Takes a block; `None` if all are in use.
    #[inline]
    pub(super) fn take(&mut self) -> Option<u32> {
        let block = self.free;
        if block != NONE {
            self.free = self.next[block as usize];
            self.next[block as usize] = NONE;
            return Some(block);
        }
        if self.next.len() == self.blocks_most {
            return None;
        }
        self.bytes.resize(self.bytes.len() + self.block_bytes, 0);
        self.next.push(NONE);
        Some(self.next.len() as u32 - 1)
    }

    /// Whether a block can be taken.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.free != NONE || self.next.len() < self.blocks_most
    }

    /// Gives a block back.
    #[inline]
    pub(super) fn give(&mut self, block: u32) {
        self.next[block as usize] = self.free;
        self.free = block;
    }

    pub(super) fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    #[inline]
    pub(super) fn block(&self, block: u32) -> &[u8] {
        &self.bytes[block as usize * self.block_bytes..][..self.block_bytes]
    }

    #[inline]
    pub(super) fn block_mut(&mut self, block: u32) -> &mut [u8] {
        &mut self.bytes[block as usize * self.block_bytes..][..self.block_bytes]
    }

    /// Appends as many bytes as there is room for. Returns their number.
    #[inline]
    pub(super) fn append(&mut self, chain: &mut Chain, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while !rest.is_empty() {
            let at = (chain.start + chain.bytes) as usize % self.block_bytes;
            if chain.first == NONE || at == 0 {
                let Some(block) = self.take() else { break };
                if chain.first == NONE {
                    chain.first = block;
                } else {
                    self.next[chain.last as usize] = block;
                }
                chain.last = block;
            }
            let count = rest.len().min(self.block_bytes - at);
            let (head, tail) = rest.split_at(count);
            self.block_mut(chain.last)[at..at + count].copy_from_slice(head);
            chain.bytes += count as u32;
            rest = tail;
        }
        bytes.len() - rest.len()
    }

    /// Removes so many of the first bytes, which are there.
    #[inline]
    pub(super) fn discard(&mut self, chain: &mut Chain, count: u32) {
        if count == chain.bytes {
            self.clear(chain);
            return;
        }
        chain.bytes -= count;
        chain.start += count;
        while chain.start as usize >= self.block_bytes {
            let first = chain.first;
            chain.first = self.next[first as usize];
            chain.start -= self.block_bytes as u32;
            self.give(first);
        }
    }

    /// Copies bytes that begin `from` after the first one, and are there.
    #[inline]
    pub(super) fn copy(&self, chain: &Chain, from: u32, mut into: &mut [u8]) {
        let mut at = (chain.start + from) as usize;
        let mut block = chain.first;
        while at >= self.block_bytes && !into.is_empty() {
            block = self.next[block as usize];
            at -= self.block_bytes;
        }
        while !into.is_empty() {
            let count = into.len().min(self.block_bytes - at);
            let (head, tail) = std::mem::take(&mut into).split_at_mut(count);
            head.copy_from_slice(&self.block(block)[at..at + count]);
            (into, at, block) = (tail, 0, self.next[block as usize]);
        }
    }

    /// Empties a chain.
    #[inline]
    pub(super) fn clear(&mut self, chain: &mut Chain) {
        if chain.first != NONE {
            self.next[chain.last as usize] = self.free;
            self.free = chain.first;
        }
        *chain = Chain::EMPTY;
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.len() + size_of_val(&*self.next)
    }

    /// Blocks that are in use.
    #[cfg(test)]
    pub(super) fn used(&self) -> usize {
        let mut free = 0;
        let mut block = self.free;
        while block != NONE {
            (free, block) = (free + 1, self.next[block as usize]);
        }
        self.next.len() - free
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    #[test]
    fn a_chain_is_a_queue_of_bytes() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut pool = Pool::new(16, 16 * 12);
        let (mut chain, mut queue) = (Chain::EMPTY, VecDeque::<u8>::new());
        for _ in 0..20_000 {
            if random.bool() {
                let bytes: Vec<u8> = (0..random.usize(0..60)).map(|_| random.u8(..)).collect();
                let taken = pool.append(&mut chain, &bytes);
                assert!(taken == bytes.len() || pool.used() == 12, "only a lack of blocks cuts");
                queue.extend(&bytes[..taken]);
            } else {
                let count = random.usize(0..=queue.len());
                pool.discard(&mut chain, count as u32);
                drop(queue.drain(..count));
            }
            assert_eq!(chain.bytes as usize, queue.len());
            let from = random.usize(0..=queue.len());
            let mut copied = vec![0; random.usize(0..=queue.len() - from)];
            pool.copy(&chain, from as u32, &mut copied);
            assert!(copied.iter().eq(queue.range(from..from + copied.len())));
            assert!(pool.used() <= queue.len() / 16 + 2, "{} for {}", pool.used(), queue.len());
        }
        pool.clear(&mut chain);
        assert_eq!(pool.used(), 0);
    }
}
