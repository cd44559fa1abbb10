//! Maps a part of a hash to a place. Every entry is at the slot that its key is proportional to, or at the
//! next free slot after it. Entries are in the order of their keys, so building writes from front to back,
//! and a search ends at the first larger key.

/// A slot without an entry. It is larger than any entry, so that a search ends at it.
const FREE: u64 = u64::MAX;

/// Keys of 32 bits, each with a value below 2³² − 1. Several entries may have one key.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Index {
    /// A key in the high half, its value in the low half.
    slots: Box<[u64]>,
    /// The number of slots over which keys are spread. After them are slots for the last keys, which found no
    /// room.
    homes: u64,
}

impl Index {
    /// An index of `entries` (key, value) in the order of their keys, filled to three quarters.
    pub(crate) fn build(entries: impl ExactSizeIterator<Item = (u32, u32)>) -> Self {
        let homes = (entries.len() as u64 * 4).div_ceil(3).max(1);
        let mut slots = Vec::with_capacity(homes as usize + 1);
        for (key, value) in entries {
            let home = home(key, homes);
            if slots.len() < home {
                slots.resize(home, FREE);
            }
            slots.push(u64::from(key) << 32 | u64::from(value));
        }
        Self { slots: slots.into_boxed_slice(), homes }
    }

    /// The first value of `key` for which `is_it` is true.
    #[inline]
    pub(crate) fn find(&self, key: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        for &slot in self.slots.get(home(key, self.homes)..)? {
            let known = key_of(slot);
            if known < key {
                continue;
            }
            if known > key || slot == FREE {
                return None;
            }
            let value = u32::try_from(slot & u64::from(u32::MAX)).expect("32 bits are left");
            if is_it(value) {
                return Some(value);
            }
        }
        None
    }

    /// The memory that it uses besides itself, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }
}

/// The key of a hash, or of a slot: its first 32 bits.
#[inline]
pub(crate) fn key_of(hash: u64) -> u32 {
    u32::try_from(hash >> 32).expect("32 bits are left")
}

#[inline]
fn home(key: u32, homes: u64) -> usize {
    ((u64::from(key) * homes) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_finds_its_values_and_no_others() {
        let mut random = 1_u64;
        let mut entries: Vec<(u32, u32)> = (0..5000)
            .map(|value| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // Few keys at both ends, and many equal ones.
                ((random >> 32) as u32 | [0, 0xffff_0000][value as usize % 2], value)
            })
            .collect();
        entries.extend([(0, 7), (u32::MAX, 8), (u32::MAX, u32::MAX - 1), (77, 9), (77, 10)]);
        entries.sort_unstable();
        let index = Index::build(entries.iter().copied());
        for &(key, _) in &entries {
            let mut values = Vec::new();
            let found = index.find(key, |value| {
                values.push(value);
                false
            });
            assert_eq!(found, None);
            values.sort_unstable();
            let expected: Vec<u32> =
                entries.iter().filter(|entry| entry.0 == key).map(|entry| entry.1).collect();
            assert_eq!(values, expected);
        }
        for key in [1, 76, 78, 0x8000_0000] {
            let known = entries.iter().any(|entry| entry.0 == key);
            assert_eq!(index.find(key, |_| true).is_some(), known);
        }
        assert!(index.memory_bytes() < entries.len() * 16);
    }

    #[test]
    fn an_empty_index_has_nothing() {
        assert_eq!(Index::build(std::iter::empty()).find(0, |_| true), None);
        assert_eq!(Index::default().find(u32::MAX, |_| true), None);
    }
}
