//! Takes from a reply the records that answer the question, and writes them anew behind the question, with one TTL for
//! each RRset. Whatever a server adds beyond that is dropped here, so that it is in no answer, kept or not.

mod aliases;
mod chain;
mod sections;
mod suffixes;
mod writer;

use kqps_message::header::{AD, HEADER_BYTES, QR, RA};
use kqps_message::name::is_at_or_below;
use kqps_message::question::QUESTION_TAIL_BYTES;
use kqps_message::record::{self, Record};
use kqps_message::{Header, canonical, edns, question, rcode, rtype};

use crate::answered::Why;
use crate::bailiwick::Bailiwick;
use crate::key::{Kind, Question};
use crate::query::{Form, Query, ReplyParts};
use crate::settings::Rules;
pub use aliases::ALIASES_MOST;
use aliases::Aliases;
use sections::{SectionRecord, Sections, covered};
use writer::Writer;

/// TKEY, TSIG, IXFR, AXFR, MAILB, MAILA and other types that no records have (RFC 6895, section 3.1). ANY is answered
/// with records, and its number is above these.
const META_TYPES: std::ops::Range<u16> = 128..rtype::ANY;

/// The bytes of the five numbers at the end of a SOA record's data. MINIMUM is the last one (RFC 1035, section 3.3.13).
const SOA_NUMBERS_BYTES: usize = 20;

/// The part of a reply that is used: the records that answer its question, behind the question.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(crate) kind: Kind,
    /// The time for which it may be kept, in seconds: the lowest TTL (RFC 4035, section 4.5). Or why it is not kept.
    pub(crate) ttl_s: Result<u32, Why>,
    /// At most 15.
    pub(crate) rcode: u16,
    /// Whether the reply has AD.
    pub(crate) is_authentic: bool,
    /// The numbers of answer and authority records.
    pub(crate) counts: [u16; 2],
    /// The positions of the TTLs in the records.
    pub(crate) ttl_places: Vec<u16>,
    /// The records as they follow the question.
    pub(crate) records: Vec<u8>,
    /// The names of the chain of aliases behind that of the question.
    aliases: Vec<Vec<u8>>,
    is_open: bool,
    /// Whether it was made of several replies.
    pub(crate) is_joined: bool,
}

impl Reply {
    /// Reads the reply of a server that speaks for these names, or one that the cache wrote.
    pub(crate) fn read(
        question: &Question<'_>,
        reply: &[u8],
        bailiwick: Option<&Bailiwick>,
        rules: &Rules,
    ) -> Result<Self, Why> {
        let (rcode, is_authentic) = check(question, reply)?;
        let sections = Sections::read(reply, question.class, bailiwick).ok_or(Why::Malformed)?;
        let aliases = Aliases::follow(question, rcode, &sections)?;
        let all = sections.answers.iter().enumerate();
        let answers: Vec<(usize, &SectionRecord<'_>)> = all
            .filter(|(number, seen)| {
                aliases.is_wanted(*number, sections.owner(seen), &seen.record, &sections)
            })
            .collect();
        // A server is not believed about a name for which it does not speak.
        let is_outside = bailiwick.is_some_and(|names| !names.holds(aliases.last(), question.rtype));
        let rcode = if is_outside { rcode::NOERROR } else { rcode };
        let is_name_error = rcode == rcode::NXDOMAIN;
        let has_data = aliases.has_data(&sections, &answers);
        let mut denial = None;
        if !is_outside && (is_name_error || !has_data) {
            denial = Denial::find(&sections, aliases.last(), rules)?;
        }
        let is_open =
            aliases.has_some() && (is_outside || rcode == rcode::NOERROR && !has_data && denial.is_none());
        let kind = if is_name_error && answers.is_empty() { Kind::NameError } else { Kind::Data };
        // The server of a zone leaves a chain open that goes on in another zone.
        let is_known = has_data && !is_name_error || denial.is_some() || is_open;

        let mut writer = Writer::new(question.name);
        let mut counts = [0; 2];
        for (number, seen) in &answers {
            let (owner, ttl_s) = (sections.owner(seen), rules.ttl_s(seen.record.ttl_s));
            writer.record(reply, owner, &seen.record, ttl_s)?;
            counts[0] += 1;
            for (owner, target) in aliases.made_by(*number) {
                writer.alias(owner, question.class, target, ttl_s)?;
                counts[0] += 1;
            }
        }
        for seen in &sections.authorities {
            let owner = sections.owner(seen);
            if let Some(ttl_s) = authority_ttl_s(question, owner, seen, denial.as_ref(), rules) {
                writer.record(reply, owner, &seen.record, ttl_s)?;
                counts[1] += 1;
            }
        }
        let (ttl_s, ttl_places, records) = writer.finish();
        Ok(Self {
            kind,
            ttl_s: may_be_kept(question.rtype, rcode, is_known).and(lasting(ttl_s)),
            rcode,
            is_authentic,
            counts,
            ttl_places,
            records,
            aliases: aliases.into_targets(),
            is_open,
            is_joined: false,
        })
    }

    /// The names of the chain of aliases behind that of the question, in order and in wire form.
    pub fn aliases(&self) -> &[Vec<u8>] {
        &self.aliases
    }

    /// Whether the question's name is an alias, and the reply says nothing about the last name of its chain: neither
    /// data of the type nor that there are none. A server says nothing about names for which it does not speak.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Writes it over the query at the beginning of a buffer, which asks its question and has this form, as a hit of
    /// the cache is written. Returns its length in bytes.
    pub fn answer(&self, form: Form, message: &mut [u8], limit_bytes: usize) -> usize {
        let Self { records, counts, is_authentic, .. } = self;
        let [rcode, _] = self.rcode.to_le_bytes();
        let said = ReplyParts { records, counts: *counts, rcode, is_authentic: *is_authentic };
        Query::read(message, form).write(message, limit_bytes, said).bytes
    }

    /// The reply as a message, with ID 0.
    fn message(&self, name: &[u8], question: &Question<'_>) -> Vec<u8> {
        let mut message = question_of(&Question { name, ..*question });
        let authentic = if self.is_authentic { AD } else { 0 };
        let [rcode, _] = self.rcode.to_le_bytes();
        (message[2], message[3]) = (QR, RA | authentic | rcode);
        message[6..8].copy_from_slice(&self.counts[0].to_be_bytes());
        message[8..10].copy_from_slice(&self.counts[1].to_be_bytes());
        message.extend_from_slice(&self.records);
        message
    }
}

/// A message that has this question alone, with ID 0.
pub(crate) fn question_of(question: &Question<'_>) -> Vec<u8> {
    let head = [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    [&head, question.name, &question.rtype.to_be_bytes(), &question.class.to_be_bytes()].concat()
}

/// Whether the answer to a question of this type may be kept; the error says why not. It `is_known` for how long.
fn may_be_kept(asked: u16, rcode: u16, is_known: bool) -> Result<(), Why> {
    if rcode == rcode::YXDOMAIN {
        Err(Why::Rcode(rcode))
    } else if asked == rtype::OPT || META_TYPES.contains(&asked) {
        Err(Why::Type)
    } else if is_known {
        Ok(())
    } else {
        Err(Why::NoSoa)
    }
}

/// The TTL of a reply whose lowest TTL this is, in seconds.
fn lasting(ttl_s: u32) -> Result<u32, Why> {
    if ttl_s == 0 { Err(Why::TtlZero) } else { Ok(ttl_s) }
}

/// Checks that a reply answers the question: it is whole, all of it can be read, its rcode says something about the
/// name, and it is no referral to servers that would have to be asked next. Anything else is a failure (RFC 9520,
/// section 2). Returns the rcode, and whether the reply has AD.
fn check(question: &Question<'_>, reply: &[u8]) -> Result<(u16, bool), Why> {
    let header = Header::from_bytes(reply).ok_or(Why::Malformed)?;
    if !header.is_reply() || header.opcode() != 0 {
        return Err(Why::Malformed);
    }
    let Question { name, rtype, class, .. } = *question;
    let end = HEADER_BYTES + name.len() + QUESTION_TAIL_BYTES;
    let asked = reply.get(HEADER_BYTES..end).filter(|_| header.questions() == 1).ok_or(Why::OtherQuestion)?;
    let (asked, tail) = asked.split_at(name.len());
    let is_same_tail = tail[..2] == rtype.to_be_bytes() && tail[2..] == class.to_be_bytes();
    if !is_same_tail || !asked.eq_ignore_ascii_case(name) {
        return Err(Why::OtherQuestion);
    }
    if header.is_truncated() {
        return Err(Why::Truncated);
    }
    let rcode = edns::rcode(header, reply);
    if !matches!(rcode, rcode::NOERROR | rcode::NXDOMAIN | rcode::YXDOMAIN) {
        return Err(Why::Rcode(rcode));
    }
    if !canonical::can_be_read(reply) {
        return Err(Why::Malformed);
    }
    if rcode == rcode::NOERROR && header.answers() == 0 && is_referral(header, reply) {
        return Err(Why::NoSoa);
    }
    Ok((rcode, reply[3] & AD != 0))
}

/// Whether a reply without answers has NS records and no SOA record in its authority section (RFC 2308, section 2.2).
fn is_referral(header: Header<'_>, reply: &[u8]) -> bool {
    let (mut at, mut has_ns) = (question::end(reply), false);
    for _ in 0..header.authorities() {
        let Some(record) = at.and_then(|at| record::read(reply, at)) else { return false };
        if record.rtype == rtype::SOA {
            return false;
        }
        has_ns |= record.rtype == rtype::NS;
        at = Some(record.end);
    }
    has_ns
}

/// The SOA record of a negative answer.
struct Denial<'s, 'r> {
    soa: &'s SectionRecord<'r>,
    owner: &'s [u8],
    ttl_s: u32,
}

impl<'s, 'r> Denial<'s, 'r> {
    /// The SOA record of a zone that has this name, the last one of a chain.
    fn find(sections: &'s Sections<'r>, name: &[u8], rules: &Rules) -> Result<Option<Self>, Why> {
        let is_it = |seen: &&SectionRecord<'_>| {
            seen.record.rtype == rtype::SOA && is_at_or_below(name, sections.owner(seen))
        };
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
    question: &Question<'_>,
    owner: &[u8],
    seen: &SectionRecord<'_>,
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
        return (question.dnssec_ok && owner.eq_ignore_ascii_case(denial.owner)).then_some(ttl_s);
    }
    (question.dnssec_ok && matches!(covered, rtype::NSEC | rtype::NSEC3)).then_some(ttl_s)
}
