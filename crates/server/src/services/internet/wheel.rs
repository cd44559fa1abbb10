//! A timing wheel: it returns each entry at its time, in a constant number of steps however many entries wait.
//!
//! A tick is 8.192 µs. The wheel proper has a slot for each of the next 65,536 ticks, which is 537 ms. Entries that are
//! due later wait in one of 256 coarse slots, each as long as the whole wheel, and move when their stretch begins; so none
//! waits longer than 137 s. A map of occupied slots finds the next one without a look at empty slots. Entries are numbers
//! that the caller gives, and the memory is allocated once.

/// The length of a tick as a power of two, nanoseconds.
const TICK_BITS: u32 = 13;

/// The number of slots as a power of two.
const SLOT_BITS: u32 = 16;
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;

/// The number of coarse slots.
const BLOCKS: u64 = 256;

const WORDS: usize = SLOTS / 64;

/// The end of a list, and an empty list.
const NONE: u32 = u32::MAX;

pub(super) struct Wheel {
    /// The first tick that has not been looked at.
    current: u64,
    /// The list of each slot, last entry first.
    slots: Box<[u32]>,
    /// The list of each coarse slot.
    blocks: Box<[u32]>,
    /// A bit for each slot that has entries, and a bit for each word that is not 0.
    occupied: Box<[u64]>,
    words: [u64; WORDS / 64],
    /// Entries in coarse slots.
    far: usize,
    /// For each entry, the next of its list.
    next: Box<[u32]>,
    /// For each entry, its tick.
    ticks: Box<[u64]>,
}

impl Wheel {
    /// A wheel for entries `0..entries`, without any, that begins at this time.
    pub(super) fn new(entries: usize, now_ns: u64) -> Self {
        Self {
            current: now_ns >> TICK_BITS,
            slots: vec![NONE; SLOTS].into(),
            blocks: vec![NONE; BLOCKS as usize].into(),
            occupied: vec![0; WORDS].into(),
            words: [0; WORDS / 64],
            far: 0,
            // Zeros, whose pages the system provides when they are used first.
            next: vec![0; entries].into(),
            ticks: vec![0; entries].into(),
        }
    }

    /// Adds an entry that is not in the wheel. [`Self::expire`] returns it at this time or up to a tick later, and never
    /// before.
    pub(super) fn insert(&mut self, entry: u32, due_ns: u64) {
        let latest = ((self.current >> SLOT_BITS) + BLOCKS - 1) << SLOT_BITS;
        let tick = due_ns.div_ceil(1 << TICK_BITS).clamp(self.current, latest);
        self.ticks[entry as usize] = tick;
        if tick - self.current < SLOTS as u64 {
            self.link(entry, tick);
        } else {
            let block = &mut self.blocks[(tick >> SLOT_BITS & (BLOCKS - 1)) as usize];
            self.next[entry as usize] = *block;
            *block = entry;
            self.far += 1;
        }
    }

    fn link(&mut self, entry: u32, tick: u64) {
        let slot = (tick & SLOT_MASK) as usize;
        self.next[entry as usize] = self.slots[slot];
        self.slots[slot] = entry;
        self.occupied[slot / 64] |= 1 << (slot % 64);
        self.words[slot / 4096] |= 1 << (slot / 64 % 64);
    }

    /// Calls `each` with every entry that is due at this time, in the order of their ticks. Within a tick they come in the
    /// order in which they were added, except that some which waited in a coarse slot come after others.
    pub(super) fn expire(&mut self, now_ns: u64, mut each: impl FnMut(u32)) {
        let now = now_ns >> TICK_BITS;
        while self.current <= now {
            let end = now.min(self.current | SLOT_MASK);
            while let Some(slot) = self.occupied_from((self.current & SLOT_MASK) as usize)
                && slot <= (end & SLOT_MASK) as usize
            {
                let list = self.take(slot);
                self.each_in_order(list, &mut each);
            }
            self.current = end + 1;
            if self.current & SLOT_MASK == 0 && self.far > 0 {
                self.unfold();
            }
        }
    }

    /// The time of the next entry, or an earlier one at which entries of a coarse slot move, in nanoseconds; `None` if no
    /// entry waits.
    pub(super) fn next_ns(&self) -> Option<u64> {
        let here = (self.current & SLOT_MASK) as usize;
        let ahead = self.occupied_from(here).map(|slot| slot - here);
        let behind = || self.occupied_from(0).map(|slot| SLOTS - here + slot);
        let near = ahead.or_else(behind).map(|ticks| self.current + ticks as u64);
        let boundary = (self.far > 0).then_some((self.current | SLOT_MASK) + 1);
        near.into_iter().chain(boundary).min().map(|tick| tick << TICK_BITS)
    }

    /// Empties a slot. Returns its list.
    fn take(&mut self, slot: usize) -> u32 {
        let word = &mut self.occupied[slot / 64];
        *word &= !(1 << (slot % 64));
        if *word == 0 {
            self.words[slot / 4096] &= !(1 << (slot / 64 % 64));
        }
        std::mem::replace(&mut self.slots[slot], NONE)
    }

    /// Moves the entries of the coarse slot that begins now into slots of their own.
    fn unfold(&mut self) {
        let block = (self.current >> SLOT_BITS & (BLOCKS - 1)) as usize;
        let list = std::mem::replace(&mut self.blocks[block], NONE);
        let mut entry = self.reversed(list);
        while entry != NONE {
            let next = self.next[entry as usize];
            self.link(entry, self.ticks[entry as usize]);
            self.far -= 1;
            entry = next;
        }
    }

    /// Calls `each` with the entries of a list, first entry first.
    fn each_in_order(&mut self, list: u32, each: &mut impl FnMut(u32)) {
        let mut entry = self.reversed(list);
        while entry != NONE {
            let next = self.next[entry as usize];
            each(entry);
            entry = next;
        }
    }

    /// Reverses a list in its place.
    fn reversed(&mut self, mut list: u32) -> u32 {
        let mut turned = NONE;
        while list != NONE {
            let next = std::mem::replace(&mut self.next[list as usize], turned);
            turned = std::mem::replace(&mut list, next);
        }
        turned
    }

    /// The first slot from this one on that has entries.
    fn occupied_from(&self, slot: usize) -> Option<usize> {
        let word = slot / 64;
        let bits = self.occupied[word] & u64::MAX << (slot % 64);
        if bits != 0 {
            return Some(word * 64 + bits.trailing_zeros() as usize);
        }
        let after = word + 1;
        (after / 64..self.words.len()).find_map(|group| {
            let wanted = if group == after / 64 { u64::MAX << (after % 64) } else { u64::MAX };
            let bits = self.words[group] & wanted;
            (bits != 0).then(|| {
                let word = group * 64 + bits.trailing_zeros() as usize;
                word * 64 + self.occupied[word].trailing_zeros() as usize
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const TICK_NS: u64 = 1 << TICK_BITS;

    fn expired(wheel: &mut Wheel, now_ns: u64) -> Vec<u32> {
        let mut entries = Vec::new();
        wheel.expire(now_ns, |entry| entries.push(entry));
        entries
    }

    #[test]
    fn nothing_is_early_and_nothing_later_than_a_tick() {
        // Times around the ends of ticks, of the wheel and of coarse slots, from a begin that is none of these.
        let begin_ns = 123_456_789_012;
        let wheel_ns = TICK_NS << SLOT_BITS;
        for delay_ns in [0, 1, TICK_NS, 1_000_000, wheel_ns - 1, wheel_ns, wheel_ns + 1, 3 * wheel_ns + 77] {
            let mut wheel = Wheel::new(1, begin_ns);
            let due_ns = begin_ns + delay_ns;
            wheel.insert(0, due_ns);
            assert!(wheel.next_ns().unwrap() <= due_ns + TICK_NS, "{delay_ns}");
            if delay_ns > 0 {
                assert_eq!(expired(&mut wheel, due_ns - 1), [0; 0], "{delay_ns}");
            }
            assert_eq!(expired(&mut wheel, due_ns + TICK_NS), [0], "{delay_ns}");
            assert_eq!(wheel.next_ns(), None);
        }
    }

    #[test]
    fn entries_of_one_time_keep_their_order() {
        let mut wheel = Wheel::new(4, 0);
        for entry in 0..4 {
            wheel.insert(entry, 5 * TICK_NS);
        }
        assert_eq!(expired(&mut wheel, 5 * TICK_NS), [0, 1, 2, 3]);
        // Also those that waited in a coarse slot, and those that come when it has begun.
        let far_ns = ((3 * TICK_NS) << SLOT_BITS) + 9 * TICK_NS;
        wheel.insert(2, far_ns);
        wheel.insert(1, far_ns);
        assert_eq!(expired(&mut wheel, far_ns - TICK_NS), [0; 0]);
        wheel.insert(0, far_ns);
        assert_eq!(expired(&mut wheel, far_ns), [2, 1, 0]);
    }

    #[test]
    fn it_agrees_with_a_sorted_list() {
        const ENTRIES: u32 = 1000;
        let mut state = 7_u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut now_ns = 1_000_000;
        let mut wheel = Wheel::new(ENTRIES as usize, now_ns);
        let mut model: Vec<(u64, u64, u32)> = Vec::new();
        let mut free: Vec<u32> = (0..ENTRIES).collect();
        for round in 0..5_000 {
            if let Some(entry) = free.pop_if(|_| random(3) > 0) {
                let most_ns = if random(10) == 0 { 2_000_000_000 } else { 5_000_000 };
                let due_ns = now_ns + random(most_ns);
                wheel.insert(entry, due_ns);
                model.push((due_ns.div_ceil(TICK_NS), round, entry));
            }
            now_ns += random(30_000) + if random(500) == 0 { 700_000_000 } else { 0 };
            let now = now_ns / TICK_NS;
            model.sort_unstable();
            let due = model.partition_point(|(tick, ..)| *tick <= now);
            let tick_of: BTreeMap<u32, u64> = model.iter().map(|(tick, _, entry)| (*entry, *tick)).collect();
            let mut expected: Vec<u32> = model.drain(..due).map(|(.., entry)| entry).collect();
            let mut found = expired(&mut wheel, now_ns);
            assert!(found.is_sorted_by_key(|entry| tick_of[entry]), "round {round}");
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "round {round}");
            free.extend(expected);
            let next = model.iter().map(|(tick, ..)| tick * TICK_NS).min();
            assert_eq!(wheel.next_ns().is_some(), next.is_some());
            assert!(next.is_none_or(|next_ns| wheel.next_ns().unwrap() <= next_ns));
        }
    }

    #[test]
    fn a_delay_beyond_all_slots_is_cut() {
        let mut wheel = Wheel::new(1, 0);
        wheel.insert(0, u64::MAX);
        let most_ns = (BLOCKS - 1) << SLOT_BITS << TICK_BITS;
        assert_eq!(expired(&mut wheel, most_ns - 1), [0; 0]);
        assert_eq!(expired(&mut wheel, most_ns), [0]);
    }
}
