//! The records of one name as RRsets: without duplicates, with one TTL each, and with signatures next to what they cover.
//! Also the rules about which records may stand together.

use kqps_message::{query, rtype};

use crate::compile::fault::{Faults, Owner, What};
use crate::compile::sequenced_record::Held;
use crate::master::{canonical, same_data};
use crate::zone::node::{self, QUESTION_POINTER, SIGNED};

const SIG: u16 = 24;
const KEY: u16 = 25;
const NXT: u16 = 30;

/// Facts about the RRsets that were written for a name.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub flags: u8,
    pub rrsets: u16,
    pub records: u64,
    /// The line that best shows what the name is: that of an NS record if there is one, else that of the first record.
    pub line: Option<u32>,
    /// The place in the file of its NSEC record.
    pub nsec: Option<u64>,
}

/// Appends the RRsets of the `held` records, which all have one name, to `memory`.
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
        // Most names of big zones have one record, for which nothing else needs to be done.
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
        let line =
            records.first().or(signatures.as_deref().and_then(<[_]>::first)).map(|held| held.record.line);
        // The TTL of a duplicate counts, so duplicates are dropped after this.
        let ttl_s = least_ttl(covered, records, faults);
        let signatures = signatures.map(|set| {
            let signature_ttl_s = signature_ttl(covered, set, ttl_s, faults);
            let kept = distinct(rtype::RRSIG, set);
            (&set[..kept], signature_ttl_s)
        });
        let ttl_s = ttl_s.map(|ttl| ttl.least_s);
        let kept = distinct(covered, records);
        summary.note(covered, is_apex, &records[..kept]);
        summary.records += (kept + signatures.map_or(0, |(set, _)| set.len())) as u64;
        summary.rrsets += 1;
        if !put(memory, covered, &records[..kept], ttl_s, signatures) {
            faults.add(line.unwrap_or_default(), What::TooLarge);
        }
    }
    check(held, is_apex, faults);
    summary
}

/// The order of RRsets: by type, each with its signatures after it.
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

/// Moves records without their duplicates to the front, in the order of the file, and returns their number (RFC 2181,
/// section 5).
fn distinct(rtype: u16, records: &mut [Held<'_>]) -> usize {
    if records.len() > 32 {
        return distinct_of_many(rtype, records);
    }
    let mut kept = 0;
    for place in 0..records.len() {
        let new = records[place];
        if !records[..kept].iter().any(|old| same_data(rtype, old.record.data, new.record.data)) {
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
        if seen.insert(canonical(rtype, records[place].record.data)) {
            records[kept] = records[place];
            kept += 1;
        }
    }
    kept
}

#[derive(Clone, Copy, Debug)]
struct Ttl {
    /// The lowest TTL of its records, since the RRset has one TTL (RFC 2181, section 5.2).
    least_s: u32,
    /// Whether a record has another TTL, about which the user was warned.
    differs: bool,
}

/// The TTL of these records, of which some may be duplicates; `None` without records.
fn least_ttl(rtype: u16, records: &[Held<'_>], faults: &mut Faults) -> Option<Ttl> {
    let first = records.first()?.record;
    let least_s = records.iter().map(|held| held.record.ttl_s).min()?;
    let other = records.iter().map(|held| held.record).find(|record| record.ttl_s != first.ttl_s);
    if let Some(other) = other {
        faults.add(other.line, What::TtlsDiffer(Owner::new(other.owner), rtype, least_s));
    }
    Some(Ttl { least_s, differs: other.is_some() })
}

/// The TTL of the signatures of an RRset with this type and TTL. It is not greater than the RRset's, with which it should
/// agree (RFC 4034, section 3).
fn signature_ttl(
    covered: u16,
    signatures: &[Held<'_>],
    ttl_s: Option<Ttl>,
    faults: &mut Faults,
) -> Option<u32> {
    let own = least_ttl(rtype::RRSIG, signatures, faults)?;
    let Some(ttl) = ttl_s.filter(|ttl| ttl.least_s < own.least_s) else { return Some(own.least_s) };
    // A single warning for an RRset is enough.
    if !ttl.differs && !own.differs {
        let first = signatures.first()?.record;
        faults.add(first.line, What::SignatureTtl(Owner::new(first.owner), covered, ttl.least_s));
    }
    Some(ttl.least_s)
}

/// Appends an RRset. Returns whether its lengths could be written.
fn put(
    memory: &mut Vec<u8>,
    rtype: u16,
    records: &[Held<'_>],
    ttl_s: Option<u32>,
    signatures: Option<(&[Held<'_>], Option<u32>)>,
) -> bool {
    let start = memory.len();
    memory.extend_from_slice(&rtype.to_le_bytes());
    memory.extend_from_slice(&u16::try_from(records.len()).unwrap_or(u16::MAX).to_le_bytes());
    memory.extend_from_slice(&[0; 4]);
    put_records(memory, records, ttl_s);
    let mut bytes = u32::try_from(memory.len() - start - node::RRSET_BYTES).unwrap_or(u32::MAX);
    let fits = memory.len() - start < SIGNED as usize;
    if let Some((signatures, ttl_s)) = signatures {
        bytes |= SIGNED;
        let from = memory.len();
        memory.extend_from_slice(&u16::try_from(signatures.len()).unwrap_or(u16::MAX).to_le_bytes());
        memory.extend_from_slice(&[0; 4]);
        put_records(memory, signatures, ttl_s);
        let bytes = u32::try_from(memory.len() - from - node::SIGNATURES_BYTES).unwrap_or(u32::MAX);
        memory[from + 2..from + node::SIGNATURES_BYTES].copy_from_slice(&bytes.to_le_bytes());
    }
    memory[start + 4..start + node::RRSET_BYTES].copy_from_slice(&bytes.to_le_bytes());
    fits && memory.len() - start < SIGNED as usize
}

/// Appends records. A message cannot count more than 65,535 records, and no longer RRset is ever sent, so the rest is left
/// out.
fn put_records(memory: &mut Vec<u8>, records: &[Held<'_>], ttl_s: Option<u32>) {
    for Held { record, .. } in records.iter().take(u16::MAX.into()) {
        memory.extend_from_slice(&QUESTION_POINTER);
        memory.extend_from_slice(&record.rtype.to_be_bytes());
        memory.extend_from_slice(&query::CLASS_IN.to_be_bytes());
        // A TTL whose top bit is set counts as zero (RFC 2181, section 8).
        let ttl_s = ttl_s.unwrap_or(record.ttl_s);
        let ttl_s = if ttl_s >> 31 == 0 { ttl_s } else { 0 };
        memory.extend_from_slice(&ttl_s.to_be_bytes());
        let [.., high, low] = record.data.len().to_be_bytes();
        memory.extend_from_slice(&[high, low]);
        memory.extend_from_slice(record.data);
    }
}

/// Checks the rules about the records of one name, which are sorted by type.
fn check(held: &[Held<'_>], is_apex: bool, faults: &mut Faults) {
    let of_type = |rtype: u16| held.iter().filter(move |held| held.record.rtype == rtype);
    if is_apex {
        let mut soa_or_first = of_type(rtype::SOA).chain(held);
        let first_line = soa_or_first.next().map_or(0, |held| held.record.line);
        if of_type(rtype::NS).next().is_none() {
            faults.add(first_line, What::NoNs);
        }
        if of_type(rtype::SOA).next().is_none() {
            faults.add(first_line, What::NoSoa);
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

/// The line of a record of this type whose data differ from the first one's.
fn differing(rtype: u16, held: &[Held<'_>]) -> Option<u32> {
    let mut records = held.iter().map(|held| held.record).filter(|record| record.rtype == rtype);
    let first = records.next()?;
    records.find(|record| !same_data(rtype, record.data, first.data)).map(|record| record.line)
}
