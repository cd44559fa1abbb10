//! The parts of a zone. The first bits of its names' hashes select the part, so many threads can build the
//! zone. Each part has its own memory and index. Within a part, names are in the order of their hashes.

use crate::zone::index::{Index, key_of};
use crate::zone::node::{ALIGNMENT, FIXED_BYTES, FLAGS_AT, Node};

/// A part of a zone's names.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ZonePart {
    memory: Box<[u8]>,
    index: Index,
}

/// The part of a hash, and its key there. The first `bits` bits (0 to 31) select the part.
#[inline]
pub(crate) fn address(hash: u64, bits: u32) -> (u32, u32) {
    // Two shifts, since a shift by 32 is not defined.
    (key_of(hash) >> 1 >> (31 - bits), key_of(hash << bits))
}

impl ZonePart {
    /// A part of nodes and their index: keys, and positions divided by [`ALIGNMENT`].
    pub(crate) fn new(memory: Vec<u8>, index: Index) -> Self {
        Self { memory: memory.into_boxed_slice(), index }
    }

    /// The position, divided by [`ALIGNMENT`], of the node with this key for which `is_it` is true.
    #[inline]
    pub(crate) fn find(&self, key: u32, mut is_it: impl FnMut(Node<'_>) -> bool) -> Option<u32> {
        self.index.find(key, |place| is_it(self.node(place as usize * ALIGNMENT)))
    }

    /// The node at a position.
    #[inline]
    pub(crate) fn node(&self, at: usize) -> Node<'_> {
        Node::at(&self.memory, at)
    }

    /// Its nodes with their positions, from `at`, which is a position or 0.
    pub(crate) fn nodes(&self, mut at: usize) -> impl Iterator<Item = (usize, Node<'_>)> {
        std::iter::from_fn(move || {
            let here = (at, (at < self.memory.len()).then(|| self.node(at))?);
            at += here.1.size();
            Some(here)
        })
    }

    /// Sets flags of the node at a position.
    pub(crate) fn flag(&mut self, at: usize, flags: u8) {
        self.memory[at + FLAGS_AT] |= flags;
    }

    /// Sets the place in the NSEC3 chain of the node at a position. The node must have room for it.
    pub(crate) fn chain(&mut self, at: usize, place: u32) {
        self.memory[at + FIXED_BYTES..at + FIXED_BYTES + 4].copy_from_slice(&place.to_le_bytes());
    }

    /// The memory that it uses besides itself, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory.len() + self.index.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bits_select_the_part_and_the_next_the_key() {
        let hash = 0xabcd_ef01_2345_6789;
        assert_eq!(address(hash, 0), (0, 0xabcd_ef01));
        assert_eq!(address(hash, 8), (0xab, 0xcdef_0123));
        assert_eq!(address(u64::MAX, 1), (1, u32::MAX));
    }
}
