//! Joins answers along a chain of aliases that leads from the zone of one server to that of another into one answer
//! (RFC 1034, section 5.2.2).

use kqps_message::rtype;

use crate::answered::Why;
use crate::compose::sections::{SectionRecord, Sections, covered};
use crate::compose::writer::Writer;
use crate::compose::{ALIASES_MOST, Reply, lasting};
use crate::key::{Kind, Question};

impl Reply {
    /// Joins the reply to `question` with those to the last names of its chain: `parts`, each of which is open, in order,
    /// and `last`. The answers of all follow one another; the rcode and the authority records are those of the last one,
    /// and AD is set if all have it.
    ///
    /// # Errors
    ///
    /// If the whole is longer than a message.
    pub fn join(question: &Question<'_>, parts: &[Self], last: &Self) -> Result<Self, Why> {
        let mut writer = Writer::new(question.name);
        let mut counts = [0; 2];
        let mut aliases: Vec<Vec<u8>> = Vec::with_capacity(ALIASES_MOST);
        // A DNAME record may have been asked for more than once on the way.
        let mut dnames: Vec<Vec<u8>> = Vec::new();
        for part in parts.iter().chain([last]) {
            let message = part.message(aliases.last().map_or(question.name, Vec::as_slice), question);
            let sections = Sections::read(&message, question.class, None).ok_or(Why::Malformed)?;
            let is_known = |seen: &&SectionRecord<'_>| {
                let is_it = |name: &Vec<u8>| name.eq_ignore_ascii_case(sections.owner(seen));
                covered(&seen.record) == rtype::DNAME && dnames.iter().any(is_it)
            };
            let new: Vec<&SectionRecord<'_>> =
                sections.answers.iter().filter(|seen| !is_known(seen)).collect();
            let authorities = if std::ptr::eq(part, last) { &sections.authorities[..] } else { &[] };
            for seen in new.iter().copied().chain(authorities) {
                writer.record(&message, sections.owner(seen), &seen.record, seen.record.ttl_s)?;
            }
            let count = |records: usize| u16::try_from(records).expect("counts have 16 bits");
            counts = [counts[0] + count(new.len()), count(authorities.len())];
            let of_dnames = new.iter().filter(|seen| seen.record.rtype == rtype::DNAME);
            dnames.extend(of_dnames.map(|seen| sections.owner(seen).to_vec()));
            aliases.extend_from_slice(&part.aliases);
        }
        let (ttl_s, ttl_places, records) = writer.finish();
        Ok(Self {
            kind: Kind::Data,
            ttl_s: last.ttl_s.and(lasting(ttl_s)),
            rcode: last.rcode,
            is_authentic: parts.iter().chain([last]).all(|part| part.is_authentic),
            counts,
            ttl_places,
            records,
            aliases,
            is_open: last.is_open,
            is_joined: true,
        })
    }
}
