//! The layout of a name and its records in a part's memory, ready to be copied into replies.
//!
//! ```text
//! node     name length (1) · flags (1) · RRsets (2) · [place in the NSEC3 chain (4)] · name · RRsets · padding
//! RRset    type (2) · records (2) · their bytes, top bit: signed (4) · records
//!          [signatures (2) · their bytes (4) · signatures]
//! record   C0 0C · type · class · TTL · length of the data · data          as on the wire
//! ```
//!
//! Lengths other than those of records are little-endian. A record's owner is a pointer to the question, which
//! is right for most replies.

/// The node has NS records and is not the apex.
pub(crate) const CUT: u8 = 1;
/// The node is below a cut or a DNAME record, so it is not data of the zone; it may be glue.
pub(crate) const OCCLUDED: u8 = 2;
/// The node has a CNAME record.
pub(crate) const ALIAS: u8 = 4;
/// The node has a DNAME record.
pub(crate) const DNAME: u8 = 8;
/// A place in the NSEC3 chain stands before the name.
pub(crate) const CHAINED: u8 = 16;

/// The NSEC3 place of a name that is not in the chain.
pub(crate) const UNCHAINED: u32 = u32::MAX;

/// The bytes that a core fetches from memory at once.
const CACHE_LINE_BYTES: usize = 64;

/// Nodes begin at multiples of this.
pub(crate) const ALIGNMENT: usize = 4;

/// The position of the flags in a node.
pub(crate) const FLAGS_AT: usize = 1;
/// The position of the number of RRsets in a node.
pub(crate) const RRSETS_AT: usize = 2;
/// The bytes before a node's name, or before its place in the NSEC3 chain.
pub(crate) const FIXED_BYTES: usize = 4;
/// The bytes before an RRset's records.
pub(crate) const RRSET_BYTES: usize = 8;
/// The bytes before an RRset's signatures.
pub(crate) const SIGNATURES_BYTES: usize = 6;
/// The bit of an RRset's length that marks an RRset with signatures.
pub(crate) const SIGNED: u32 = 1 << 31;

/// The bytes of a record before its data.
pub(crate) const RECORD_BYTES: usize = 12;
/// The owner of a stored record: a pointer to the question's name.
pub(crate) const QUESTION_POINTER: [u8; 2] = [0xc0, 0x0c];

/// A name of a zone, with its RRsets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node<'z> {
    /// The bytes from the node to the end of its part's memory.
    bytes: &'z [u8],
}

impl<'z> Node<'z> {
    /// The node that begins at `at`.
    #[inline]
    pub(crate) fn at(memory: &'z [u8], at: usize) -> Self {
        Self { bytes: &memory[at..] }
    }

    #[inline]
    fn flags(self) -> u8 {
        self.bytes[FLAGS_AT]
    }

    /// Whether it has any of these flags.
    #[inline]
    pub(crate) fn is(self, flags: u8) -> bool {
        self.flags() & flags != 0
    }

    #[inline]
    fn name_at(self) -> usize {
        FIXED_BYTES + if self.is(CHAINED) { 4 } else { 0 }
    }

    /// Its name in wire form, in the case of the zone's file.
    #[inline]
    pub(crate) fn name(self) -> &'z [u8] {
        let at = self.name_at();
        &self.bytes[at..at + usize::from(self.bytes[0])]
    }

    /// A value that depends on the node's first two cache lines, so that reading it fetches all of a small
    /// node.
    #[inline]
    pub(crate) fn glance(self) -> u8 {
        self.bytes[0] ^ self.bytes.get(CACHE_LINE_BYTES).copied().unwrap_or_default()
    }

    /// Its place in the NSEC3 chain.
    pub(crate) fn chained(self) -> Option<u32> {
        let place = self.is(CHAINED).then(|| long(self.bytes, FIXED_BYTES))?;
        (place != UNCHAINED).then_some(place)
    }

    /// Its RRsets, by type.
    #[inline]
    pub(crate) fn rrsets(self) -> Rrsets<'z> {
        let rest = &self.bytes[self.name_at() + usize::from(self.bytes[0])..];
        Rrsets { rest, left: short(self.bytes, RRSETS_AT) }
    }

    /// Its RRset of a type, if that has records and not only signatures.
    #[inline]
    pub(crate) fn rrset(self, rtype: u16) -> Option<Rrset<'z>> {
        self.rrsets().find(|rrset| rrset.rtype == rtype && rrset.count > 0)
    }

    /// Whether it has no records: an empty non-terminal.
    pub(crate) fn is_empty(self) -> bool {
        short(self.bytes, RRSETS_AT) == 0
    }

    /// Its size in bytes, including padding.
    pub(crate) fn size(self) -> usize {
        let mut rrsets = self.rrsets();
        while rrsets.next().is_some() {}
        (self.bytes.len() - rrsets.rest.len()).next_multiple_of(ALIGNMENT)
    }

    /// Whether both are the same place in memory.
    pub(crate) fn is_at(self, other: Self) -> bool {
        std::ptr::eq(self.bytes, other.bytes)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Rrsets<'z> {
    rest: &'z [u8],
    left: u16,
}

impl<'z> Rrsets<'z> {
    /// The RRsets in `bytes`, of which there are `left`.
    pub(crate) fn new(bytes: &'z [u8], left: u16) -> Self {
        Self { rest: bytes, left }
    }
}

impl<'z> Iterator for Rrsets<'z> {
    type Item = Rrset<'z>;

    #[inline]
    fn next(&mut self) -> Option<Rrset<'z>> {
        self.left = self.left.checked_sub(1)?;
        let bytes = long(self.rest, 4);
        let (rtype, count) = (short(self.rest, 0), short(self.rest, 2));
        let (records, rest) = self.rest[RRSET_BYTES..].split_at((bytes & !SIGNED) as usize);
        let (mut signatures, mut signature_count) = (&[][..], 0);
        self.rest = rest;
        if bytes & SIGNED != 0 {
            signature_count = short(rest, 0);
            (signatures, self.rest) = rest[SIGNATURES_BYTES..].split_at(long(rest, 2) as usize);
        }
        Some(Rrset { rtype, count, records, signatures, signature_count })
    }
}

/// The records of one type of a name, and the RRSIG records that cover them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rrset<'z> {
    pub rtype: u16,
    /// The number of records; 0 if there are only signatures.
    pub count: u16,
    /// The records, one after the other.
    pub records: &'z [u8],
    /// The signatures, one after the other.
    pub signatures: &'z [u8],
    pub signature_count: u16,
}

impl<'z> Rrset<'z> {
    /// The data of its records.
    pub(crate) fn data(self) -> impl Iterator<Item = &'z [u8]> {
        records(self.records).map(|record| &record[RECORD_BYTES..])
    }

    /// The data of its first record; empty if there is none.
    pub(crate) fn first(self) -> &'z [u8] {
        self.data().next().unwrap_or_default()
    }

    /// The TTL of its records, seconds.
    pub(crate) fn ttl_s(self) -> u32 {
        self.records.get(6..10).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_be_bytes(*bytes))
    }
}

/// Splits adjacent records.
#[inline]
pub(crate) fn records(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let fixed: &[u8; RECORD_BYTES] = rest.first_chunk()?;
        let data_bytes = usize::from(u16::from_be_bytes([fixed[10], fixed[11]]));
        let (record, next) = rest.split_at(RECORD_BYTES + data_bytes);
        rest = next;
        Some(record)
    })
}

#[inline]
fn short(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
fn long(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
