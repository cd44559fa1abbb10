//! Zones from text and replies as text, both through the `domain` crate, so that the tests trust neither the zone
//! crate's reader nor its writer. A zone's text has one record a line and only absolute names.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use bytes::Bytes;
use domain::base::iana::{Rcode, Rtype};
use domain::base::rdata::ComposeRecordData;
use domain::base::{Message, ParsedName, Record, ToName};
use domain::rdata::AllRecordData;
use domain::zonefile::inplace::{Entry as Line, Zonefile};
use kqps_message::{name, rtype};
use kqps_zone::{
    Asker, Batch, Builder, Compiled, Entry, Outcome, Responder, ResponderSettings, Transport, Zones,
};

/// A record of a text: line, owner, type, TTL, data.
pub(crate) type TextRecord = (u32, Vec<u8>, u16, u32, Vec<u8>);

/// Every record of a zone's text.
pub(crate) fn records(text: &str) -> Vec<TextRecord> {
    let mut records = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with(';') {
            continue;
        }
        let mut file = Zonefile::from(format!("{line}\n").as_str());
        file.set_origin(domain::base::Name::root_bytes());
        let entry = file.next_entry().unwrap_or_else(|error| panic!("{line}: {error}"));
        let Some(Line::Record(record)) = entry else { panic!("no record: {line}") };
        let (mut owner, mut data) = (Vec::new(), Vec::new());
        record.owner().compose(&mut owner).unwrap();
        record.data().compose_rdata(&mut data).unwrap();
        records.push((number as u32 + 1, owner, record.rtype().to_int(), record.ttl().as_secs(), data));
    }
    records
}

/// Compiles a zone's text, in `batches` batches and on `threads` threads.
pub(crate) fn compile(origin: &str, text: &str, batches: usize, threads: usize) -> Compiled {
    let records = records(text);
    let mut builder = Builder::new(&wire(origin));
    for chunk in records.chunks(records.len().div_ceil(batches).max(1)) {
        let mut batch = Batch::default();
        for (line, owner, rtype, ttl_s, data) in chunk {
            let record = kqps_zone::Record { owner, rtype: *rtype, ttl_s: *ttl_s, data, line: *line };
            assert!(batch.push(&record));
        }
        builder.add(batch);
    }
    builder.finish(threads)
}

/// The zone of a text without errors.
pub(crate) fn zone(origin: &str, text: &str) -> Entry {
    let compiled = compile(origin, text, 3, 2);
    Entry::Loaded(Arc::new(compiled.zone.unwrap_or_else(|| panic!("{:?}", compiled.faults))))
}

/// A name in wire form.
pub(crate) fn wire(text: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    name::encode(text.as_bytes(), &mut wire).unwrap();
    wire
}

/// How a question is asked.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) transport: Transport,
    /// The payload size of EDNS.
    pub(crate) edns: Option<u16>,
    pub(crate) dnssec_ok: bool,
    pub(crate) class: u16,
}

/// Over UDP without EDNS.
pub(crate) const PLAIN: Ask = Ask { transport: Transport::Udp, edns: None, dnssec_ok: false, class: 1 };
/// Over UDP with EDNS.
pub(crate) const EDNS: Ask = Ask { transport: Transport::Udp, edns: Some(4096), dnssec_ok: false, class: 1 };
/// Over UDP with EDNS and DO.
pub(crate) const DO: Ask = Ask { transport: Transport::Udp, edns: Some(4096), dnssec_ok: true, class: 1 };
/// Over TCP.
pub(crate) const TCP: Ask = Ask { transport: Transport::Tcp, edns: None, dnssec_ok: false, class: 1 };

/// The query for `question`, a name and a type.
pub(crate) fn query(question: &str, ask: &Ask) -> Vec<u8> {
    let (qname, qtype) = question.split_once(' ').expect("a name and a type");
    let mut query = vec![0x12, 0x34, 0x01, 0x10, 0, 1, 0, 0, 0, 0, 0, 0];
    query.extend(wire(qname));
    query.extend(rtype::parse(qtype.as_bytes()).expect("a type").to_be_bytes());
    query.extend(ask.class.to_be_bytes());
    if let Some(bytes) = ask.edns {
        query[11] = 1;
        query.extend([0, 0, 41]);
        query.extend(bytes.to_be_bytes());
        query.extend([0, 0, if ask.dnssec_ok { 0x80 } else { 0 }, 0, 0, 0]);
    }
    query
}

/// The idle time of connections, in units of 100 ms.
pub(crate) const IDLE_DS: u16 = 300;

/// A server with these zones.
pub(crate) struct Server {
    pub(crate) zones: Zones,
    pub(crate) responder: Responder,
}

impl Server {
    pub(crate) fn new(zones: impl IntoIterator<Item = Entry>) -> Self {
        let settings = ResponderSettings { udp_payload_bytes: 4096, ..ResponderSettings::default() };
        Self::with(zones, settings)
    }

    pub(crate) fn with(zones: impl IntoIterator<Item = Entry>, settings: ResponderSettings) -> Self {
        Self { zones: Zones::build(zones.into_iter()), responder: Responder::new(settings) }
    }

    /// The outcome of a message, and the buffer.
    pub(crate) fn respond(&mut self, message: &[u8], transport: Transport) -> (Outcome, Vec<u8>) {
        let mut buffer = message.to_vec();
        buffer.resize(65_535, 0xa5);
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let idle_ds = (transport == Transport::Tcp).then_some(IDLE_DS);
        let asker = Asker { address, transport, now_s: 1_800_000_000, idle_ds };
        let outcome = self.responder.respond(&self.zones, &mut buffer, message.len(), &asker);
        (outcome, buffer)
    }

    /// The reply to a message.
    pub(crate) fn reply(&mut self, message: &[u8], transport: Transport) -> Vec<u8> {
        let (outcome, mut buffer) = self.respond(message, transport);
        let Outcome::Reply(bytes) = outcome else { panic!("{outcome:?}") };
        buffer.truncate(bytes);
        buffer
    }

    /// The reply to a question as text.
    pub(crate) fn ask(&mut self, question: &str, ask: &Ask) -> String {
        shown(&self.reply(&query(question, ask), ask.transport))
    }
}

/// The data of a record in a reply.
pub(crate) type Data = AllRecordData<Bytes, ParsedName<Bytes>>;

/// The records of a section: 0 answer, 1 authority, 2 additional (without OPT).
pub(crate) fn section(reply: &[u8], number: usize) -> Vec<Record<ParsedName<Bytes>, Data>> {
    let message = Message::from_octets(Bytes::copy_from_slice(reply)).expect("a header");
    let (_, answer, authority, additional) = message.sections().expect("sections");
    let section = [answer, authority, additional].into_iter().nth(number).expect("one of three");
    section
        .map(|record| record.expect("a record"))
        .filter(|record| record.rtype() != Rtype::OPT)
        .map(|record| record.to_any_record::<Data>().expect("data of its type"))
        .collect()
}

/// A reply as text: rcode and flags, then every record except OPT with its section.
pub(crate) fn shown(reply: &[u8]) -> String {
    let message = Message::from_octets(Bytes::copy_from_slice(reply)).expect("a header");
    let header = message.header();
    let is_good = message.opt_rcode() == Rcode::NOERROR.into();
    let mut out = if is_good { "NOERROR".to_owned() } else { message.opt_rcode().to_string() };
    for (flag, name) in
        [(header.aa(), " aa"), (header.tc(), " tc"), (header.ra(), " ra"), (header.ad(), " ad")]
    {
        out.push_str(if flag { name } else { "" });
    }
    out.push('\n');
    for (number, title) in ["an", "ns", "ar"].iter().enumerate() {
        let mut lines: Vec<String> = section(reply, number).iter().map(line).collect();
        lines.sort();
        for line in lines {
            writeln!(out, "{title} {line}").unwrap();
        }
    }
    out
}

/// A record as a line. A signature is shown only as what it covers.
pub(crate) fn line(record: &Record<ParsedName<Bytes>, Data>) -> String {
    let mut owner = Vec::new();
    record.owner().compose(&mut owner).unwrap();
    let owner = name::NameText(&owner).to_string();
    let rtype = rtype::RtypeName(record.rtype().to_int());
    match record.data() {
        Data::Rrsig(signature) => {
            format!("{owner} {} RRSIG {}", record.ttl().as_secs(), signature.type_covered())
        }
        data => {
            let line = format!("{owner} {} {rtype} {data}", record.ttl().as_secs());
            line.trim_end().to_owned()
        }
    }
}

/// Lines without their indentation, as [`shown`] writes them.
pub(crate) fn lines(text: &str) -> String {
    text.trim().lines().fold(String::new(), |mut out, line| {
        writeln!(out, "{}", line.trim()).unwrap();
        out
    })
}

/// The text of a fixture.
pub(crate) fn fixture(name: &str) -> String {
    let path = format!("{}/tests/zones/{name}.zone", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}
