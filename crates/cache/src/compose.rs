//! Makes of a reply what is kept of it: the records that answer the question, with one TTL for each RRset, written anew
//! behind the question. What a server adds beyond that is dropped here, so that it is in no answer.

mod aliases;
mod chain;
mod sections;
mod suffixes;
mod writer;

use kqps_message::header::{AD, HEADER_BYTES};
use kqps_message::question::QUESTION_TAIL_BYTES;
use kqps_message::record::Record;
use kqps_message::{Header, canonical, edns, rcode, rtype};

use crate::answered::Why;
use crate::key::{Key, Kind};
use crate::settings::Rules;
use aliases::Aliases;
pub use chain::{join, unfinished};
use sections::{Sections, Seen, covered, is_at_or_below};
use writer::Writer;

/// TKEY, TSIG, IXFR, AXFR, MAILB, MAILA and other types that no records have (RFC 6895, section 3.1). ANY is answered
/// with records, and its number is above these.
const META_TYPES: std::ops::Range<u16> = 128..rtype::ANY;

/// The bytes of the five numbers at the end of a SOA record's data. MINIMUM is the last one (RFC 1035, section 3.3.13).
const SOA_NUMBERS_BYTES: usize = 20;

/// What is kept of a reply.
#[derive(Clone, Debug)]
pub(crate) struct Composed {
    pub(crate) kind: Kind,
    /// The time for which it may be kept, in seconds: the lowest TTL (RFC 4035, section 4.5).
    pub(crate) ttl_s: u32,
    pub(crate) rcode: u16,
    /// Whether the reply has AD.
    pub(crate) is_authentic: bool,
    /// The numbers of answer and authority records.
    pub(crate) counts: [u16; 2],
    /// The positions of the TTLs in the records.
    pub(crate) ttl_places: Vec<u16>,
    /// The records as they follow the question.
    pub(crate) records: Vec<u8>,
}

/// Checks a reply and makes of it what is kept.
pub(crate) fn compose(key: &Key, reply: &[u8], zone: &[u8], rules: &Rules) -> Result<Composed, Why> {
    let (rcode, is_authentic) = check(key, reply)?;
    let sections = Sections::read(reply, key.class, zone).ok_or(Why::Malformed)?;
    let aliases = Aliases::follow(&key.question(), &sections).ok_or(Why::Malformed)?;
    let answers: Vec<&Seen<'_>> = sections
        .answers
        .iter()
        .filter(|seen| aliases.is_wanted(sections.owner(seen), &seen.record))
        .collect();
    let has_data = answers
        .iter()
        .any(|seen| seen.record.rtype == aliases.rtype() && aliases.is_last(sections.owner(seen)));
    let is_name_error = rcode == rcode::NXDOMAIN;
    let mut denial = None;
    if is_name_error || !has_data {
        denial = Denial::find(&sections, aliases.last(), rules)?;
        // The server of a zone leaves a chain unfinished that goes on in another zone.
        let is_unfinished = !is_name_error && !answers.is_empty();
        if denial.is_none() && !is_unfinished {
            return Err(Why::NoSoa);
        }
    }
    let kind = if is_name_error && answers.is_empty() { Kind::NameError } else { Kind::Data };

    let mut writer = Writer::new(key.name());
    for seen in &answers {
        writer.record(reply, sections.owner(seen), &seen.record, rules.ttl_s(seen.record.ttl_s))?;
    }
    let answer_count = answers.len() as u16;
    let mut authority_count = 0;
    for seen in &sections.authorities {
        let owner = sections.owner(seen);
        if let Some(ttl_s) = authority_ttl_s(key, owner, seen, denial.as_ref(), rules) {
            writer.record(reply, owner, &seen.record, ttl_s)?;
            authority_count += 1;
        }
    }
    let (ttl_s, ttl_places, records) = writer.finish();
    if ttl_s == 0 {
        return Err(Why::TtlZero);
    }
    let counts = [answer_count, authority_count];
    Ok(Composed { kind, ttl_s, rcode, is_authentic, counts, ttl_places, records })
}

/// Checks all but the records. Returns the rcode, and whether the reply has AD.
fn check(key: &Key, reply: &[u8]) -> Result<(u16, bool), Why> {
    let header = Header::of(reply).ok_or(Why::Malformed)?;
    if !header.is_reply() || header.opcode() != 0 {
        return Err(Why::Malformed);
    }
    let name = key.name();
    let end = HEADER_BYTES + name.len() + QUESTION_TAIL_BYTES;
    let asked = reply.get(HEADER_BYTES..end).filter(|_| header.questions() == 1).ok_or(Why::OtherQuestion)?;
    let (asked, tail) = asked.split_at(name.len());
    let is_same_tail = tail[..2] == key.rtype.to_be_bytes() && tail[2..] == key.class.to_be_bytes();
    if !is_same_tail || !asked.eq_ignore_ascii_case(name) {
        return Err(Why::OtherQuestion);
    }
    if key.rtype == rtype::OPT || META_TYPES.contains(&key.rtype) {
        return Err(Why::Type);
    }
    if header.is_truncated() {
        return Err(Why::Truncated);
    }
    match edns::rcode(header, reply) {
        rcode @ (rcode::NOERROR | rcode::NXDOMAIN) => Ok((rcode, reply[3] & AD != 0)),
        rcode => Err(Why::Rcode(rcode)),
    }
}

/// The SOA record of a negative answer.
struct Denial<'s, 'r> {
    soa: &'s Seen<'r>,
    owner: &'s [u8],
    ttl_s: u32,
}

impl<'s, 'r> Denial<'s, 'r> {
    /// The SOA record of a zone that has this name, the last one of a chain.
    fn find(sections: &'s Sections<'r>, name: &[u8], rules: &Rules) -> Result<Option<Self>, Why> {
        let is_it =
            |seen: &&Seen<'_>| seen.record.rtype == rtype::SOA && is_at_or_below(name, sections.owner(seen));
        let Some(soa) = sections.authorities.iter().find(is_it) else { return Ok(None) };
        let minimum_s = minimum_s(sections.reply, &soa.record).ok_or(Why::Malformed)?;
        let ttl_s = rules.negative_ttl_s(soa.record.ttl_s, minimum_s);
        Ok(Some(Self { soa, owner: sections.owner(soa), ttl_s }))
    }
}

/// The field MINIMUM of a SOA record. `None` if its data are malformed.
fn minimum_s(reply: &[u8], soa: &Record<'_>) -> Option<u32> {
    let mut names = Vec::new();
    let mut at = soa.end - soa.data.len();
    for _ in 0..2 {
        at = canonical::expand_name(reply, at, &mut names)?;
    }
    (at + SOA_NUMBERS_BYTES == soa.end).then_some(())?;
    soa.data.last_chunk().map(|minimum| u32::from_be_bytes(*minimum))
}

/// The TTL of an authority record that belongs to the answer: the SOA record of a negative answer, and with DO the
/// proofs of what does not exist (RFC 4035, section 3.1.3). `None` for others.
fn authority_ttl_s(
    key: &Key,
    owner: &[u8],
    seen: &Seen<'_>,
    denial: Option<&Denial<'_, '_>>,
    rules: &Rules,
) -> Option<u32> {
    let ttl_s = rules.ttl_s(seen.record.ttl_s);
    let covered = covered(&seen.record);
    if covered == rtype::SOA {
        let denial = denial?;
        if seen.record.rtype == rtype::SOA {
            return std::ptr::eq(seen, denial.soa).then_some(denial.ttl_s);
        }
        return (key.dnssec_ok() && owner.eq_ignore_ascii_case(denial.owner)).then_some(ttl_s);
    }
    (key.dnssec_ok() && matches!(covered, rtype::NSEC | rtype::NSEC3)).then_some(ttl_s)
}
