//! The chain of aliases from the name of a question, and the answer records that belong to it.

use kqps_message::record::Record;
use kqps_message::{canonical, rtype};

use crate::compose::sections::{Sections, Seen, covered, is_at_or_below};
use crate::key::Question;

/// The most aliases of a chain that are followed.
const ALIASES_MOST: usize = 16;

pub(crate) struct Aliases {
    /// The name of the question, and then the target of each alias.
    names: Vec<Vec<u8>>,
    /// The type of the answer.
    rtype: u16,
    dnssec_ok: bool,
}

impl Aliases {
    /// Follows the chain. `None` if the target of an alias is malformed.
    pub(crate) fn follow(question: &Question<'_>, sections: &Sections<'_>) -> Option<Self> {
        let Question { name, rtype, dnssec_ok, .. } = *question;
        let mut chain = Self { names: vec![name.to_vec()], rtype, dnssec_ok };
        if rtype == rtype::ANY {
            chain.rtype = first_type(name, sections);
        }
        while chain.names.len() <= ALIASES_MOST && !matches!(rtype, rtype::CNAME | rtype::ANY) {
            let is_alias =
                |seen: &&Seen<'_>| seen.record.rtype == rtype::CNAME && chain.is_last(sections.owner(seen));
            let Some(alias) = sections.answers.iter().find(is_alias) else { break };
            let data_at = alias.record.end - alias.record.data.len();
            let mut target = Vec::new();
            canonical::expand_name(sections.reply, data_at, &mut target)?;
            if chain.has(&target) {
                break;
            }
            chain.names.push(target);
        }
        Some(chain)
    }

    /// Whether the name of the question is an alias.
    pub(crate) fn has_some(&self) -> bool {
        self.names.len() > 1
    }

    /// The last name.
    pub(crate) fn last(&self) -> &[u8] {
        self.names.last().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn is_last(&self, name: &[u8]) -> bool {
        self.last().eq_ignore_ascii_case(name)
    }

    /// The type of the answer at the last name. For ANY it is that of the first RRset.
    pub(crate) fn rtype(&self) -> u16 {
        self.rtype
    }

    /// Whether an answer record belongs to the answer.
    pub(crate) fn is_wanted(&self, owner: &[u8], record: &Record<'_>) -> bool {
        if record.rtype == rtype::RRSIG && self.rtype != rtype::RRSIG {
            return self.dnssec_ok && self.is_of_chain(owner, covered(record));
        }
        self.is_of_chain(owner, record.rtype)
    }

    /// Whether an RRset is an alias of the chain, the DNAME record that an alias follows from, or its end.
    fn is_of_chain(&self, owner: &[u8], rtype: u16) -> bool {
        let is_above = |name: &Vec<u8>| name.len() > owner.len() && is_at_or_below(name, owner);
        match rtype {
            rtype::DNAME if self.names.iter().any(is_above) => true,
            rtype::CNAME => self.has(owner),
            _ => rtype == self.rtype && self.has(owner),
        }
    }

    fn has(&self, name: &[u8]) -> bool {
        self.names.iter().any(|other| other.eq_ignore_ascii_case(name))
    }
}

/// The type of the first RRset of the name. That of a signature is only taken if there is nothing else.
fn first_type(name: &[u8], sections: &Sections<'_>) -> u16 {
    let of_name = sections.answers.iter().filter(|seen| sections.owner(seen).eq_ignore_ascii_case(name));
    let mut types = of_name.map(|seen| seen.record.rtype);
    types.find(|&rtype| rtype != rtype::RRSIG).unwrap_or(rtype::RRSIG)
}
