//! The parts of a reply, which are compared one by one.

use domain::base::Rtype;
use domain::base::iana::{Opcode, OptRcode, OptionCode};
use kqps_faults::enumeration;

use super::reply::{Normal, NormalOpt, Record, Reply, Section};

enumeration! {
    /// A part, with its name in reports and its bits in the second word of the header (RFC 1035, section 4.1.1; RFC 4035,
    /// section 3).
    pub(super) enum ReplyPart: (&'static str, u16) {
        /// Whether there is a reply.
        Reply => ("reply", 0),
        /// Whether its bytes are a well-formed message.
        Form => ("form", 0),
        Rcode => ("rcode", 0),
        Opcode => ("opcode", 0x7800),
        Aa => ("AA", 0x0400),
        Tc => ("TC", 0x0200),
        Rd => ("RD", 0x0100),
        Ra => ("RA", 0x0080),
        Z => ("Z", 0x0040),
        Ad => ("AD", 0x0020),
        Cd => ("CD", 0x0010),
        Question => ("question", 0),
        Answer => ("answer", 0),
        Authority => ("authority", 0),
        Additional => ("additional", 0),
        /// Whether there is an OPT record, and its version, DO and other flags.
        Opt => ("OPT", 0),
        /// EDNS options by their codes. Each depends on what a server offers.
        Nsid => ("NSID", 0),
        Cookie => ("cookie", 0),
        ExtendedError => ("extended error", 0),
        /// All other options.
        Options => ("other options", 0),
    }
}

impl ReplyPart {
    /// The part's name in reports.
    pub(super) fn name(self) -> &'static str {
        self.facts().0
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
                _ => (a.bits ^ b.bits) & self.facts().1 == 0,
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

    /// The contents of this part of a reply in words. Of a section, only records that not all replies have.
    pub(super) fn words(self, reply: &Reply, others: &[&Reply]) -> String {
        let Some(message) = reply.message() else { return "silence".into() };
        match self {
            Self::Reply => "a reply".into(),
            Self::Form if message.fault.is_empty() => "well-formed".into(),
            Self::Form => message.fault.clone(),
            Self::Rcode => OptRcode::masked_from_int(message.rcode).to_string(),
            Self::Opcode => {
                let [high, _] = message.bits.to_be_bytes();
                Opcode::from_int(high >> 3 & 0xf).to_string()
            }
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
                None => if message.bits & self.facts().1 == 0 { "clear" } else { "set" }.into(),
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
