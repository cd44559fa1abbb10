//! The parts of a reply, which are compared one by one.

use domain::base::Rtype;
use domain::base::iana::{Opcode, OptRcode, OptionCode};
use strum::{IntoStaticStr, VariantArray};

use super::reply::{Normal, NormalOpt, Record, Reply, Section};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub(super) enum ReplyPart {
    /// Whether there is a reply.
    Reply,
    /// Whether its bytes are a well-formed message.
    Form,
    Rcode,
    Opcode,
    #[strum(serialize = "AA")]
    Aa,
    #[strum(serialize = "TC")]
    Tc,
    #[strum(serialize = "RD")]
    Rd,
    #[strum(serialize = "RA")]
    Ra,
    #[strum(serialize = "Z")]
    Z,
    #[strum(serialize = "AD")]
    Ad,
    #[strum(serialize = "CD")]
    Cd,
    Question,
    Answer,
    Authority,
    Additional,
    /// Whether there is an OPT record, and its version, DO and other flags.
    #[strum(serialize = "OPT")]
    Opt,
    /// EDNS options by their codes. Each depends on what a server offers.
    #[strum(serialize = "NSID")]
    Nsid,
    Cookie,
    #[strum(serialize = "extended error")]
    ExtendedError,
    /// All other options.
    #[strum(serialize = "other options")]
    Options,
}

impl ReplyPart {
    /// The part's name in reports.
    pub(super) fn name(self) -> &'static str {
        self.into()
    }

    /// Whether two replies are equal in this part. A reply without a message differs in [`ReplyPart::Reply`] only,
    /// and counts as equal in all other parts.
    pub(super) fn is_equal(self, one: &Reply, another: &Reply) -> bool {
        let (Some(a), Some(b)) = (one.message(), another.message()) else {
            return self != Self::Reply || one.message().is_none() == another.message().is_none();
        };
        match self {
            Self::Reply => true,
            Self::Form => a.fault == b.fault,
            Self::Rcode => a.rcode == b.rcode,
            Self::Question => a.question == b.question,
            Self::Opt => {
                let fixed = |opt: &NormalOpt| (opt.version, opt.flags);
                a.opt.as_ref().map(fixed) == b.opt.as_ref().map(fixed)
            }
            Self::Nsid | Self::Cookie | Self::ExtendedError | Self::Options => {
                self.options(a).eq(self.options(b))
            }
            _ => match (self.section(a), self.section(b)) {
                (Some(a), Some(b)) => a == b,
                _ => (a.bits ^ b.bits) & self.mask() == 0,
            },
        }
    }

    /// The section that the part stands for, if any.
    pub(super) fn section(self, message: &Normal) -> Option<&Section> {
        match self {
            Self::Answer => Some(&message.answer),
            Self::Authority => Some(&message.authority),
            Self::Additional => Some(&message.additional),
            _ => None,
        }
    }

    /// The options of a reply that belong to this part.
    fn options(self, message: &Normal) -> impl Iterator<Item = &(u16, Vec<u8>)> {
        let all = message.opt.iter().flat_map(|opt| &opt.options);
        all.filter(move |(code, _)| self == Self::of_option(*code))
    }

    /// The part to which an option with this code belongs.
    pub(super) fn of_option(code: u16) -> Self {
        match OptionCode::from_int(code) {
            OptionCode::NSID => Self::Nsid,
            OptionCode::COOKIE => Self::Cookie,
            OptionCode::EXTENDED_ERROR => Self::ExtendedError,
            _ => Self::Options,
        }
    }

    /// The part's bits in the second word of the header (RFC 1035, section 4.1.1; RFC 4035, section 3).
    fn mask(self) -> u16 {
        match self {
            Self::Opcode => 0x7800,
            Self::Aa => 0x0400,
            Self::Tc => 0x0200,
            Self::Rd => 0x0100,
            Self::Ra => 0x0080,
            Self::Z => 0x0040,
            Self::Ad => 0x0020,
            Self::Cd => 0x0010,
            _ => 0,
        }
    }

    /// The contents of this part of a reply in words. Of a section, only records that not all replies have.
    pub(super) fn words(self, reply: &Reply, others: &[&Reply]) -> String {
        let Some(message) = reply.message() else { return "silence".into() };
        match self {
            Self::Reply => "a reply".into(),
            Self::Form if message.fault.is_empty() => "well-formed".into(),
            Self::Form => message.fault.clone(),
            Self::Rcode => OptRcode::masked_from_int(message.rcode).to_string(),
            Self::Opcode => Opcode::from_int((message.bits >> 11 & 0xf) as u8).to_string(),
            Self::Question if message.question.is_empty() => "none".into(),
            Self::Question => "there".into(),
            Self::Opt => message.opt.as_ref().map_or_else(|| "none".into(), ToString::to_string),
            Self::Nsid | Self::Cookie | Self::ExtendedError | Self::Options => {
                let words = |(code, data): &(u16, Vec<u8>)| {
                    format!("{} of {} bytes", OptionCode::from_int(*code), data.len())
                };
                let words: Vec<String> = self.options(message).map(words).collect();
                if words.is_empty() { "none".into() } else { words.join(", ") }
            }
            _ => match self.section(message) {
                Some(section) => types(&self.own(section, others)),
                None => if message.bits & self.mask() == 0 { "clear" } else { "set" }.into(),
            },
        }
    }

    /// The records of a section that not all of the other replies have.
    pub(super) fn own<'s>(self, section: &'s Section, others: &[&Reply]) -> Vec<&'s Record> {
        let others: Vec<&Section> =
            others.iter().filter_map(|other| self.section(other.message()?)).collect();
        let is_common = |record: &&Record| others.iter().all(|other| other.records.contains(record));
        section.records.iter().filter(|record| !is_common(record)).collect()
    }
}

/// If there are more types than this, the rest is only counted.
const TYPES_NAMED: usize = 3;

/// The types of records as words, each once. Signatures are named only if there is nothing else.
fn types(records: &[&Record]) -> String {
    let is_signature = |record: &&&Record| record.rtype == Rtype::RRSIG.to_int();
    let mut words: Vec<String> = records
        .iter()
        .filter(|record| !is_signature(record))
        .map(|record| Rtype::from_int(record.rtype).to_string())
        .collect();
    words.sort();
    words.dedup();
    match words.len() {
        0 if records.iter().any(|record| is_signature(&record)) => "signatures".into(),
        0 => "nothing more".into(),
        1..=TYPES_NAMED => words.join(", "),
        many => format!("{many} types"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_as_they_are() {
        let expected = "reply, form, rcode, opcode, AA, TC, RD, RA, Z, AD, CD, question, answer, authority, \
             additional, OPT, NSID, cookie, extended error, other options";
        let names: Vec<&str> = ReplyPart::VARIANTS.iter().map(|part| part.name()).collect();
        assert_eq!(names.join(", "), expected);
    }
}
