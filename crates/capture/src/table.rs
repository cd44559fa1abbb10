//! Entries by key, each also in one of some lists in the order of last use.

use std::collections::HashMap;
use std::hash::Hash;

/// The number of no place.
const NONE: u32 = u32::MAX;

pub(crate) struct Table<K, V, const LISTS: usize> {
    slots: Vec<Slot<K, V>>,
    /// The slots without an entry.
    free: Vec<u32>,
    places: HashMap<K, u32>,
    lists: [Tips; LISTS],
}

struct Slot<K, V> {
    key: K,
    value: V,
    last_ns: u64,
    list: usize,
    newer: u32,
    older: u32,
}

/// The two tips of a list.
#[derive(Clone, Copy)]
struct Tips {
    newest: u32,
    oldest: u32,
}

impl<K: Copy + Eq + Hash, V: Default, const LISTS: usize> Table<K, V, LISTS> {
    pub(crate) fn new() -> Self {
        let empty = Tips { newest: NONE, oldest: NONE };
        Self { slots: Vec::new(), free: Vec::new(), places: HashMap::new(), lists: [empty; LISTS] }
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn find(&self, key: &K) -> Option<u32> {
        self.places.get(key).copied()
    }

    pub(crate) fn key(&self, place: u32) -> &K {
        &self.slots[place as usize].key
    }

    pub(crate) fn get(&self, place: u32) -> &V {
        &self.slots[place as usize].value
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> &mut V {
        &mut self.slots[place as usize].value
    }

    /// The entry of a list that was used least recently, and when.
    pub(crate) fn oldest(&self, list: usize) -> Option<(u32, u64)> {
        let place = self.lists[list].oldest;
        (place != NONE).then(|| (place, self.slots[place as usize].last_ns))
    }

    /// Adds an entry, whose key must be new, as the newest of a list. Returns its place, which it keeps.
    pub(crate) fn insert(&mut self, key: K, value: V, list: usize, now_ns: u64) -> u32 {
        let slot = Slot { key, value, last_ns: now_ns, list, newer: NONE, older: NONE };
        let place = self.free.pop();
        let place = place.unwrap_or_else(|| u32::try_from(self.slots.len()).expect("places have 32 bits"));
        if let Some(freed) = self.slots.get_mut(place as usize) {
            *freed = slot;
        } else {
            self.slots.push(slot);
        }
        self.places.insert(key, place);
        self.link(place);
        place
    }

    /// Makes an entry the newest of a list.
    pub(crate) fn touch(&mut self, place: u32, list: usize, now_ns: u64) {
        self.unlink(place);
        let slot = &mut self.slots[place as usize];
        slot.list = list;
        slot.last_ns = now_ns;
        self.link(place);
    }

    pub(crate) fn remove(&mut self, place: u32) -> (K, V) {
        self.unlink(place);
        let slot = &mut self.slots[place as usize];
        let (key, value) = (slot.key, std::mem::take(&mut slot.value));
        self.places.remove(&key);
        self.free.push(place);
        (key, value)
    }

    fn link(&mut self, place: u32) {
        let list = self.slots[place as usize].list;
        let older = self.lists[list].newest;
        let slot = &mut self.slots[place as usize];
        slot.older = older;
        slot.newer = NONE;
        match older {
            NONE => self.lists[list].oldest = place,
            older => self.slots[older as usize].newer = place,
        }
        self.lists[list].newest = place;
    }

    fn unlink(&mut self, place: u32) {
        let Slot { list, newer, older, .. } = self.slots[place as usize];
        match newer {
            NONE => self.lists[list].newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.lists[list].oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entry_is_the_one_used_least_recently() {
        let mut table: Table<u8, u8, 2> = Table::new();
        let places: Vec<u32> = (0..4).map(|key| table.insert(key, key, 0, key.into())).collect();
        assert_eq!(table.oldest(0), Some((places[0], 0)));
        table.touch(places[0], 0, 4);
        table.touch(places[1], 1, 5);
        assert_eq!(table.oldest(0), Some((places[2], 2)));
        assert_eq!(table.oldest(1), Some((places[1], 5)));
        assert_eq!(table.remove(places[2]), (2, 2));
        assert_eq!((table.find(&2), table.find(&3), table.len()), (None, Some(places[3]), 3));
        assert_eq!(table.insert(9, 9, 0, 6), places[2]);
        for expected in [3, 0, 9] {
            let (place, _) = table.oldest(0).expect("an entry");
            assert_eq!(*table.key(place), expected);
            table.remove(place);
        }
        assert_eq!((table.oldest(0), table.len()), (None, 1));
    }
}
