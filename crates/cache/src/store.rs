//! The entries in memory, and which of them are dropped: S3-FIFO (Yang et al., "FIFO queues are all you need for cache
//! eviction", SOSP 2023). A new entry goes to a small queue. If it is used there at least twice, it moves to the main
//! queue; otherwise it is dropped, and the ghost remembers it. An entry that comes back while the ghost knows it goes
//! to the main queue at once. There it moves to the end as often as it was used, up to three times. So entries that are
//! used once, as in a scan or a random-subdomain attack, pass through a tenth of the memory.

use std::ops::Range;

use siphasher::sip::SipHasher13;

use crate::arena::Arena;
use crate::block::{self, Block, Content, Usage};
use crate::ghost::Ghost;
use crate::index::{Index, PAGE_BYTES, Tag};
use crate::key::{self, Key, Kind};
use crate::queue::Queue;

/// The small queue is read first while it has more than one in this many segments.
const SMALL_SHARE: usize = 10;

/// An entry of the small queue that was used this often moves to the main queue.
const USED_TO_STAY: u8 = 2;

/// The ghost's share of the segments, one in this many. With 64 bytes to an entry, it remembers as many as there are.
const GHOST_SHARE: u32 = 32;

/// The directory of the index takes at most one in this many bytes.
const DIRECTORY_SHARE: u64 = 256;

/// The number of segments that are made free before they are needed, and of blocks that each put passes to that end.
const FREE_SEGMENTS: usize = 2;
const STEPS_AHEAD: usize = 16;

pub(crate) struct Store {
    arena: Arena,
    index: Index,
    ghost: Ghost,
    small: Queue,
    main: Queue,
    hasher: SipHasher13,
    /// The time after its TTL for which an entry is worth keeping, in seconds.
    stale_most_s: u32,
    /// The number of entries of each kind.
    entries: [u64; Kind::COUNT],
    pub(crate) evicted: u64,
    pub(crate) expired: u64,
}

impl Store {
    /// An empty store in at most this much memory. The hasher is the one that makes the keys.
    pub(crate) fn new(memory_bytes: u64, hasher: SipHasher13, stale_most_s: u32) -> Self {
        let mut arena = Arena::new(memory_bytes);
        let segment_bits = arena.segment_bits();
        let ghost_segments = arena.segments().div_ceil(GHOST_SHARE);
        for _ in 0..ghost_segments {
            arena.take();
        }
        let ghost = Ghost::new((ghost_segments as usize) << segment_bits);
        let of_index = arena.take().expect("an arena has segments for all");
        let directory_bytes_most = (arena.bytes.len() as u64) / DIRECTORY_SHARE;
        let index = Index::new(pages(of_index, segment_bits), directory_bytes_most);
        Self {
            arena,
            index,
            ghost,
            small: Queue::new(segment_bits),
            main: Queue::new(segment_bits),
            hasher,
            stale_most_s,
            entries: [0; Kind::COUNT],
            evicted: 0,
            expired: 0,
        }
    }

    /// The address of the block of an entry, which is valid until the next [`Self::put`].
    #[inline]
    pub(crate) fn find(&self, key: &Key, kind: Kind) -> Option<usize> {
        if self.entries[kind as usize] == 0 {
            return None;
        }
        let arena = &self.arena.bytes;
        let is_it = |address| Block::at(arena, address).is_of(key, kind);
        self.index.find(arena, Tag::from_hash(key.hash(kind)), is_it)
    }

    /// The block at this address.
    #[inline]
    pub(crate) fn block(&self, address: usize) -> Block<'_> {
        Block::at(&self.arena.bytes, address)
    }

    /// Sets the usage of an entry.
    pub(crate) fn set_usage(&mut self, address: usize, usage: Usage) {
        block::set_usage(&mut self.arena.bytes, address, usage);
    }

    /// Removes an entry, if there is one.
    pub(crate) fn remove(&mut self, key: &Key, kind: Kind) {
        if let Some(address) = self.find(key, kind) {
            self.index.remove(&mut self.arena.bytes, Tag::from_hash(key.hash(kind)), address);
            self.set_usage(address, Usage::GONE);
            self.entries[kind as usize] -= 1;
        }
    }

    /// Puts an entry in, in place of the one with its key and kind. Returns false and keeps nothing of this key and
    /// kind if it is too long.
    pub(crate) fn put(&mut self, content: &Content<'_>) -> bool {
        let (key, kind, now_s) = (content.key, content.kind, content.stored_s);
        let known = self.find(key, kind);
        let segment_bytes = 1 << self.arena.segment_bits();
        let Some(bytes) = content.bytes().filter(|&bytes| bytes <= segment_bytes) else {
            self.remove(key, kind);
            return false;
        };
        if let Some(address) = known {
            let old = self.block(address);
            let (old_bytes, frequency) = (old.bytes(), old.usage().frequency());
            if (bytes..=2 * bytes).contains(&old_bytes) {
                let usage = Usage::NEW.with_frequency(frequency);
                content.write(&mut self.arena.bytes[address..address + old_bytes], usage);
                return true;
            }
            self.remove(key, kind);
        }
        let hash = key.hash(kind);
        let tag = Tag::from_hash(hash);
        if !self.make_room_in_index(tag, now_s) {
            return false;
        }
        let is_known = known.is_some() || self.ghost.take(&mut self.arena.bytes, hash);
        let Some(address) = self.place(is_known, bytes, now_s) else { return false };
        content.write(&mut self.arena.bytes[address..address + bytes], Usage::NEW);
        self.index.insert(&mut self.arena.bytes, tag, address);
        self.entries[kind as usize] += 1;
        self.work_ahead(now_s);
        true
    }

    /// The number of entries.
    pub(crate) fn entries(&self) -> u64 {
        self.entries.iter().sum()
    }

    /// The memory in use, in bytes. What was in use once stays so.
    pub(crate) fn memory_bytes(&self) -> usize {
        let lists_bytes = self.small.list_bytes() + self.main.list_bytes() + self.index.directory_bytes();
        self.arena.touched_bytes() - self.ghost.untouched_bytes() + lists_bytes
    }

    /// Splits pages of the index until an entry with this tag can be inserted. Returns false if that is impossible.
    fn make_room_in_index(&mut self, tag: Tag, now_s: u32) -> bool {
        while !self.index.has_room(&self.arena.bytes, tag) {
            if self.index.needs_pages() {
                let Some(segment) = self.segment(now_s) else { return false };
                self.index.give(pages(segment, self.arena.segment_bits()));
            } else if !self.index.split(&mut self.arena.bytes, tag) {
                return false;
            }
        }
        true
    }

    /// The address for a new block of this many bytes, at most a segment. Makes room if there is none.
    fn place(&mut self, in_main: bool, bytes: usize, now_s: u32) -> Option<usize> {
        if !self.queue(in_main).has_room(bytes) {
            let segment = self.segment(now_s)?;
            // Blocks that moved meanwhile may have added a segment to the main queue.
            if self.queue(in_main).has_room(bytes) {
                self.arena.give(segment);
            } else {
                self.queue(in_main).add(segment);
            }
        }
        self.queue(in_main).place(bytes)
    }

    fn queue(&mut self, is_main: bool) -> &mut Queue {
        if is_main { &mut self.main } else { &mut self.small }
    }

    /// A free segment. Drops entries until there is one. `None` if there are no entries any more.
    fn segment(&mut self, now_s: u32) -> Option<u32> {
        loop {
            if let Some(segment) = self.arena.take() {
                return Some(segment);
            }
            if !self.step(now_s) {
                return None;
            }
        }
    }

    /// Passes some blocks if few segments are free, so that no later put has to pass a whole segment at once.
    fn work_ahead(&mut self, now_s: u32) {
        for _ in 0..STEPS_AHEAD {
            if self.arena.free() >= FREE_SEGMENTS || !self.step(now_s) {
                return;
            }
        }
    }

    /// Passes the oldest block of a queue, or frees the segment if all its blocks were passed. Returns false if both
    /// queues are empty.
    fn step(&mut self, now_s: u32) -> bool {
        let (small, main) = (self.small.segments(), self.main.segments());
        let is_small = small > 0 && (main == 0 || small * SMALL_SHARE > small + main);
        let queue = self.queue(!is_small);
        let Some(address) = queue.oldest() else {
            let Some(segment) = queue.remove_oldest() else { return false };
            self.arena.give(segment);
            return true;
        };
        let bytes = self.block(address).bytes();
        self.queue(!is_small).pass(bytes);
        if !self.block(address).usage().is_gone() {
            self.decide(address, bytes, is_small, now_s);
        }
        true
    }

    /// Moves a block that was passed to the end of the main queue, or drops it.
    fn decide(&mut self, address: usize, bytes: usize, is_small: bool, now_s: u32) {
        let block = self.block(address);
        let (flags, usage) = (block.flags(), block.usage());
        let hash = key::hash_of(&self.hasher, block.name(), block.rtype(), block.class(), flags);
        let is_of_use = block.is_within(self.stale_most_s, now_s);
        let frequency = usage.frequency();
        let is_used = if is_small { frequency >= USED_TO_STAY } else { frequency > 0 };
        if is_of_use
            && is_used
            && let Some(to) = self.place_in_main(bytes)
        {
            let frequency = if is_small { 0 } else { frequency - 1 };
            self.arena.bytes.copy_within(address..address + bytes, to);
            self.set_usage(to, usage.with_frequency(frequency));
            self.index.replace(&mut self.arena.bytes, Tag::from_hash(hash), address, to);
            return;
        }
        self.index.remove(&mut self.arena.bytes, Tag::from_hash(hash), address);
        self.entries[Kind::from_flags(flags) as usize] -= 1;
        if !is_of_use {
            self.expired += 1;
            return;
        }
        self.evicted += 1;
        if is_small {
            self.ghost.add(&mut self.arena.bytes, hash);
        }
    }

    /// The address for a block that moves to the main queue; `None` if there is no room, since this drops nothing.
    fn place_in_main(&mut self, bytes: usize) -> Option<usize> {
        if !self.main.has_room(bytes) {
            let segment = self.arena.take()?;
            self.main.add(segment);
        }
        self.main.place(bytes)
    }
}

/// The numbers of the pages in a segment.
fn pages(segment: u32, segment_bits: u32) -> Range<u32> {
    let pages = 1_u32 << (segment_bits - PAGE_BYTES.ilog2());
    segment * pages..(segment + 1) * pages
}
