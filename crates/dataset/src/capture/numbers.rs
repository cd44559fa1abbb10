//! Numbers for keys, in the order of their first appearance.

use xxhash_rust::xxh3::xxh3_64;

/// Stands for no number.
const NONE: u32 = u32::MAX;
const SLOTS_LEAST: usize = 1 << 10;

/// A hash table of keys of `BYTES` bytes. A key takes these bytes, and 5.3 to 10.7 for its slots.
pub(super) struct Numbers<const BYTES: usize> {
    keys: Vec<[u8; BYTES]>,
    /// The numbers of the keys, each in the first free slot from that of its hash. At most three quarters are used.
    slots: Vec<u32>,
}

impl<const BYTES: usize> Numbers<BYTES> {
    pub(super) fn new() -> Self {
        Self { keys: Vec::new(), slots: vec![NONE; SLOTS_LEAST] }
    }

    /// The number of a key, which is the next one if the key is new.
    pub(super) fn number(&mut self, key: &[u8; BYTES]) -> u32 {
        let slot = self.slot(key);
        if self.slots[slot] != NONE {
            return self.slots[slot];
        }
        let number = u32::try_from(self.keys.len()).expect("keys have numbers of 32 bits");
        self.keys.push(*key);
        self.slots[slot] = number;
        if self.keys.len() * 4 > self.slots.len() * 3 {
            self.grow();
        }
        number
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The keys in the order of their numbers.
    pub(super) fn keys(&self) -> &[[u8; BYTES]] {
        &self.keys
    }

    /// The keys in the order of their numbers, without the table.
    pub(super) fn into_keys(self) -> Vec<[u8; BYTES]> {
        self.keys
    }

    /// The slot of a key, or the free one in which it belongs.
    fn slot(&self, key: &[u8; BYTES]) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = xxh3_64(key) as usize & mask;
        while self.slots[slot] != NONE && self.keys[self.slots[slot] as usize] != *key {
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn grow(&mut self) {
        let mask = self.slots.len() * 2 - 1;
        self.slots = vec![NONE; mask + 1];
        for (number, key) in (0..).zip(&self.keys) {
            let mut slot = xxh3_64(key) as usize & mask;
            while self.slots[slot] != NONE {
                slot = (slot + 1) & mask;
            }
            self.slots[slot] = number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_keeps_its_number() {
        let mut numbers = Numbers::<4>::new();
        for round in 0..2 {
            for key in 0..10_000_u32 {
                assert_eq!(
                    numbers.number(&key.wrapping_mul(0x9e37_79b1).to_le_bytes()),
                    key,
                    "round {round}"
                );
            }
        }
        assert_eq!(numbers.len(), 10_000);
        let keys = numbers.into_keys();
        assert_eq!(keys[9_999], 9_999_u32.wrapping_mul(0x9e37_79b1).to_le_bytes());
    }
}
