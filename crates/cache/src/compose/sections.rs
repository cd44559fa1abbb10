//! The answer and authority records of a reply that are of the question's class and of names that the server speaks for.

use kqps_message::record::{self, Record};
use kqps_message::{Header, canonical, question, rtype};

use crate::bailiwick::Bailiwick;

pub(crate) struct Sections<'r> {
    pub(crate) reply: &'r [u8],
    pub(crate) answers: Vec<SectionRecord<'r>>,
    pub(crate) authorities: Vec<SectionRecord<'r>>,
    /// Whether the cache wrote the reply: all of its answers belong together.
    pub(crate) is_own: bool,
    /// The names of owners without pointers.
    names: Vec<u8>,
}

/// A record, with the place of its owner's name in [`Sections::names`].
#[derive(Clone, Debug)]
pub(crate) struct SectionRecord<'r> {
    pub(crate) record: Record<'r>,
    owner_at: usize,
    owner_bytes: usize,
}

impl<'r> Sections<'r> {
    /// Reads a reply of a server that speaks for these names, or one that the cache wrote. `None` if a record of these
    /// sections cannot be read.
    pub(crate) fn read(reply: &'r [u8], class: u16, bailiwick: Option<&Bailiwick>) -> Option<Self> {
        let header = Header::from_bytes(reply)?;
        let mut at = question::end(reply)?;
        let (answers, authorities) = (u32::from(header.answers()), u32::from(header.authorities()));
        let (is_own, names) = (bailiwick.is_none(), Vec::new());
        let mut sections = Self { reply, answers: Vec::new(), authorities: Vec::new(), is_own, names };
        for number in 0..answers + authorities {
            let owner_at = sections.names.len();
            canonical::expand_name(reply, at, &mut sections.names)?;
            let record = record::read(reply, at)?;
            at = record.end;
            let owner = &sections.names[owner_at..];
            let is_foreign = bailiwick.is_some_and(|names| !names.holds(owner, covered(&record)));
            if record.class != class || is_foreign {
                sections.names.truncate(owner_at);
                continue;
            }
            let owner_bytes = owner.len();
            let section = if number < answers { &mut sections.answers } else { &mut sections.authorities };
            section.push(SectionRecord { record, owner_at, owner_bytes });
        }
        Some(sections)
    }

    /// The owner of a record, without pointers.
    pub(crate) fn owner(&self, seen: &SectionRecord<'_>) -> &[u8] {
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
