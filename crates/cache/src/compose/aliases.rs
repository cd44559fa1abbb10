//! The chain of aliases from the name of a question, and the answer records that belong to it.

use kqps_message::name::{NAME_BYTES_MAX, is_at_or_below};
use kqps_message::record::Record;
use kqps_message::{canonical, rcode, rtype};

use crate::answered::Why;
use crate::compose::sections::{SectionRecord, Sections, covered};
use crate::key::Question;

/// The most aliases of a chain that is answered. BIND 9.18 and Unbound 1.17 follow 11 or more.
pub const ALIASES_MOST: usize = 16;

pub(crate) struct Aliases<'q> {
    /// The name and the type of the question.
    name: &'q [u8],
    asked: u16,
    /// The type of the answer.
    rtype: u16,
    dnssec_ok: bool,
    links: Vec<Link>,
    /// The DNAME record that would make the last name too long, by its number among the answers (RFC 6672, section
    /// 2.2).
    too_long: Option<usize>,
}

/// An alias: that of the question's name, or of the target of the link before it.
struct Link {
    /// The number of the CNAME record, or of the DNAME record that the alias follows from, among the answers.
    answer: usize,
    /// Whether the alias follows from a DNAME record. Then there is no other at its name (RFC 6672, section 2.4).
    is_made: bool,
    target: Vec<u8>,
}

impl<'q> Aliases<'q> {
    /// Follows the chain in a reply with this rcode.
    ///
    /// # Errors
    ///
    /// If the target of an alias is malformed or too long, or if the chain is a circle or too long.
    pub(crate) fn follow(question: &Question<'q>, rcode: u16, sections: &Sections<'_>) -> Result<Self, Why> {
        let Question { name, rtype, dnssec_ok, .. } = *question;
        let mut chain = Self { name, asked: rtype, rtype, dnssec_ok, links: Vec::new(), too_long: None };
        if rtype == rtype::ANY {
            let is_alias = dname_above(name, sections).is_some();
            chain.rtype = if is_alias { rtype::CNAME } else { first_type(name, sections) };
            if chain.rtype != rtype::CNAME {
                return Ok(chain);
            }
        }
        while let Some((answer, is_made)) = chain.next(sections) {
            let Some(target) = target(chain.last(), sections, answer, is_made)? else {
                chain.too_long = (rcode == rcode::YXDOMAIN).then_some(answer);
                return if chain.too_long.is_some() { Ok(chain) } else { Err(Why::Malformed) };
            };
            let is_known = chain.follows() && chain.has(&target);
            chain.links.push(Link { answer, is_made, target });
            if is_known || chain.links.len() > ALIASES_MOST {
                return Err(Why::Chain);
            }
            if !chain.follows() {
                break;
            }
        }
        Ok(chain)
    }

    /// The record by which the last name is an alias, and whether it is a DNAME record above the name.
    fn next(&self, sections: &Sections<'_>) -> Option<(usize, bool)> {
        let is_alias = |seen: &SectionRecord<'_>| {
            seen.record.rtype == rtype::CNAME && self.is_last(sections.owner(seen))
        };
        let dname = dname_above(self.last(), sections).map(|answer| (answer, true));
        dname.or_else(|| Some((sections.answers.iter().position(is_alias)?, false)))
    }

    /// Whether the answer is at the end of the chain: a question for CNAME or ANY is about its own name.
    fn follows(&self) -> bool {
        !matches!(self.asked, rtype::CNAME | rtype::ANY)
    }

    /// Whether the name of the question is an alias, which the question is not about.
    pub(crate) fn has_some(&self) -> bool {
        self.follows() && !self.links.is_empty()
    }

    /// The names behind that of the question, in order.
    pub(crate) fn into_targets(self) -> Vec<Vec<u8>> {
        let links = if self.follows() { self.links } else { Vec::new() };
        links.into_iter().map(|link| link.target).collect()
    }

    /// The name that the answer is about.
    pub(crate) fn last(&self) -> &[u8] {
        self.links.last().filter(|_| self.follows()).map_or(self.name, |link| &link.target)
    }

    fn is_last(&self, name: &[u8]) -> bool {
        self.last().eq_ignore_ascii_case(name)
    }

    fn has(&self, name: &[u8]) -> bool {
        let mut targets = self.links.iter().map(|link| &link.target[..]);
        self.name.eq_ignore_ascii_case(name) || targets.any(|target| target.eq_ignore_ascii_case(name))
    }

    /// The owner of each link.
    fn owners(&self) -> impl Iterator<Item = (&[u8], &Link)> {
        let targets = self.links.iter().map(|link| &link.target[..]);
        std::iter::once(self.name).chain(targets).zip(&self.links)
    }

    /// Whether an answer record of this owner is an RRset of the asked type at the end of the chain. For ANY it is the
    /// first RRset.
    pub(crate) fn is_data(&self, owner: &[u8], rtype: u16) -> bool {
        rtype == self.rtype && self.is_last(owner)
    }

    /// Whether the reply has the asked data, of which `answers` are all records that belong to the answer.
    pub(crate) fn has_data(&self, sections: &Sections<'_>, answers: &[(usize, &SectionRecord<'_>)]) -> bool {
        let is_it =
            |(_, seen): &(usize, &SectionRecord<'_>)| self.is_data(sections.owner(seen), seen.record.rtype);
        !self.follows() && !self.links.is_empty() || answers.iter().any(is_it)
    }

    /// Whether the answer record with this number belongs to the answer.
    pub(crate) fn is_wanted(
        &self,
        number: usize,
        owner: &[u8],
        record: &Record<'_>,
        sections: &Sections<'_>,
    ) -> bool {
        if sections.is_own {
            return true;
        }
        let rtype = record.rtype;
        if rtype == rtype::RRSIG && self.rtype != rtype::RRSIG {
            return self.dnssec_ok && self.signs(owner, covered(record), sections);
        }
        let is_link =
            |is_made: bool| self.links.iter().any(|link| link.answer == number && link.is_made == is_made);
        match rtype {
            rtype::CNAME => is_link(false),
            rtype::DNAME if is_link(true) || self.too_long == Some(number) => true,
            _ => self.is_data(owner, rtype),
        }
    }

    /// Whether a signature of records with this owner and type belongs to the answer.
    fn signs(&self, owner: &[u8], rtype: u16, sections: &Sections<'_>) -> bool {
        let is_of = |number: usize| sections.owner(&sections.answers[number]).eq_ignore_ascii_case(owner);
        match rtype {
            rtype::CNAME => {
                self.owners().any(|(name, link)| !link.is_made && name.eq_ignore_ascii_case(owner))
            }
            rtype::DNAME => {
                let mut used = self.links.iter().filter(|link| link.is_made).map(|link| link.answer);
                used.any(is_of) || self.too_long.is_some_and(is_of) || self.is_data(owner, rtype)
            }
            _ => self.is_data(owner, rtype),
        }
    }

    /// The aliases that follow from the DNAME record with this number: owners and targets.
    pub(crate) fn made_by(&self, number: usize) -> impl Iterator<Item = (&[u8], &[u8])> {
        let is_it = move |link: &Link| link.is_made && link.answer == number;
        self.owners().filter(move |(_, link)| is_it(link)).map(|(owner, link)| (owner, &link.target[..]))
    }
}

/// The number of a DNAME record above a name, among the answers. What the cache wrote has every alias itself.
fn dname_above(name: &[u8], sections: &Sections<'_>) -> Option<usize> {
    if sections.is_own {
        return None;
    }
    let is_it = |seen: &SectionRecord<'_>| {
        let owner = sections.owner(seen);
        seen.record.rtype == rtype::DNAME && name.len() > owner.len() && is_at_or_below(name, owner)
    };
    sections.answers.iter().position(is_it)
}

/// The target of an alias at a name. `None` if it is too long: a DNAME record replaces the end of the name, and a
/// server may have put another CNAME record beside it (RFC 6672, sections 3.1 and 3.4).
fn target(
    name: &[u8],
    sections: &Sections<'_>,
    answer: usize,
    is_made: bool,
) -> Result<Option<Vec<u8>>, Why> {
    let seen = &sections.answers[answer];
    let mut target = Vec::new();
    if is_made {
        target.extend_from_slice(&name[..name.len() - sections.owner(seen).len()]);
    }
    let data_at = seen.record.end - seen.record.data.len();
    canonical::expand_name(sections.reply, data_at, &mut target).ok_or(Why::Malformed)?;
    Ok(Some(target).filter(|target| target.len() <= NAME_BYTES_MAX))
}

/// The type of the first RRset of the name. That of a signature is only taken if there is nothing else.
fn first_type(name: &[u8], sections: &Sections<'_>) -> u16 {
    let of_name = sections.answers.iter().filter(|seen| sections.owner(seen).eq_ignore_ascii_case(name));
    let mut types = of_name.map(|seen| seen.record.rtype);
    types.find(|&rtype| rtype != rtype::RRSIG).unwrap_or(rtype::RRSIG)
}
