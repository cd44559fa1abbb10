//! The answer and authority records of a reply that are of the question's class and in the server's zone.

use kqps_message::record::{self, Record};
use kqps_message::{Header, canonical, question, rtype};

pub(crate) struct Sections<'r> {
    pub(crate) reply: &'r [u8],
    pub(crate) answers: Vec<Seen<'r>>,
    pub(crate) authorities: Vec<Seen<'r>>,
    /// The names of owners without pointers.
    names: Vec<u8>,
}

/// A record, with the place of its owner's name in [`Sections::names`].
#[derive(Clone, Debug)]
pub(crate) struct Seen<'r> {
    pub(crate) record: Record<'r>,
    owner_at: usize,
    owner_bytes: usize,
}

impl<'r> Sections<'r> {
    /// Reads a reply. `None` if a record of these sections cannot be read.
    pub(crate) fn read(reply: &'r [u8], class: u16, zone: &[u8]) -> Option<Self> {
        let header = Header::of(reply)?;
        let mut at = question::end(reply)?;
        let (answers, authorities) = (u32::from(header.answers()), u32::from(header.authorities()));
        let mut sections = Self { reply, answers: Vec::new(), authorities: Vec::new(), names: Vec::new() };
        for number in 0..answers + authorities {
            let owner_at = sections.names.len();
            canonical::expand_name(reply, at, &mut sections.names)?;
            let record = record::read(reply, at)?;
            at = record.end;
            let owner = &sections.names[owner_at..];
            if record.class != class || !is_at_or_below(owner, zone) {
                sections.names.truncate(owner_at);
                continue;
            }
            let owner_bytes = owner.len();
            let section = if number < answers { &mut sections.answers } else { &mut sections.authorities };
            section.push(Seen { record, owner_at, owner_bytes });
        }
        Some(sections)
    }

    /// The owner of a record, without pointers.
    pub(crate) fn owner(&self, seen: &Seen<'_>) -> &[u8] {
        &self.names[seen.owner_at..seen.owner_at + seen.owner_bytes]
    }
}

/// The type of a record, or the type that a signature covers (RFC 4034, section 3.1.1).
pub(crate) fn covered(record: &Record<'_>) -> u16 {
    match (record.rtype, record.data) {
        (rtype::RRSIG, &[high, low, ..]) => u16::from_be_bytes([high, low]),
        (rtype, _) => rtype,
    }
}

/// Whether a name is the other one or ends with its labels. Both are without pointers.
pub(crate) fn is_at_or_below(name: &[u8], other: &[u8]) -> bool {
    let Some(above) = name.len().checked_sub(other.len()) else { return false };
    let mut at = 0;
    while at < above {
        at += 1 + usize::from(name[at]);
    }
    at == above && name[at..].eq_ignore_ascii_case(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_below_another_by_whole_labels() {
        let name = b"\x03www\x07example\x03com\0";
        for other in [&name[..], b"\x07EXAMPLE\x03com\0", b"\x03com\0", b"\0"] {
            assert!(is_at_or_below(name, other), "{other:x?}");
        }
        let below = b"\x01a\x03www\x07example\x03com\0";
        for other in [&b"\x03ple\x03com\0"[..], b"\x06xample\x03com\0", b"\x03net\0", below] {
            assert!(!is_at_or_below(name, other), "{other:x?}");
        }
    }
}
