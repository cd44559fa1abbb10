//! Reads a query: its question, and the records after it.

use kqps_message::record::Record;
use kqps_message::{HEADER_BYTES, Header, question, rcode, rtype};

use crate::name::Name;
use crate::respond::edns::{self, Edns};
use crate::respond::record::record;
use crate::respond::tsig;

/// The bytes of a question after its name.
const TAIL_BYTES: usize = 4;

/// The content of a query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query {
    /// The end of the question, up to which a reply copies the query. If there is no question to copy, it is the
    /// end of the header.
    pub end: usize,
    /// The type in the question.
    pub qtype: u16,
    /// The class in the question.
    pub qclass: u16,
    /// The content of its OPT record.
    pub edns: Option<Edns>,
    /// The position of its signature.
    pub tsig_at: Option<usize>,
    /// The serial number of the client's version of the zone, if the query has one.
    pub serial: Option<u32>,
    /// NOERROR, or FORMERR if the query is malformed.
    pub rcode: u16,
}

impl Query {
    /// Whether the query has a question that can be read.
    pub(crate) fn has_question(&self) -> bool {
        self.end > HEADER_BYTES
    }
}

/// Reads a message. The name in question goes into `name`, unless it is there already.
#[inline]
pub(crate) fn read(message: &[u8], header: Header<'_>, name: &mut Name) -> Query {
    let mut query = Query {
        end: HEADER_BYTES,
        qtype: 0,
        qclass: 0,
        edns: None,
        tsig_at: None,
        serial: None,
        rcode: rcode::FORMERR,
    };
    let records_at = match header.questions() {
        0 => Some(HEADER_BYTES),
        1 => {
            // A question's name has nothing before it to which a pointer could point.
            if !name.turn_to(&message[HEADER_BYTES..]) {
                return query;
            }
            let at = HEADER_BYTES + name.wire().len();
            let Some(&[t0, t1, c0, c1]) = message.get(at..).and_then(<[u8]>::first_chunk) else {
                return query;
            };
            query.qtype = u16::from_be_bytes([t0, t1]);
            query.qclass = u16::from_be_bytes([c0, c1]);
            query.end = at + TAIL_BYTES;
            Some(query.end)
        }
        // Several questions are not answered (RFC 9619, section 4), but an OPT record after them is found.
        _ => question::end(message),
    };
    if records_at.and_then(|at| read_records(message, header, at, &mut query)).is_none() {
        // EDNS and TSIG of a malformed message have no meaning.
        (query.edns, query.tsig_at) = (None, None);
    } else if header.questions() < 2 {
        query.rcode = rcode::NOERROR;
    }
    query
}

/// Reads the records after the questions, from `at` on. `None` if they are malformed, or more than the header
/// counts.
#[inline]
fn read_records(message: &[u8], header: Header<'_>, mut at: usize, query: &mut Query) -> Option<()> {
    for _ in 0..header.answers() {
        at = elsewhere(&record(message, at)?)?;
    }
    for _ in 0..header.authorities() {
        let record = record(message, at)?;
        at = elsewhere(&record)?;
        if query.qtype == rtype::IXFR && record.rtype == rtype::SOA {
            let numbers = record.data.len().checked_sub(20)?;
            let serial = record.data[numbers..].first_chunk()?;
            query.serial = Some(u32::from_be_bytes(*serial));
        }
    }
    let additionals = header.additionals();
    for number in 1..=additionals {
        let record = record(message, at)?;
        match record.rtype {
            rtype::OPT => {
                let is_second = query.edns.is_some();
                let is_of_root = message[at] == 0;
                if is_second || !is_of_root {
                    return None;
                }
                let edns = edns::read(record.class, record.ttl_s, record.data);
                if edns.version == 0 && !edns.is_well_formed {
                    return None;
                }
                query.edns = Some(edns);
            }
            rtype::TSIG => {
                tsig::read(message, at)?;
                query.tsig_at = Some(at);
                if number != additionals {
                    return None;
                }
            }
            _ => {}
        }
        at = record.end;
    }
    (at == message.len()).then_some(())
}

/// The end of a record, if it may stand outside the additional section.
fn elsewhere(record: &Record<'_>) -> Option<usize> {
    (record.rtype != rtype::OPT && record.rtype != rtype::TSIG).then_some(record.end)
}
