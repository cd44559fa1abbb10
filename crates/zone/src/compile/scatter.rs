//! The first step. It assigns every record to the part of the zone that its owner's hash selects. It does the
//! same with the names between the owner and the apex, which exist even without records.

use kqps_message::rtype;

use crate::batch::{Batch, Record};
use crate::compile::fault::{Faults, Owner, What};
use crate::name::Name;
use crate::nsec3;
use crate::zone::denial::LABEL_BYTES;
use crate::zone::part::address;

/// The bits of a batch's number. The start of a suffix takes the rest.
const BATCH_BITS: u32 = 24;

/// Shows that a name exists, and by which record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub hash: u64,
    /// The batch in the low bits. The bits above hold the position in the record's owner at which the name
    /// begins. If it is not 0, the name is an ancestor of the owner.
    source: u32,
    position: u32,
}

impl Entry {
    fn new(hash: u64, batch: usize, start: usize, position: usize) -> Option<Self> {
        let batch = u32::try_from(batch).ok().filter(|batch| batch >> BATCH_BITS == 0)?;
        let start = u8::try_from(start).ok()?;
        let position = u32::try_from(position).ok()?;
        Some(Self { hash, source: u32::from(start) << BATCH_BITS | batch, position })
    }

    /// The position in the owner at which the name begins.
    pub(crate) fn start(self) -> usize {
        (self.source >> BATCH_BITS) as usize
    }

    pub(crate) fn record(self, batches: &[Batch]) -> Option<Record<'_>> {
        let batch = batches.get((self.source & ((1 << BATCH_BITS) - 1)) as usize)?;
        Some(batch.at(self.position as usize)?.0)
    }

    /// Its place among all records, in the order of the file.
    pub(crate) fn sequence(self) -> u64 {
        u64::from(self.source & ((1 << BATCH_BITS) - 1)) << 32 | u64::from(self.position)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Scattered {
    /// The entries by part.
    pub parts: Vec<Vec<Entry>>,
    /// The NSEC3 records and the signatures over them, whose owners are not names of the zone (RFC 5155, section
    /// 7.2.8).
    pub nsec3: Vec<Entry>,
    pub faults: Faults,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Apex<'a> {
    pub name: &'a [u8],
    pub labels: usize,
}

/// Assigns the records of `batch`, which has this number, to parts.
pub(crate) fn scatter(apex: Apex<'_>, batch: &Batch, number: usize, part_bits: u32) -> Scattered {
    let mut name = Name::root();
    let parts = 1 << part_bits;
    let room = batch.len() / parts + batch.len() / parts / 8 + 4;
    let mut out =
        Scattered { parts: (0..parts).map(|_| Vec::with_capacity(room)).collect(), ..Scattered::default() };
    let mut seen = RecentAncestors::new(batch.len());
    for (position, record) in batch.records() {
        let above = if name.set(record.owner) { name.above(apex.name, apex.labels) } else { None };
        let Some(above) = above else {
            out.faults.add(record.line, What::OutOfZone(Owner::new(record.owner)));
            continue;
        };
        let Some(entry) = Entry::new(name.hash(0), number, 0, position) else {
            out.faults.add(0, What::TooLarge);
            return out;
        };
        if above == 1 && is_link(&record) {
            out.nsec3.push(entry);
            continue;
        }
        out.parts[address(entry.hash, part_bits).0 as usize].push(entry);
        for labels in 1..above {
            let hash = name.hash(labels);
            if seen.before(hash) {
                break;
            }
            let ancestor = Entry::new(hash, number, name.start(labels), position);
            out.parts[address(hash, part_bits).0 as usize].extend(ancestor);
        }
    }
    out
}

/// Whether a record directly below the apex belongs to an NSEC3 chain. If its owner is not a hash, it is an
/// ordinary record.
fn is_link(record: &Record<'_>) -> bool {
    let is_nsec3 = record.rtype == rtype::NSEC3
        || record.rtype == rtype::RRSIG && record.data.starts_with(&rtype::NSEC3.to_be_bytes());
    is_nsec3 && record.owner.get(1..LABEL_BYTES).is_some_and(nsec3::is_hash) && record.owner[0] == 32
}

/// Remembers the ancestors that were entered last, since names with one parent are usually together. A forgotten
/// ancestor is entered again, which does no harm.
struct RecentAncestors {
    hashes: Box<[u64]>,
}

impl RecentAncestors {
    fn new(records: usize) -> Self {
        Self { hashes: vec![0; records.next_power_of_two().min(4096)].into() }
    }

    /// Whether this hash was seen before. Remembers it.
    fn before(&mut self, hash: u64) -> bool {
        let place = hash as usize & (self.hashes.len() - 1);
        std::mem::replace(&mut self.hashes[place], hash) == hash
    }
}
