//! The records of one name as RRsets: duplicates dropped, one TTL each, signatures beside what they cover; and
//! the rules about what may stand together.

use kqps_message::{query, rtype};

use crate::compile::fault::{Faults, Owner, What};
use crate::compile::gather::Held;
use crate::zone::node::{self, QUESTION_POINTER, SIGNED};

const SIG: u16 = 24;
const KEY: u16 = 25;
const NXT: u16 = 30;

/// What was written for a name.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub flags: u8,
    pub rrsets: u16,
    pub records: u64,
    /// The line of the record that tells what the name is: an NS record if there is one, else the first.
    pub line: Option<u32>,
    /// The place in the file of its NSEC record.
    pub nsec: Option<u64>,
}

/// Appends the RRsets of the `held` records, which are of one name, to `memory`.
pub(crate) fn write(
    memory: &mut Vec<u8>,
    held: &mut [Held<'_>],
    is_apex: bool,
    faults: &mut Faults,
) -> Summary {
    if let [one] = *held
        && !is_apex
        && one.record.rtype < SIG
        && !matches!(one.record.rtype, rtype::NS | rtype::CNAME | rtype::SOA)
    {
        // Most names of big zones have one record that calls for nothing else.
        put(memory, one.record.rtype, held, Some(one.record.ttl_s), None);
        let line = Some(one.record.line);
        return Summary { rrsets: 1, records: 1, line, ..Summary::default() };
    }
    let mut summary = Summary::default();
    held.sort_by_key(|held| rank(held));
    let mut sets = held.chunk_by_mut(|one, other| rank(one) == rank(other)).peekable();
    while let Some(set) = sets.next() {
        let (covered, is_signature) = rank(&set[0]);
        let signatures =
            if is_signature { None } else { sets.next_if(|next| rank(&next[0]) == (covered, true)) };
        let (records, signatures) = if is_signature { (&mut [][..], Some(set)) } else { (set, signatures) };
        let kept = distinct(covered, records);
        summary.note(covered, is_apex, &records[..kept]);
        let ttl_s = lowest_ttl(covered, &records[..kept], faults);
        let signatures = signatures.map(|set| {
            let kept = distinct(rtype::RRSIG, set);
            &set[..kept]
        });
        summary.records += (kept + signatures.map_or(0, <[_]>::len)) as u64;
        summary.rrsets += 1;
        if !put(memory, covered, &records[..kept], ttl_s, signatures) {
            faults.add(0, What::TooLarge);
        }
    }
    check(held, is_apex, faults);
    summary
}

/// RRsets stand in the order of their types, each with its signatures behind it.
fn rank(held: &Held<'_>) -> (u16, bool) {
    match (held.record.rtype, held.record.data) {
        (rtype::RRSIG, &[high, low, ..]) => (u16::from_be_bytes([high, low]), true),
        (rtype, _) => (rtype, false),
    }
}

impl Summary {
    fn note(&mut self, rtype: u16, is_apex: bool, records: &[Held<'_>]) {
        let Some(first) = records.first() else { return };
        self.line.get_or_insert(first.record.line);
        match rtype {
            rtype::NS if !is_apex => {
                self.flags |= node::CUT;
                self.line = Some(first.record.line);
            }
            rtype::CNAME => self.flags |= node::ALIAS,
            rtype::DNAME => self.flags |= node::DNAME,
            rtype::NSEC => self.nsec = Some(first.sequence),
            _ => {}
        }
    }
}

/// Moves what is no duplicate to the front, in the order of the file, and returns how many those are (RFC 2181,
/// section 5).
fn distinct(rtype: u16, records: &mut [Held<'_>]) -> usize {
    if records.len() > 32 {
        return distinct_of_many(rtype, records);
    }
    let mut kept = 0;
    for place in 0..records.len() {
        let new = records[place];
        if !records[..kept].iter().any(|old| equal(rtype, old.record.data, new.record.data)) {
            records[kept] = new;
            kept += 1;
        }
    }
    kept
}

fn distinct_of_many(rtype: u16, records: &mut [Held<'_>]) -> usize {
    let mut seen = std::collections::HashSet::with_capacity(records.len());
    let mut kept = 0;
    for place in 0..records.len() {
        let data = records[place].record.data;
        let key =
            if is_name(rtype) { data.to_ascii_lowercase().into() } else { std::borrow::Cow::from(data) };
        if seen.insert(key) {
            records[kept] = records[place];
            kept += 1;
        }
    }
    kept
}

/// Whether data are the same, the case of a name not counted where they are one.
fn equal(rtype: u16, one: &[u8], other: &[u8]) -> bool {
    one == other || is_name(rtype) && one.eq_ignore_ascii_case(other)
}

fn is_name(rtype: u16) -> bool {
    matches!(rtype, rtype::NS | rtype::CNAME | rtype::PTR | rtype::DNAME)
}

fn lowest_ttl(rtype: u16, records: &[Held<'_>], faults: &mut Faults) -> Option<u32> {
    let lowest_s = records.iter().map(|held| held.record.ttl_s).min()?;
    let first = records.first()?;
    if let Some(other) = records.iter().find(|held| held.record.ttl_s != first.record.ttl_s) {
        let owner = Owner::new(other.record.owner);
        faults.add(other.record.line, What::TtlsDiffer(owner, rtype));
    }
    Some(lowest_s)
}

/// Appends an RRset, and tells whether its lengths could be written.
fn put(
    memory: &mut Vec<u8>,
    rtype: u16,
    records: &[Held<'_>],
    ttl_s: Option<u32>,
    signatures: Option<&[Held<'_>]>,
) -> bool {
    let start = memory.len();
    memory.extend_from_slice(&rtype.to_le_bytes());
    memory.extend_from_slice(&(records.len().min(u16::MAX.into()) as u16).to_le_bytes());
    memory.extend_from_slice(&[0; 4]);
    put_records(memory, records, ttl_s);
    let mut bytes = (memory.len() - start - node::RRSET_BYTES) as u32;
    let fits = memory.len() - start < SIGNED as usize;
    if let Some(signatures) = signatures {
        bytes |= SIGNED;
        let from = memory.len();
        memory.extend_from_slice(&(signatures.len().min(u16::MAX.into()) as u16).to_le_bytes());
        memory.extend_from_slice(&[0; 4]);
        put_records(memory, signatures, None);
        let bytes = (memory.len() - from - node::SIGNATURES_BYTES) as u32;
        memory[from + 2..from + node::SIGNATURES_BYTES].copy_from_slice(&bytes.to_le_bytes());
    }
    memory[start + 4..start + node::RRSET_BYTES].copy_from_slice(&bytes.to_le_bytes());
    fits && memory.len() - start < SIGNED as usize
}

/// No RRset with more records than a message can count is ever sent, so the rest is left out.
fn put_records(memory: &mut Vec<u8>, records: &[Held<'_>], ttl_s: Option<u32>) {
    for Held { record, .. } in records.iter().take(u16::MAX.into()) {
        memory.extend_from_slice(&QUESTION_POINTER);
        memory.extend_from_slice(&record.rtype.to_be_bytes());
        memory.extend_from_slice(&query::CLASS_IN.to_be_bytes());
        // A TTL whose top bit is set counts as zero (RFC 2181, section 8).
        let ttl_s = ttl_s.unwrap_or(record.ttl_s);
        let ttl_s = if ttl_s >> 31 == 0 { ttl_s } else { 0 };
        memory.extend_from_slice(&ttl_s.to_be_bytes());
        memory.extend_from_slice(&(record.data.len() as u16).to_be_bytes());
        memory.extend_from_slice(record.data);
    }
}

/// The rules about the records of one name, which are in the order of their types.
fn check(held: &[Held<'_>], is_apex: bool, faults: &mut Faults) {
    let of_type = |rtype: u16| held.iter().filter(move |held| held.record.rtype == rtype);
    if is_apex {
        if of_type(rtype::NS).next().is_none() {
            faults.add(0, What::NoNs);
        }
        if of_type(rtype::SOA).next().is_none() {
            faults.add(0, What::NoSoa);
        }
        if let Some(line) = differing(rtype::SOA, held) {
            faults.add(line, What::SeveralSoa);
        }
    } else if let Some(soa) = of_type(rtype::SOA).next() {
        faults.add(soa.record.line, What::SoaBelowApex(Owner::new(soa.record.owner)));
    }
    if let Some(cname) = of_type(rtype::CNAME).next() {
        let owner = || Owner::new(cname.record.owner);
        let may_stand = |rtype| matches!(rtype, rtype::CNAME | rtype::RRSIG | rtype::NSEC | SIG | KEY | NXT);
        if let Some(other) = held.iter().find(|held| !may_stand(held.record.rtype)) {
            faults.add(cname.record.line.max(other.record.line), What::CnameNotAlone(owner()));
        }
        if let Some(line) = differing(rtype::CNAME, held) {
            faults.add(line, What::SeveralCname(owner()));
        }
    }
    if let Some(line) = differing(rtype::DNAME, held) {
        faults.add(line, What::SeveralDname(Owner::new(held[0].record.owner)));
    }
}

/// The line of a record of this type whose data differ from those of the first.
fn differing(rtype: u16, held: &[Held<'_>]) -> Option<u32> {
    let mut records = held.iter().map(|held| held.record).filter(|record| record.rtype == rtype);
    let first = records.next()?;
    records.find(|record| !equal(rtype, record.data, first.data)).map(|record| record.line)
}
