//! The index: from the hash of a key to the address of its block, by extendible hashing. The first bits of a hash
//! choose a page of the arena by way of the directory. A full page is split in two. So the index grows with the number
//! of entries, page by page, and the cache never stops to build it anew.

use std::ops::Range;

use crate::block::UNIT_BYTES;

/// The length of a page in bytes.
pub(crate) const PAGE_BYTES: usize = 4096;

const SLOT_BYTES: usize = 8;
/// A page is a header and slots. Slot 0 is the header: the number of entries, and the number of bits that all hashes of
/// the page have in common.
const SLOTS: usize = PAGE_BYTES / SLOT_BYTES;
/// A page with more entries is split.
const ENTRIES_MOST: u16 = (SLOTS * 7 / 8) as u16;
type Slots = [[u8; SLOT_BYTES]; SLOTS];

/// The part of a hash that the index uses and keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u32);

impl Tag {
    pub(crate) fn from_hash(hash: u64) -> Self {
        let [_, _, _, _, tag @ ..] = hash.to_le_bytes();
        Self(u32::from_le_bytes(tag))
    }

    /// The first `bits` bits, at most 32.
    fn first(self, bits: u32) -> usize {
        ((u64::from(self.0) << bits) >> 32) as usize
    }

    /// The slot that the tag's entry should have, by the last bits: 1 to 511.
    fn home(self) -> usize {
        1 + (((self.0 & 0xffff) as usize * (SLOTS - 1)) >> 16)
    }
}

pub(crate) struct Index {
    /// The page of every value of the first `depth` bits.
    directory: Vec<u32>,
    depth: u32,
    /// The most bits. Hashes that are spread evenly need fewer.
    depth_most: u32,
    /// Pages that are not used yet.
    spare: Range<u32>,
}

impl Index {
    /// An index with these pages, at least one, by their numbers in the arena. The first one is zero. The directory
    /// takes at most this many bytes, at least 4.
    pub(crate) fn new(pages: Range<u32>, directory_bytes_most: u64) -> Self {
        let depth_most = (directory_bytes_most / size_of::<u32>() as u64).ilog2().min(u32::BITS - 1);
        let spare = pages.start + 1..pages.end;
        Self { directory: vec![pages.start], depth: 0, depth_most, spare }
    }

    /// The address of the first entry with this tag that `is_it` accepts.
    #[inline]
    pub(crate) fn find(&self, arena: &[u8], tag: Tag, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        let slots = slots(arena, self.page(tag));
        let mut at = tag.home();
        loop {
            let (other, address) = read(slots[at])?;
            if other == tag && is_it(address) {
                return Some(address);
            }
            at = next(at);
        }
    }

    /// Whether an entry with this tag can be inserted.
    pub(crate) fn has_room(&self, arena: &[u8], tag: Tag) -> bool {
        entries(slots(arena, self.page(tag))) < ENTRIES_MOST
    }

    /// Adds an entry, for which there must be room.
    pub(crate) fn insert(&self, arena: &mut [u8], tag: Tag, address: usize) {
        insert(slots_mut(arena, self.page(tag)), tag, address);
    }

    /// Changes the address of an entry.
    pub(crate) fn replace(&self, arena: &mut [u8], tag: Tag, from: usize, to: usize) {
        let slots = slots_mut(arena, self.page(tag));
        if let Some(at) = position(slots, tag, from) {
            slots[at] = written(tag, to);
        }
    }

    /// Removes an entry. Those behind it move up, so that none is behind an empty slot.
    pub(crate) fn remove(&self, arena: &mut [u8], tag: Tag, address: usize) {
        let slots = slots_mut(arena, self.page(tag));
        let Some(mut hole) = position(slots, tag, address) else { return };
        let mut at = next(hole);
        while let Some((other, _)) = read(slots[at]) {
            if distance(other.home(), at) >= distance(hole, at) {
                slots[hole] = slots[at];
                hole = at;
            }
            at = next(at);
        }
        slots[hole] = [0; SLOT_BYTES];
        let fewer = entries(slots) - 1;
        set_entries(slots, fewer);
    }

    /// Whether a split needs new pages.
    pub(crate) fn needs_pages(&self) -> bool {
        self.spare.is_empty()
    }

    /// Gives the index pages for splits, of which it has none left.
    pub(crate) fn give(&mut self, pages: Range<u32>) {
        self.spare = pages;
    }

    /// Splits the page of this tag, for which there must be a spare page. Returns false if it cannot be split.
    pub(crate) fn split(&mut self, arena: &mut [u8], tag: Tag) -> bool {
        let page = self.page(tag);
        let old_bits = slots(arena, page)[0][2];
        let bits = u32::from(old_bits);
        if bits == self.depth && !self.double() {
            return false;
        }
        let Some(new) = self.spare.next() else { return false };
        let old = *slots(arena, page);
        for page in [page, new] {
            let slots = slots_mut(arena, page);
            *slots = [[0; SLOT_BYTES]; SLOTS];
            slots[0][2] = old_bits + 1;
        }
        // The page had all values that begin with the bits in common. The new page gets the upper half of them.
        let values = 1 << (self.depth - bits);
        let first = tag.first(bits) * values;
        self.directory[first + values / 2..first + values].fill(new);
        for (tag, address) in old[1..].iter().filter_map(|slot| read(*slot)) {
            self.insert(arena, tag, address);
        }
        true
    }

    /// Doubles the directory, unless it is as large as it may be.
    fn double(&mut self) -> bool {
        if self.depth == self.depth_most {
            return false;
        }
        let mut doubled = Vec::with_capacity(2 * self.directory.len());
        for page in &self.directory {
            doubled.extend([*page; 2]);
        }
        self.directory = doubled;
        self.depth += 1;
        true
    }

    /// The memory of the directory in bytes.
    pub(crate) fn directory_bytes(&self) -> usize {
        self.directory.capacity() * size_of::<u32>()
    }

    fn page(&self, tag: Tag) -> u32 {
        self.directory[tag.first(self.depth)]
    }
}

fn slots(arena: &[u8], page: u32) -> &Slots {
    let start = page as usize * PAGE_BYTES;
    let (slots, _) = arena[start..start + PAGE_BYTES].as_chunks::<SLOT_BYTES>();
    slots.first_chunk().expect("pages are whole")
}

fn slots_mut(arena: &mut [u8], page: u32) -> &mut Slots {
    let start = page as usize * PAGE_BYTES;
    let (slots, _) = arena[start..start + PAGE_BYTES].as_chunks_mut::<SLOT_BYTES>();
    slots.first_chunk_mut().expect("pages are whole")
}

fn entries(slots: &Slots) -> u16 {
    u16::from_le_bytes([slots[0][0], slots[0][1]])
}

fn set_entries(slots: &mut Slots, entries: u16) {
    slots[0][..2].copy_from_slice(&entries.to_le_bytes());
}

fn insert(slots: &mut Slots, tag: Tag, address: usize) {
    let mut at = tag.home();
    while read(slots[at]).is_some() {
        at = next(at);
    }
    slots[at] = written(tag, address);
    let more = entries(slots) + 1;
    set_entries(slots, more);
}

fn position(slots: &Slots, tag: Tag, address: usize) -> Option<usize> {
    let mut at = tag.home();
    loop {
        if read(slots[at])? == (tag, address) {
            return Some(at);
        }
        at = next(at);
    }
}

/// The slot after this one; the first one follows the last.
fn next(at: usize) -> usize {
    if at == SLOTS - 1 { 1 } else { at + 1 }
}

/// The number of steps from one slot to another.
fn distance(from: usize, to: usize) -> usize {
    if to >= from { to - from } else { to + SLOTS - 1 - from }
}

/// The tag and the address in a slot; `None` if it is empty.
fn read(slot: [u8; SLOT_BYTES]) -> Option<(Tag, usize)> {
    let slot = u64::from_le_bytes(slot);
    let unit = (slot & u64::from(u32::MAX)).checked_sub(1)?;
    // The upper half is the tag, as that of a hash is.
    Some((Tag::from_hash(slot), unit as usize * UNIT_BYTES))
}

fn written(tag: Tag, address: usize) -> [u8; SLOT_BYTES] {
    let unit = (address / UNIT_BYTES) as u64 + 1;
    (u64::from(tag.0) << 32 | unit).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const PAGES: u32 = 200;

    fn insert_and_split(index: &mut Index, arena: &mut [u8], tag: Tag, address: usize) {
        while !index.has_room(arena, tag) {
            assert!(index.split(arena, tag));
        }
        index.insert(arena, tag, address);
    }

    #[test]
    fn entries_are_found_until_they_are_removed() {
        let mut arena = vec![0; PAGES as usize * PAGE_BYTES];
        let mut index = Index::new(0..PAGES, 1 << 20);
        let mut random = fastrand::Rng::with_seed(32);
        let mut model: BTreeMap<usize, Tag> = BTreeMap::new();
        for round in 0..60_000 {
            let address = random.usize(0..20_000) * UNIT_BYTES;
            if let Some(tag) = model.remove(&address) {
                index.remove(&mut arena, tag, address);
                assert_eq!(index.find(&arena, tag, |found| found == address), None);
            } else {
                // Many tags are equal, and many share their home.
                let tag = Tag(random.u32(..) & if round % 3 == 0 { 0xff00_0007 } else { u32::MAX });
                insert_and_split(&mut index, &mut arena, tag, address);
                model.insert(address, tag);
            }
        }
        for (&address, &tag) in &model {
            assert_eq!(index.find(&arena, tag, |found| found == address), Some(address));
            let to = address + 160_000;
            index.replace(&mut arena, tag, address, to);
            assert_eq!(index.find(&arena, tag, |found| found == address), None);
            assert_eq!(index.find(&arena, tag, |found| found == to), Some(to));
        }
        let total: u32 = (0..index.spare.start).map(|page| u32::from(entries(slots(&arena, page)))).sum();
        assert_eq!(total as usize, model.len());
    }

    #[test]
    fn an_entry_takes_less_than_twenty_bytes() {
        let mut arena = vec![0; PAGES as usize * PAGE_BYTES];
        let mut index = Index::new(0..PAGES, 1 << 20);
        let mut random = fastrand::Rng::with_seed(1);
        for entry in 1..=50_000 {
            insert_and_split(&mut index, &mut arena, Tag(random.u32(..)), entry * UNIT_BYTES);
            let bytes = index.spare.start as usize * PAGE_BYTES + index.directory_bytes();
            assert!(entry < 5_000 || bytes < 20 * entry, "{bytes} bytes for {entry} entries");
        }
    }

    #[test]
    fn equal_hashes_end_the_growth_and_not_the_program() {
        let mut arena = vec![0; PAGES as usize * PAGE_BYTES];
        let mut index = Index::new(0..PAGES, 4 << 10);
        let tag = Tag(0x1234_5678);
        for entry in 0..usize::from(ENTRIES_MOST) {
            insert_and_split(&mut index, &mut arena, tag, entry * UNIT_BYTES);
        }
        while index.split(&mut arena, tag) {}
        assert_eq!(index.depth, 10);
        assert!(!index.has_room(&arena, tag));
        assert_eq!(index.find(&arena, tag, |found| found == 8), Some(8));
    }
}
