//! Replies from text and answers as text, both through the `domain` crate, so that the tests trust neither the cache's
//! reader nor its writer.

use std::fmt::Write as _;

use bytes::Bytes;
use domain::base::iana::{Rcode, Rtype};
use domain::base::rdata::ComposeRecordData;
use domain::base::{Message, ParsedName, Record, ToName};
use domain::rdata::AllRecordData;
use domain::zonefile::inplace::{Entry as Line, Zonefile};
use kqps_cache::{Answered, Bailiwick, Failure, Form, Purpose, Put, Question, Settings, Shared};
use kqps_message::header::{AA, AD as AD_BIT, CD as CD_BIT, QR, RA, RD, TC};
use kqps_message::{HEADER_BYTES, edns, name, question, rcode, rtype};

/// The time at which servers begin, in seconds.
const BEGIN_S: u64 = 1_800_000_000;

/// How a question is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    /// The version of EDNS.
    pub(crate) edns: Option<u8>,
    pub(crate) dnssec_ok: bool,
    pub(crate) checking_disabled: bool,
    pub(crate) authentic: bool,
}

/// Without EDNS.
pub(crate) const PLAIN: Ask =
    Ask { edns: None, dnssec_ok: false, checking_disabled: false, authentic: false };
/// With EDNS.
pub(crate) const EDNS: Ask = Ask { edns: Some(0), ..PLAIN };
/// With EDNS and DO.
pub(crate) const DO: Ask = Ask { dnssec_ok: true, ..EDNS };
/// With CD.
pub(crate) const CD: Ask = Ask { checking_disabled: true, ..PLAIN };
/// With AD.
pub(crate) const AD: Ask = Ask { authentic: true, ..PLAIN };

/// A name in wire form.
pub(crate) fn wire(text: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    name::encode(text.as_bytes(), &mut wire).unwrap();
    wire
}

/// The name and the type of a question, such as `www.example. A`.
fn parts(question: &str) -> (Vec<u8>, u16) {
    let (qname, qtype) = question.split_once(' ').expect("a name and a type");
    (wire(qname), rtype::parse(qtype.as_bytes()).expect("a type"))
}

/// The query for a question.
pub(crate) fn query(question: &str, ask: Ask) -> Vec<u8> {
    let (qname, qtype) = parts(question);
    let authentic = if ask.authentic { AD_BIT } else { 0 };
    let checking_disabled = if ask.checking_disabled { CD_BIT } else { 0 };
    let mut query = vec![0x12, 0x34, RD, authentic | checking_disabled, 0, 1, 0, 0, 0, 0, 0, 0];
    query.extend(qname);
    query.extend(qtype.to_be_bytes());
    query.extend([0, 1]);
    if let Some(version) = ask.edns {
        query[11] = 1;
        // 4096 bytes, and a cookie.
        query.extend([0, 0, 41, 16, 0, 0, version, if ask.dnssec_ok { 0x80 } else { 0 }, 0, 0, 12]);
        query.extend(b"\0\x0a\0\x0812345678");
    }
    query
}

/// The reply to a question from text. The first line has the rcode and flags, and each other line a section (an, ns or
/// ar) and a record.
pub(crate) fn reply(question: &str, text: &str) -> Vec<u8> {
    let (qname, qtype) = parts(question);
    let mut lines = text.trim().lines().map(str::trim);
    let mut words = lines.next().expect("a line").split(' ');
    let rcode = rcode::parse(words.next().unwrap_or_default().as_bytes()).expect("an rcode");
    let mut reply = vec![0x12, 0x34, QR | RD, RA | rcode as u8, 0, 1, 0, 0, 0, 0, 0, 0];
    for word in words {
        match word {
            "aa" => reply[2] |= AA,
            "tc" => reply[2] |= TC,
            "ad" => reply[3] |= AD_BIT,
            _ => panic!("no flag: {word}"),
        }
    }
    reply.extend(qname);
    reply.extend(qtype.to_be_bytes());
    reply.extend([0, 1]);
    for line in lines {
        let (section, record) = line.split_once(' ').expect("a section and a record");
        let count = ["an", "ns", "ar"].iter().position(|name| *name == section).expect("a section");
        reply[7 + 2 * count] += 1;
        append_record(record, &mut reply);
    }
    reply
}

/// Appends a record, such as `www.example. 60 IN A 192.0.2.1`, without compression.
fn append_record(line: &str, out: &mut Vec<u8>) {
    let mut file = Zonefile::from(format!("{line}\n").as_str());
    file.set_origin(domain::base::Name::root_bytes());
    let entry = file.next_entry().unwrap_or_else(|error| panic!("{line}: {error}"));
    let Some(Line::Record(record)) = entry else { panic!("no record: {line}") };
    let mut data = Vec::new();
    record.data().compose_rdata(&mut data).unwrap();
    record.owner().compose(out).unwrap();
    out.extend(record.rtype().to_int().to_be_bytes());
    out.extend(record.class().to_int().to_be_bytes());
    out.extend(record.ttl().as_secs().to_be_bytes());
    out.extend((data.len() as u16).to_be_bytes());
    out.extend(data);
}

/// A cache with a clock that the test moves.
pub(crate) struct Server {
    pub(crate) cache: Shared,
    pub(crate) now_s: u64,
    /// The most bytes of an answer.
    pub(crate) limit_bytes: usize,
}

impl Server {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self { cache: Shared::for_one(settings, [32, 9520]), now_s: BEGIN_S, limit_bytes: 65_535 }
    }

    /// Puts a reply of a server for all names in.
    pub(crate) fn put(&mut self, question: &str, ask: Ask, text: &str) -> Put {
        self.put_of(".", question, ask, &reply(question, text))
    }

    /// Puts the reply of a server for a zone in.
    pub(crate) fn put_of(&mut self, zone: &str, question: &str, ask: Ask, reply: &[u8]) -> Put {
        let (qname, rtype) = parts(question);
        let qname = qname.to_ascii_lowercase();
        let asked = asked(&qname, rtype, ask);
        match self.cache.read(&asked, reply, &Bailiwick::from_zone(&wire(zone))) {
            Ok(reply) => self.cache.keep(&asked, &reply, self.now_s),
            Err(why) => Put::NotKept(why),
        }
    }

    /// Reports that a server answered a question with nothing of use.
    pub(crate) fn failed(&mut self, question: &str, ask: Ask) {
        self.fails(question, ask, Failure::Unusable);
    }

    /// Reports that a question failed.
    pub(crate) fn fails(&mut self, question: &str, ask: Ask, failure: Failure) {
        let (qname, rtype) = parts(question);
        self.cache.failed(&asked(&qname, rtype, ask), failure, self.now_s);
    }

    /// The answer to a question as text, after a word if it is not an ordinary hit.
    pub(crate) fn ask(&mut self, question: &str, ask: Ask) -> String {
        let (word, reply) = self.answer(question, ask);
        if reply.is_empty() { format!("{word}\n") } else { word.to_owned() + &shown(&reply) }
    }

    /// The answer to a question in bytes, and what it is.
    pub(crate) fn answer(&mut self, question: &str, ask: Ask) -> (&'static str, Vec<u8>) {
        let (qname, rtype) = parts(question);
        let query = query(question, ask);
        let mut buffer = query.clone();
        buffer.resize(65_535, 0xa5);
        let asked = asked(&qname, rtype, ask);
        let key = self.cache.key(&asked).expect("a name");
        let question_end = question::end(&query).expect("a question");
        let form = Form { question_end, dnssec_ok: ask.edns.map(|_| ask.dnssec_ok) };
        let (limit_bytes, now_s) = (self.limit_bytes, self.now_s);
        let answered = self.cache.answer_read(&key, form, &mut buffer, limit_bytes, now_s, Purpose::Client);
        let (word, bytes) = match answered {
            Answered::Hit { bytes, prefetch: false } => ("", bytes),
            Answered::Hit { bytes, prefetch: true } => ("prefetch ", bytes),
            Answered::Stale { bytes } => ("stale ", bytes),
            Answered::Failed { bytes } => ("failed ", bytes),
            Answered::Miss => {
                assert_eq!(buffer[..query.len()], query, "a miss changes nothing");
                return ("miss", Vec::new());
            }
        };
        buffer.truncate(bytes);
        is_reply_to(&query, &buffer);
        (word, buffer)
    }
}

fn asked(name: &[u8], rtype: u16, ask: Ask) -> Question<'_> {
    let Ask { dnssec_ok, checking_disabled, .. } = ask;
    Question { name, rtype, class: 1, dnssec_ok, checking_disabled }
}

/// A reply repeats the query's ID, RD, CD and question, byte for byte, and has EDNS if and only if the query has it.
fn is_reply_to(query: &[u8], reply: &[u8]) {
    let end = question::end(query).unwrap();
    assert_eq!((&reply[..2], &reply[HEADER_BYTES..end]), (&query[..2], &query[HEADER_BYTES..end]));
    assert_eq!(reply[2] & !TC, QR | RD);
    assert_eq!(reply[3] & (RA | CD_BIT), RA | query[3] & CD_BIT);
    let [asked, replied] = [query, reply].map(|message| edns::find(message).unwrap());
    assert_eq!(replied.is_some(), asked.is_some());
    if let (Some(asked), Some(replied)) = (asked, replied) {
        assert_eq!((replied.class, replied.ttl_s, replied.data), (1232, asked.ttl_s & edns::DO, &[][..]));
    }
}

type Data = AllRecordData<Bytes, ParsedName<Bytes>>;

/// A reply as text: rcode and flags, then every record except OPT with its section.
pub(crate) fn shown(reply: &[u8]) -> String {
    let message = Message::from_octets(Bytes::copy_from_slice(reply)).expect("a header");
    let header = message.header();
    let is_good = message.opt_rcode() == Rcode::NOERROR.into();
    let mut out = if is_good { "NOERROR".to_owned() } else { message.opt_rcode().to_string() };
    for (flag, name) in [(header.aa(), " aa"), (header.tc(), " tc"), (header.ad(), " ad")] {
        out.push_str(if flag { name } else { "" });
    }
    out.push('\n');
    let (_, answer, authority, additional) = message.sections().expect("sections");
    for (section, title) in [(answer, "an"), (authority, "ns"), (additional, "ar")] {
        for record in section {
            let record = record.expect("a record");
            if record.rtype() != Rtype::OPT {
                let record = record.to_any_record::<Data>().expect("data of its type");
                writeln!(out, "{title} {}", line(&record)).unwrap();
            }
        }
    }
    out
}

/// A record as a line. A signature is shown only as what it covers.
fn line(record: &Record<ParsedName<Bytes>, Data>) -> String {
    let mut owner = Vec::new();
    record.owner().compose(&mut owner).unwrap();
    let owner = name::NameText(&owner).to_string();
    let rtype = rtype::RtypeName(record.rtype().to_int());
    let ttl_s = record.ttl().as_secs();
    match record.data() {
        Data::Rrsig(signature) => format!("{owner} {ttl_s} RRSIG {}", signature.type_covered()),
        data => format!("{owner} {ttl_s} {rtype} {data}").trim_end().to_owned(),
    }
}

/// Lines without their indentation, as [`shown`] writes them.
pub(crate) fn lines(text: &str) -> String {
    text.trim().lines().fold(String::new(), |mut out, line| {
        writeln!(out, "{}", line.trim()).unwrap();
        out
    })
}

/// Asks, and compares the answer with these lines.
#[track_caller]
pub(crate) fn check(server: &mut Server, question: &str, ask: Ask, expected: &str) {
    assert_eq!(server.ask(question, ask), lines(expected), "{question}");
}
