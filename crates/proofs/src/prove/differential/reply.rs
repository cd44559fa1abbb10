//! The normal form of a reply, read with the crate `domain`: names in lower case and uncompressed, records
//! sorted except for chains, and the whole extended rcode. Two replies with the same contents have equal
//! normal forms.

use std::fmt;

use domain::base::iana::OptionCode;
use domain::base::message::RecordSection;
use domain::base::name::{ParsedName, ToName as _};
use domain::base::opt::{Opt, UnknownOptData};
use domain::base::rdata::{ComposeRecordData as _, ParseAnyRecordData as _};
use domain::base::wire::ParseError;
use domain::base::{Message, Name, Rtype};
use domain::dep::octseq::Parser;
use domain::rdata::AllRecordData;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// No reply, after several tries.
    Silence,
    Message(Box<Normal>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Normal {
    /// The fault in its bytes; empty if there is none.
    pub(super) fault: String,
    /// The second word of the header.
    pub(super) bits: u16,
    /// With the upper bits from OPT.
    pub(super) rcode: u16,
    /// As it was sent back, byte by byte.
    pub(super) question: Vec<u8>,
    pub(super) answer: Section,
    pub(super) authority: Section,
    /// Without OPT.
    pub(super) additional: Section,
    pub(super) opt: Option<NormalOpt>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Section {
    /// CNAME and DNAME records in their order, in which a client follows them.
    pub(super) chain: Vec<Record>,
    /// All records, sorted. A record that was sent twice is here twice.
    pub(super) records: Vec<Record>,
}

/// A record with canonical bytes (RFC 4034, section 6.2), but with the TTL of the reply.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Record {
    pub(super) owner: Vec<u8>,
    pub(super) rtype: u16,
    pub(super) class: u16,
    pub(super) data: Vec<u8>,
    pub(super) ttl: u32,
}

/// The contents of an OPT record, except for the sender's payload size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NormalOpt {
    pub(super) version: u8,
    /// DO and the reserved flags.
    pub(super) flags: u16,
    /// Codes and data, sorted. Of a cookie only the client's part, since each server makes its own part.
    pub(super) options: Vec<(u16, Vec<u8>)>,
}

/// Bytes of a client cookie (RFC 7873, section 4).
const CLIENT_COOKIE: usize = 8;

impl Reply {
    pub(super) fn read(bytes: Option<&[u8]>) -> Self {
        let Some(bytes) = bytes else { return Self::Silence };
        let mut normal = Normal::default();
        if let Err(error) = normal.fill(bytes) {
            normal.fault = error.to_string();
        }
        Self::Message(Box::new(normal))
    }

    /// The normal form; `None` without a message.
    pub(super) fn message(&self) -> Option<&Normal> {
        match self {
            Self::Silence => None,
            Self::Message(normal) => Some(normal),
        }
    }
}

impl Normal {
    /// Reads all that can be read. Parts before an error stay.
    fn fill(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let message = Message::from_slice(bytes).map_err(|_| Fault("shorter than a header".into()))?;
        self.bits = u16::from_be_bytes([bytes[2], bytes[3]]);
        self.rcode = self.bits & 0xf;
        let answer = message.answer()?;
        self.question = bytes[12..answer.pos()].to_vec();
        self.answer = self.section(answer)?;
        let authority = answer.next_section()?.expect("the second of three");
        self.authority = self.section(authority)?;
        let additional = authority.next_section()?.expect("the third of three");
        self.additional = self.section(additional)?;
        let end = end_of(additional)?;
        if end != bytes.len() {
            return Err(Fault(format!("{} bytes behind its records", bytes.len() - end)));
        }
        Ok(())
    }

    /// Reads the records of a section, and removes OPT from them.
    fn section(&mut self, records: RecordSection<'_, [u8]>) -> Result<Section, Fault> {
        let mut section = Section::default();
        for record in records {
            let record = record?;
            if record.rtype() == Rtype::OPT {
                self.take_opt(&record.to_record::<Opt<_>>()?.expect("it is OPT"))?;
                continue;
            }
            let owner = record.owner().to_canonical_name::<Vec<u8>>().into_octets();
            let (rtype, class, ttl) = (record.rtype(), record.class().to_int(), record.ttl().as_secs());
            let parsed = record.into_any_record::<AllRecordData<_, ParsedName<_>>>()?;
            let mut data = Vec::new();
            match parsed.data() {
                // Time and MAC differ from server to server.
                AllRecordData::Tsig(tsig) => data.extend(tsig.error().to_int().to_be_bytes()),
                other => {
                    other.compose_canonical_rdata(&mut data).map_err(|_| Fault("data too long".into()))?;
                }
            }
            let record = Record { owner, rtype: rtype.to_int(), class, data, ttl };
            if [Rtype::CNAME, Rtype::DNAME].contains(&rtype) {
                section.chain.push(record.clone());
            }
            section.records.push(record);
        }
        section.records.sort();
        Ok(section)
    }

    fn take_opt(
        &mut self,
        record: &domain::base::Record<ParsedName<&[u8]>, Opt<&[u8]>>,
    ) -> Result<(), Fault> {
        if self.opt.is_some() {
            return Err(Fault("two OPT records".into()));
        }
        let [rcode, version, flags @ ..] = record.ttl().as_secs().to_be_bytes();
        self.rcode |= u16::from(rcode) * 16;
        let mut options = Vec::new();
        for option in record.data().iter::<UnknownOptData<_>>() {
            let option = option?;
            let data = option.as_slice();
            let is_cookie = option.code() == OptionCode::COOKIE;
            let kept = if is_cookie { &data[..data.len().min(CLIENT_COOKIE)] } else { data };
            options.push((option.code().to_int(), kept.to_vec()));
        }
        options.sort();
        self.opt = Some(NormalOpt { version, flags: u16::from_be_bytes(flags), options });
        Ok(())
    }
}

/// The offset of the message's end.
fn end_of(mut section: RecordSection<'_, [u8]>) -> Result<usize, Fault> {
    for record in section.by_ref() {
        record?;
    }
    Ok(section.pos())
}

impl fmt::Display for Record {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rtype = Rtype::from_int(self.rtype);
        let owner = Name::from_slice(&self.owner).map_err(|_| fmt::Error)?;
        write!(out, "{} {} {rtype} ", owner.fmt_with_dot(), self.ttl)?;
        let mut parser = Parser::from_ref(self.data.as_slice());
        match AllRecordData::<_, ParsedName<_>>::parse_any_rdata(rtype, &mut parser) {
            Ok(data) => write!(out, "{data}"),
            Err(_) => write!(out, "{:02x?}", self.data),
        }
    }
}

impl fmt::Display for NormalOpt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "version {}, flags {:04x}", self.version, self.flags)
    }
}

/// A fault in the bytes of a reply.
struct Fault(String);

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl From<ParseError> for Fault {
    fn from(error: ParseError) -> Self {
        Self(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: [u8; 14] = [0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1];
    const TO_X: [u8; 14] = [0, 5, 0, 1, 0, 0, 0, 60, 0, 4, 1, b'x', 0xc0, 12];

    /// A reply to `aB. A`, with these counts of answer and additional records.
    fn reply(answers: u8, additional: u8, records: &[&[u8]]) -> Vec<u8> {
        let mut bytes = vec![0, 1, 0x84, 0, 0, 1, 0, answers, 0, 0, 0, additional];
        bytes.extend(b"\x02aB\0\0\x01\0\x01");
        bytes.extend(records.concat());
        bytes
    }

    fn read(bytes: &[u8]) -> Normal {
        Reply::read(Some(bytes)).message().unwrap().clone()
    }

    #[test]
    fn case_compression_and_order_do_not_matter() {
        let another = [0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 2];
        let compressed = read(&reply(2, 0, &[&[0xc0, 12], &A, &[0xc0, 12], &another]));
        let plain = read(&reply(2, 0, &[b"\x02Ab\0", &another, b"\x02aB\0", &A]));
        assert_eq!(compressed, plain);
        assert_eq!(plain.fault, "");
        assert_eq!(plain.answer.records[0].to_string(), "ab. 60 A 192.0.2.1");
    }

    #[test]
    fn ttl_question_and_number_matter() {
        let one = read(&reply(1, 0, &[&[0xc0, 12], &A]));
        let mut later = A;
        later[7] = 61;
        assert_ne!(one, read(&reply(1, 0, &[&[0xc0, 12], &later])));
        assert_ne!(one, read(&reply(2, 0, &[&[0xc0, 12], &A, &[0xc0, 12], &A])), "there twice");
        let mut other_case = reply(1, 0, &[&[0xc0, 12], &A]);
        other_case[13] = b'A';
        assert_ne!(one, read(&other_case));
    }

    #[test]
    fn the_order_of_a_chain_matters() {
        let links: [&[u8]; 2] = [&[&[0xc0, 12], &TO_X[..]].concat(), &[b"\x01x\xc0\x0c", &TO_X[..]].concat()];
        let (forth, back) = (read(&reply(2, 0, &links)), read(&reply(2, 0, &[links[1], links[0]])));
        assert_eq!(forth.answer.records, back.answer.records);
        assert_ne!(forth.answer, back.answer);
    }

    #[test]
    fn opt_is_apart_with_the_rcode_and_without_the_servers_cookie() {
        let opt = |cookie: &[u8]| {
            let mut bytes = vec![0, 0, 41, 4, 208, 1, 0, 0x80, 0, 0, 4 + cookie.len() as u8, 0, 10, 0];
            bytes.push(cookie.len() as u8);
            bytes.extend(cookie);
            read(&reply(0, 1, &[&bytes]))
        };
        let one = opt(b"a client's, and then a server's");
        assert_eq!((one.rcode, one.additional.records.len()), (16, 0));
        assert_eq!(one.opt.as_ref().unwrap().flags, 0x8000);
        assert_eq!(one, opt(b"a client's, and so on"));
        assert_ne!(one, opt(b"another client's"));
    }

    #[test]
    fn what_is_wrong_with_the_bytes_is_named() {
        let whole = reply(1, 0, &[&[0xc0, 12], &A]);
        assert_eq!(read(&[&whole[..], &[0, 0]].concat()).fault, "2 bytes behind its records");
        assert_ne!(read(&whole[..whole.len() - 1]).fault, "");
        assert_eq!(read(&whole[..11]).fault, "shorter than a header");
        assert_eq!(Reply::read(None), Reply::Silence);
    }
}
