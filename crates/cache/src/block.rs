//! The block of an entry: a head of 24 bytes, the name, the places of the TTLs, and the records as they are sent. A
//! block is a row of bytes in the arena, so an entry has no pointers and no allocation of its own.

use crate::key::{Key, Kind};

/// Blocks begin at multiples of this many bytes.
pub(crate) const UNIT_BYTES: usize = 8;

/// The longest block in bytes, whose length is kept in units.
const BLOCK_BYTES_MOST: usize = u16::MAX as usize * UNIT_BYTES;

const HEAD_BYTES: usize = 24;
/// The positions of the head's fields. Numbers are little-endian.
const UNITS: usize = 0;
const USAGE: usize = 2;
const FLAGS: usize = 3;
const STORED_S: usize = 4;
const TTL_S: usize = 8;
const RTYPE: usize = 12;
const CLASS: usize = 14;
const ANSWERS: usize = 16;
const AUTHORITIES: usize = 18;
const RECORDS_BYTES: usize = 20;
const OUTCOME: usize = 22;
const NAME_BYTES: usize = 23;

/// The bytes of a TTL's place.
const PLACE_BYTES: usize = 2;

/// The bits of an outcome: the rcode, and whether the upstream server set AD.
const RCODE: u8 = 0x0f;
const AUTHENTIC: u8 = 0x10;

/// The highest frequency.
const FREQUENCY_MOST: u8 = 3;

/// How an entry was used since it was put in: the byte that changes by hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage(u8);

impl Usage {
    const PREFETCHED: u8 = 4;
    const DEAD: u8 = 0x80;

    /// Not used yet.
    pub(crate) const NEW: Self = Self(0);
    /// The entry is gone, and its block is passed over.
    pub(crate) const GONE: Self = Self(Self::DEAD);

    /// The number of hits since the policy last looked, at most 3.
    pub(crate) fn frequency(self) -> u8 {
        self.0 & FREQUENCY_MOST
    }

    pub(crate) fn is_gone(self) -> bool {
        self.0 & Self::DEAD != 0
    }

    /// Whether a hit has asked for the answer to be fetched anew.
    pub(crate) fn is_prefetched(self) -> bool {
        self.0 & Self::PREFETCHED != 0
    }

    /// The usage after one more hit.
    pub(crate) fn hit(self) -> Self {
        if self.frequency() < FREQUENCY_MOST { Self(self.0 + 1) } else { self }
    }

    pub(crate) fn prefetched(self) -> Self {
        Self(self.0 | Self::PREFETCHED)
    }

    /// The usage as if no hit had asked for the answer to be fetched anew.
    pub(crate) fn not_prefetched(self) -> Self {
        Self(self.0 & !Self::PREFETCHED)
    }

    /// The usage with another frequency, at most 3.
    pub(crate) fn with_frequency(self, frequency: u8) -> Self {
        Self(self.0 & !FREQUENCY_MOST | frequency)
    }
}

/// A view of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'a> {
    head: &'a [u8; HEAD_BYTES],
    /// Begins with the rest of the block.
    rest: &'a [u8],
}

impl<'a> Block<'a> {
    /// The block at this address of the arena.
    #[inline]
    pub(crate) fn at(arena: &'a [u8], address: usize) -> Self {
        let (head, rest) = arena[address..].split_first_chunk().expect("blocks are whole");
        Self { head, rest }
    }

    /// The length of the block in bytes.
    pub(crate) fn bytes(self) -> usize {
        usize::from(self.word(UNITS)) * UNIT_BYTES
    }

    pub(crate) fn usage(self) -> Usage {
        Usage(self.head[USAGE])
    }

    pub(crate) fn flags(self) -> u8 {
        self.head[FLAGS]
    }

    pub(crate) fn rtype(self) -> u16 {
        self.word(RTYPE)
    }

    pub(crate) fn class(self) -> u16 {
        self.word(CLASS)
    }

    /// The time since the entry was put in, in seconds; 0 if the clock went back.
    #[inline]
    pub(crate) fn age_s(self, now_s: u32) -> u32 {
        let age_s = now_s.wrapping_sub(self.long(STORED_S));
        if age_s > i32::MAX.unsigned_abs() { 0 } else { age_s }
    }

    /// The TTL of the entry, in seconds.
    pub(crate) fn ttl_s(self) -> u32 {
        self.long(TTL_S)
    }

    /// Whether the TTL has not ended.
    #[inline]
    pub(crate) fn is_fresh(self, now_s: u32) -> bool {
        self.age_s(now_s) < self.ttl_s()
    }

    /// Whether the TTL ended at most this many seconds ago, or has not ended.
    pub(crate) fn is_within(self, stale_s: u32, now_s: u32) -> bool {
        self.age_s(now_s) < self.ttl_s().saturating_add(stale_s)
    }

    pub(crate) fn rcode(self) -> u8 {
        self.head[OUTCOME] & RCODE
    }

    /// Whether the upstream server said that it had validated the reply.
    pub(crate) fn is_authentic(self) -> bool {
        self.head[OUTCOME] & AUTHENTIC != 0
    }

    /// The numbers of answer and authority records.
    pub(crate) fn counts(self) -> [u16; 2] {
        [self.word(ANSWERS), self.word(AUTHORITIES)]
    }

    pub(crate) fn name(self) -> &'a [u8] {
        &self.rest[..usize::from(self.head[NAME_BYTES])]
    }

    /// The positions of the TTLs in the records.
    #[inline]
    pub(crate) fn ttl_places(self) -> impl Iterator<Item = usize> + 'a {
        let (places, _) = self.rest[self.name().len()..self.records_at()].as_chunks::<PLACE_BYTES>();
        places.iter().map(|&place| usize::from(u16::from_le_bytes(place)))
    }

    /// The records, as they follow the question.
    #[inline]
    pub(crate) fn records(self) -> &'a [u8] {
        let at = self.records_at();
        &self.rest[at..at + usize::from(self.word(RECORDS_BYTES))]
    }

    fn records_at(self) -> usize {
        let [answers, authorities] = self.counts().map(usize::from);
        usize::from(self.head[NAME_BYTES]) + (answers + authorities) * PLACE_BYTES
    }

    /// Whether this is the block of such an entry.
    #[inline]
    pub(crate) fn is_of(self, key: &Key, kind: Kind) -> bool {
        self.flags() == key.flags_of(kind)
            && self.rtype() == key.rtype_of(kind)
            && self.class() == key.class
            && self.name() == key.name()
    }

    fn word(self, at: usize) -> u16 {
        u16::from_le_bytes([self.head[at], self.head[at + 1]])
    }

    fn long(self, at: usize) -> u32 {
        u32::from_le_bytes([self.head[at], self.head[at + 1], self.head[at + 2], self.head[at + 3]])
    }
}

/// Sets the usage of the block at this address.
pub(crate) fn set_usage(arena: &mut [u8], address: usize, usage: Usage) {
    arena[address + USAGE] = usage.0;
}

/// The bits of a reply that a block keeps of its header: the rcode, at most 15, and AD.
pub(crate) fn outcome(rcode: u16, is_authentic: bool) -> u8 {
    let [low, _] = rcode.to_le_bytes();
    low & RCODE | if is_authentic { AUTHENTIC } else { 0 }
}

/// The content from which a block is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content<'c> {
    pub(crate) key: &'c Key,
    pub(crate) kind: Kind,
    pub(crate) stored_s: u32,
    pub(crate) ttl_s: u32,
    /// See [`outcome`].
    pub(crate) outcome: u8,
    /// The numbers of answer and authority records. Each has a place.
    pub(crate) counts: [u16; 2],
    /// The positions of the TTLs in the records.
    pub(crate) ttl_places: &'c [u16],
    pub(crate) records: &'c [u8],
}

impl Content<'_> {
    /// The length of the block in bytes; `None` if it is too long for a block.
    pub(crate) fn bytes(&self) -> Option<usize> {
        let places_bytes = self.ttl_places.len() * PLACE_BYTES;
        let bytes = HEAD_BYTES + self.key.name().len() + places_bytes + self.records.len();
        Some(bytes.next_multiple_of(UNIT_BYTES)).filter(|&bytes| bytes <= BLOCK_BYTES_MOST)
    }

    /// Writes the block to these bytes, which may be more than it needs, and are a multiple of the unit.
    pub(crate) fn write(&self, block: &mut [u8], usage: Usage) {
        let (key, kind) = (self.key, self.kind);
        let units = u16::try_from(block.len() / UNIT_BYTES).expect("a block has 65,535 units at most");
        let records_bytes = u16::try_from(self.records.len()).expect("a message has 65,535 bytes at most");
        let name_bytes = u8::try_from(key.name().len()).expect("a name has 255 bytes at most");
        let (head, mut rest) = block.split_at_mut(HEAD_BYTES);
        head[UNITS..USAGE].copy_from_slice(&units.to_le_bytes());
        head[USAGE] = usage.0;
        head[FLAGS] = key.flags_of(kind);
        head[STORED_S..TTL_S].copy_from_slice(&self.stored_s.to_le_bytes());
        head[TTL_S..RTYPE].copy_from_slice(&self.ttl_s.to_le_bytes());
        head[RTYPE..CLASS].copy_from_slice(&key.rtype_of(kind).to_le_bytes());
        head[CLASS..ANSWERS].copy_from_slice(&key.class.to_le_bytes());
        head[ANSWERS..AUTHORITIES].copy_from_slice(&self.counts[0].to_le_bytes());
        head[AUTHORITIES..RECORDS_BYTES].copy_from_slice(&self.counts[1].to_le_bytes());
        head[RECORDS_BYTES..OUTCOME].copy_from_slice(&records_bytes.to_le_bytes());
        head[OUTCOME] = self.outcome;
        head[NAME_BYTES] = name_bytes;
        rest = put(rest, key.name());
        for place in self.ttl_places {
            rest = put(rest, &place.to_le_bytes());
        }
        put(rest, self.records);
    }
}

/// Writes bytes to the front of others, and returns those behind.
fn put<'b>(out: &'b mut [u8], bytes: &[u8]) -> &'b mut [u8] {
    let (front, behind) = out.split_at_mut(bytes.len());
    front.copy_from_slice(bytes);
    behind
}

#[cfg(test)]
mod tests {
    use siphasher::sip::SipHasher13;

    use super::*;
    use crate::key::Question;

    #[test]
    fn a_block_is_read_as_it_was_written() {
        let question =
            Question { name: b"\x03Www\0", rtype: 28, class: 1, dnssec_ok: true, checking_disabled: false };
        let key = Key::from_question(&question, &SipHasher13::new()).unwrap();
        let content = Content {
            key: &key,
            kind: Kind::Data,
            stored_s: 1_000,
            ttl_s: 60,
            outcome: outcome(3, true),
            counts: [1, 2],
            ttl_places: &[6, 300, 65_000],
            records: b"records",
        };
        let bytes = content.bytes().unwrap();
        assert_eq!(bytes, 48, "24 + 5 + 6 + 7, and up to a multiple of 8");
        let mut arena = vec![0xff; 16 + bytes];
        content.write(&mut arena[8..8 + bytes], Usage::NEW.hit());
        assert!(arena[..8].iter().chain(&arena[8 + bytes..]).all(|&byte| byte == 0xff));
        let block = Block::at(&arena, 8);
        assert_eq!((block.bytes(), block.ttl_s(), block.counts()), (bytes, 60, [1, 2]));
        assert_eq!((block.name(), block.records()), (&b"\x03www\0"[..], &b"records"[..]));
        assert_eq!(block.ttl_places().collect::<Vec<_>>(), [6, 300, 65_000]);
        assert!(block.rcode() == 3 && block.is_authentic() && block.usage().frequency() == 1);
        assert!(block.is_of(&key, Kind::Data) && !block.is_of(&key, Kind::NameError));
    }

    #[test]
    fn a_clock_that_goes_back_makes_nothing_older() {
        let mut arena = vec![0; HEAD_BYTES];
        arena[STORED_S..TTL_S].copy_from_slice(&u32::MAX.to_le_bytes());
        let block = Block::at(&arena, 0);
        assert_eq!(block.age_s(u32::MAX - 1), 0);
        assert_eq!(block.age_s(u32::MAX), 0);
        // The seconds of 2106 begin at 0 again.
        assert_eq!(block.age_s(9), 10);
    }

    #[test]
    fn a_frequency_ends_at_three() {
        let mut usage = Usage::NEW.prefetched();
        for frequency in [1, 2, 3, 3] {
            usage = usage.hit();
            assert_eq!(usage.frequency(), frequency);
        }
        assert!(usage.is_prefetched() && !usage.is_gone());
        assert_eq!(usage.with_frequency(1), Usage::NEW.prefetched().hit());
    }
}
