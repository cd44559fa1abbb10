//! From the hash of a pair to the number of its connection: open addressing with linear probing, of a fixed size.

/// A number is found by at most a few looks at neighbouring slots. Removing closes the gap, so that no slot stays lost.
pub(super) struct Table {
    slots: Box<[Slot]>,
    mask: usize,
}

/// The lower half of a hash, and a number plus 1; an empty slot has 0.
#[derive(Clone, Copy, Default)]
struct Slot {
    hash: u32,
    number: u32,
}

impl Table {
    /// A table for so many numbers, which fill half of its slots at most.
    pub(super) fn new(most: u32) -> Self {
        let slots = (most as usize * 2).next_power_of_two().max(2);
        Self { slots: vec![Slot::default(); slots].into(), mask: slots - 1 }
    }

    /// The number with this hash of which `is_it` holds.
    #[inline]
    pub(super) fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = hash as usize & self.mask;
        loop {
            let slot = self.slots[at];
            if slot.number == 0 {
                return None;
            }
            if slot.hash == hash && is_it(slot.number - 1) {
                return Some(slot.number - 1);
            }
            at = (at + 1) & self.mask;
        }
    }

    /// Adds a number that is not in the table, which has room for it.
    #[inline]
    pub(super) fn insert(&mut self, hash: u32, number: u32) {
        let mut at = hash as usize & self.mask;
        while self.slots[at].number != 0 {
            at = (at + 1) & self.mask;
        }
        self.slots[at] = Slot { hash, number: number + 1 };
    }

    /// Removes a number, if it is there.
    #[inline]
    pub(super) fn remove(&mut self, hash: u32, number: u32) {
        let mut gap = hash as usize & self.mask;
        while self.slots[gap].number != number + 1 {
            if self.slots[gap].number == 0 {
                return;
            }
            gap = (gap + 1) & self.mask;
        }
        let mut at = gap;
        loop {
            at = (at + 1) & self.mask;
            let slot = self.slots[at];
            if slot.number == 0 {
                break;
            }
            // It may move into the gap if its search, which begins at its home, passes there.
            let home = slot.hash as usize & self.mask;
            if at.wrapping_sub(home) & self.mask >= at.wrapping_sub(gap) & self.mask {
                self.slots[gap] = slot;
                gap = at;
            }
        }
        self.slots[gap] = Slot::default();
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn it_finds_what_a_map_finds() {
        // Hashes that collide in their lower bits, so that runs of slots meet and wrap.
        let mut random = fastrand::Rng::with_seed(3);
        let mut table = Table::new(64);
        let mut map: BTreeMap<u32, u32> = BTreeMap::new();
        for _ in 0..100_000 {
            let number = random.u32(0..64);
            let hash = map.get(&number).copied();
            match hash {
                Some(hash) if random.bool() => {
                    assert_eq!(table.find(hash, |one| one == number), Some(number));
                    table.remove(hash, number);
                    map.remove(&number);
                    assert_eq!(table.find(hash, |one| one == number), None);
                }
                Some(hash) => assert_eq!(table.find(hash, |one| one == number), Some(number)),
                None => {
                    let hash = (random.u32(0..20) + 120) | (random.u32(0..4) << 20);
                    table.insert(hash, number);
                    map.insert(number, hash);
                }
            }
        }
        for (number, hash) in map {
            assert_eq!(table.find(hash, |one| one == number), Some(number));
        }
        table.remove(5, 7);
    }
}
