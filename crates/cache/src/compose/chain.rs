//! Answers along a chain of aliases that leads from the zone of one server to that of another: the name at which an
//! answer ends without data, and one answer made of several (RFC 1034, section 5.2.2).

use kqps_message::header::{AD, QR, RA};
use kqps_message::{Header, edns, rcode, rtype};

use crate::compose::aliases::Aliases;
use crate::compose::sections::{Sections, is_at_or_below};
use crate::compose::writer::Writer;
use crate::key::Question;

/// The last name of the chain of aliases in a reply, if the reply says nothing about that name: neither data of the
/// type nor that there are none. `zone` is the name of the zone that the server answers for; records outside of it do
/// not count. `None` if the reply has no alias, is complete, or cannot be read.
pub fn unfinished(question: &Question<'_>, reply: &[u8], zone: &[u8]) -> Option<Vec<u8>> {
    let header = Header::of(reply)?;
    if edns::rcode(header, reply) != rcode::NOERROR {
        return None;
    }
    let sections = Sections::read(reply, question.class, zone)?;
    let aliases = Aliases::follow(question, &sections)?;
    let is_data = |owner: &[u8], rtype: u16| rtype == aliases.rtype() && aliases.is_last(owner);
    let has_data = sections.answers.iter().any(|seen| is_data(sections.owner(seen), seen.record.rtype));
    let is_denial = |owner: &[u8], rtype: u16| rtype == rtype::SOA && is_at_or_below(aliases.last(), owner);
    let is_denied =
        sections.authorities.iter().any(|seen| is_denial(sections.owner(seen), seen.record.rtype));
    (aliases.has_some() && !has_data && !is_denied).then(|| aliases.last().to_vec())
}

/// Joins replies, each with the zone of its server, into the reply to `question`. The answers of all follow one
/// another; the rcode and the authority records are those of the last reply, and AD is set if all have it. Records
/// outside of their server's zone are left out, so that the whole may be put in as the reply of a server for all names.
/// `None` if a reply cannot be read, or if the whole is longer than a message.
pub fn join(question: &Question<'_>, parts: &[(&[u8], &[u8])]) -> Option<Vec<u8>> {
    let mut writer = Writer::new(question.name);
    let (mut answers, mut authorities, mut rcode, mut authentic) = (0_u16, 0_u16, 0, AD);
    for (number, (reply, zone)) in parts.iter().enumerate() {
        let sections = Sections::read(reply, question.class, zone)?;
        for seen in &sections.answers {
            writer.record(reply, sections.owner(seen), &seen.record, seen.record.ttl_s).ok()?;
            answers = answers.checked_add(1)?;
        }
        rcode = reply[3] & 0x0f;
        authentic &= reply[3];
        if number + 1 == parts.len() {
            for seen in &sections.authorities {
                writer.record(reply, sections.owner(seen), &seen.record, seen.record.ttl_s).ok()?;
                authorities = authorities.checked_add(1)?;
            }
        }
    }
    let (_, _, records) = writer.finish();
    let ([a0, a1], [n0, n1]) = (answers.to_be_bytes(), authorities.to_be_bytes());
    let mut whole = vec![0, 0, QR, RA | authentic | rcode, 0, 1, a0, a1, n0, n1, 0, 0];
    whole.extend_from_slice(question.name);
    whole.extend(question.rtype.to_be_bytes());
    whole.extend(question.class.to_be_bytes());
    whole.extend(records);
    Some(whole)
}
