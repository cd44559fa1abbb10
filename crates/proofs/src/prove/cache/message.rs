//! Queries and replies of these proofs, written by hand so that they can be wrong in every way.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use domain::base::Message;
use domain::base::iana::Rtype;
use domain::rdata::AllRecordData;
use kqps_message::{HEADER_BYTES, name, rtype};

/// The type and the class of a question for addresses.
const A: [u8; 4] = [0, 1, 0, 1];

/// A pointer to the name of the question.
pub(super) const ASKED: [u8; 2] = [0xc0, 12];

/// The ID of the query with this number: its end.
pub(super) fn id(number: u64) -> u16 {
    let [.., high, low] = number.to_be_bytes();
    u16::from_be_bytes([high, low])
}

/// A query with RD for the addresses of a name.
pub(super) fn query(id: u16, name: &str) -> Vec<u8> {
    let mut query = id.to_be_bytes().to_vec();
    query.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    query.extend(wire(name));
    query.extend(A);
    query
}

/// A name in wire form.
pub(super) fn wire(text: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    name::encode(text.as_bytes(), &mut wire).expect("a name of these proofs");
    wire
}

/// The position just after the question of a message; that of the header's end if there is none.
pub(super) fn question_end(message: &[u8]) -> usize {
    name::literal_end(message, HEADER_BYTES).map_or(HEADER_BYTES, |end| (end + A.len()).min(message.len()))
}

/// The name of a message's question in lower case, in wire form.
pub(super) fn asked(message: &[u8]) -> Vec<u8> {
    let end = name::literal_end(message, HEADER_BYTES).unwrap_or(HEADER_BYTES);
    message.get(HEADER_BYTES..end).unwrap_or_default().to_ascii_lowercase()
}

/// A reply without records, with this rcode.
pub(super) fn empty(query: &[u8], rcode: u8) -> Vec<u8> {
    let mut reply = query[..question_end(query)].to_vec();
    (reply[2], reply[3]) = (0x80 | query[2] & 1, 0x80 | rcode);
    reply[6..HEADER_BYTES].fill(0);
    reply
}

/// Adds a record to a section: 0 for answers, 1 for the authority section, 2 for additional records.
pub(super) fn add(reply: &mut Vec<u8>, section: usize, owner: &[u8], rtype: u16, ttl_s: u32, data: &[u8]) {
    reply[7 + 2 * section] += 1;
    reply.extend(owner);
    reply.extend([rtype.to_be_bytes(), [0, 1]].concat());
    reply.extend(ttl_s.to_be_bytes());
    reply.extend(u16::try_from(data.len()).expect("a record has 65,535 bytes at most").to_be_bytes());
    reply.extend(data);
}

/// Adds the SOA record of a denial, by which it may be kept for so many seconds.
pub(super) fn add_soa(reply: &mut Vec<u8>, zone: &[u8], ttl_s: u32, denied_s: u32) {
    let numbers = [1, 3600, 600, 86_400, denied_s].into_iter().flat_map(u32::to_be_bytes);
    add(reply, 1, zone, rtype::SOA, ttl_s, &[0, 0].into_iter().chain(numbers).collect::<Vec<u8>>());
}

/// A reply with one address.
pub(super) fn address(query: &[u8], ttl_s: u32, address: [u8; 4]) -> Vec<u8> {
    let mut reply = empty(query, 0);
    add(&mut reply, 0, &ASKED, rtype::A, ttl_s, &address);
    reply
}

/// Adds a record of another name behind a reply's records, in this section.
pub(super) fn with_foreign(mut reply: Vec<u8>, section: usize, name: &str, address: [u8; 4]) -> Vec<u8> {
    add(&mut reply, section, &wire(name), rtype::A, 4096, &address);
    reply
}

/// The client cookie of a query whose only additional record is an OPT record with that option.
pub(super) fn cookie(query: &[u8]) -> Option<&[u8]> {
    let options = query.get(question_end(query) + 11..)?;
    options.get(4..12).filter(|_| options[..2] == [0, 10])
}

/// Adds a cookie to a reply: that of the client, and 8 bytes of the server.
pub(super) fn with_cookie(mut reply: Vec<u8>, client: &[u8], server: [u8; 8]) -> Vec<u8> {
    reply[11] += 1;
    reply.extend([0, 0, 41, 4, 0xd0, 0, 0, 0, 0, 0, 20, 0, 10, 0, 16]);
    reply.extend(client);
    reply.extend(server);
    reply
}

/// The addresses in a reply, whose records have pointers as names.
pub(super) fn addresses(reply: &[u8]) -> Vec<[u8; 4]> {
    let records = reply.get(question_end(reply)..).unwrap_or_default();
    let count = usize::from(reply[7]);
    records.chunks_exact(16).take(count).filter_map(|record| record.last_chunk().copied()).collect()
}

/// Owner, type and data of a record, in presentation form without the last dots.
pub(super) type RecordText = (String, u16, String);

/// A reply, as far as it must be right: the rcode, and the answers with their TTLs in seconds. In the right answer these
/// are the longest that they may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) rcode: u8,
    pub(super) answers: BTreeMap<RecordText, u32>,
}

/// Reads a reply.
pub(super) fn said(reply: &[u8]) -> Result<Reply> {
    let message = Message::from_octets(reply).context("no header")?;
    let mut answers = BTreeMap::new();
    for record in message.answer().context("an answer section")? {
        let record = record.context("a record")?;
        let record = record.to_any_record::<AllRecordData<_, _>>().context("the data of a record")?;
        let data = match record.data() {
            AllRecordData::A(address) => address.addr().to_string(),
            AllRecordData::Cname(alias) => alias.cname().to_string(),
            AllRecordData::Dname(alias) => alias.dname().to_string(),
            other => format!("{other:?}"),
        };
        let record_text =
            (record.owner().to_string().to_ascii_lowercase(), Rtype::to_int(record.rtype()), data);
        let before = answers.insert(record_text, record.ttl().as_secs());
        ensure!(before.is_none(), "a record twice: {:?}", record.owner());
    }
    Ok(Reply { rcode: reply[3] & 0x0f, answers })
}
