//! The parts of a query that the server reads.

use kqps_cache::Form;
use kqps_message::edns::{DO, are_options, opt_record};
use kqps_message::header::{AD, CD, HEADER_BYTES, Header, OPCODE, QR, RD};
use kqps_message::query::CLASS_IN;
use kqps_message::question::QUESTION_TAIL_BYTES;
use kqps_message::{name, rcode, record, rtype};
use kqps_server::counts::Cause;

/// The longest reply over UDP to a client without EDNS, in bytes (RFC 1035, section 4.2.1), and the least that a client
/// with EDNS takes (RFC 6891, section 6.2.3).
const PLAIN_PAYLOAD_BYTES: u16 = 512;

/// The one question of a query, and what its client takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParsedQuery {
    /// The length of the name, which follows the header, in bytes.
    name_bytes: u8,
    pub(crate) rtype: u16,
    /// Whether the client wants DNSSEC records (DO).
    pub(crate) dnssec_ok: bool,
    /// Whether the client wants answers that were not validated (CD).
    pub(crate) checking_disabled: bool,
    /// The longest datagram that the client takes; `None` without EDNS.
    pub(crate) payload_bytes: Option<u16>,
}

/// Why a query is not looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It gets no answer.
    Drop(Cause),
    /// It is answered with this rcode.
    Say(u16),
}

impl ParsedQuery {
    /// Reads a query. Only one whole question of class IN is looked up, with EDNS of version 0 or none, and only for
    /// clients that want the server to find the answer (RD). Zone transfers are refused.
    #[inline]
    pub(crate) fn from_query(query: &[u8]) -> Result<Self, Refusal> {
        if query.len() < HEADER_BYTES {
            return Err(Refusal::Drop(Cause::QueryTooShort));
        }
        if query[2] & QR != 0 {
            return Err(Refusal::Drop(Cause::IsResponse));
        }
        if query[2] & OPCODE != 0 {
            return Err(Refusal::Say(rcode::NOTIMP));
        }
        if query[4..6] != [0, 1] {
            return Err(Refusal::Say(rcode::FORMERR));
        }
        let name_end = name::literal_end(query, HEADER_BYTES).ok_or(Refusal::Say(rcode::FORMERR))?;
        let tail = query.get(name_end..name_end + QUESTION_TAIL_BYTES);
        let Some(&[t0, t1, c0, c1]) = tail else { return Err(Refusal::Say(rcode::FORMERR)) };
        let opt = opt(query, name_end + QUESTION_TAIL_BYTES).map_err(Refusal::Say)?;
        let rtype = u16::from_be_bytes([t0, t1]);
        if u16::from_be_bytes([c0, c1]) != CLASS_IN || query[2] & RD == 0 {
            return Err(Refusal::Say(rcode::REFUSED));
        }
        match rtype {
            // Types of records about a message (TKEY, TSIG) are no question (RFC 6895, section 3.1).
            0 | rtype::OPT | 249 | rtype::TSIG => return Err(Refusal::Say(rcode::FORMERR)),
            // IXFR, AXFR, MAILB and MAILA.
            251..=254 => return Err(Refusal::Say(rcode::REFUSED)),
            _ => {}
        }
        // A name has 255 bytes at most.
        let [name_bytes, ..] = (name_end - HEADER_BYTES).to_le_bytes();
        Ok(Self {
            name_bytes,
            rtype,
            dnssec_ok: opt.is_some_and(|(_, flags)| flags & DO != 0),
            checking_disabled: query[3] & CD != 0,
            payload_bytes: opt.map(|(payload_bytes, _)| payload_bytes.max(PLAIN_PAYLOAD_BYTES)),
        })
    }

    /// The name of the question, in wire form. `query` must be the query that `self` was read from.
    #[inline]
    pub(crate) fn name(self, query: &[u8]) -> &[u8] {
        &query[HEADER_BYTES..][..usize::from(self.name_bytes)]
    }

    /// The form of the query, for the cache.
    #[inline]
    pub(crate) fn form(self) -> Form {
        Form { question_end: self.end(), dnssec_ok: self.payload_bytes.map(|_| self.dnssec_ok) }
    }

    /// Appends to `out` what of the query its reply depends on: a query with the same header and question, and with an
    /// OPT record without options if it has EDNS. It has 282 bytes at most, however long the client's query is. A reply
    /// that was written over the query serves as well.
    pub(crate) fn write_short(self, query: &[u8], out: &mut Vec<u8>) {
        let has_opt = u8::from(self.payload_bytes.is_some());
        out.extend_from_slice(&query[..2]);
        out.extend([query[2] & RD, query[3] & (AD | CD), 0, 1, 0, 0, 0, 0, 0, has_opt]);
        out.extend_from_slice(&query[HEADER_BYTES..self.end()]);
        if let Some(payload_bytes) = self.payload_bytes {
            out.extend(opt_record(payload_bytes, 0, self.dnssec_ok));
        }
    }

    /// The position just after the question.
    #[inline]
    pub(crate) fn end(self) -> usize {
        HEADER_BYTES + usize::from(self.name_bytes) + QUESTION_TAIL_BYTES
    }

    /// The longest reply by a datagram in bytes, if the server sends `most` at most.
    #[inline]
    pub(crate) fn payload(self, most: u16) -> usize {
        self.payload_bytes.map_or(PLAIN_PAYLOAD_BYTES, |bytes| bytes.min(most)).into()
    }
}

/// The class and the TTL of a query's OPT record, if it has one; its records begin at `at`. The error is the rcode for
/// a query with other EDNS than version 0, or with records that cannot be read (RFC 6891, section 6.1).
#[inline]
fn opt(query: &[u8], mut at: usize) -> Result<Option<(u16, u32)>, u16> {
    let counts = Header::from_bytes(query).map_or([0; 3], |header| {
        [header.answers(), header.authorities(), header.additionals()].map(u32::from)
    });
    let (before, all) = (counts[0] + counts[1], counts.iter().sum::<u32>());
    let mut found = None;
    for number in 0..all {
        let record = record::read(query, at).ok_or(rcode::FORMERR)?;
        if record.rtype == rtype::OPT {
            let is_in_place = number >= before && query[at] == 0 && found.is_none();
            let is_other_version = record.ttl_s >> 16 & 0xff > 0;
            if !is_in_place || !is_other_version && !are_options(record.data) {
                return Err(rcode::FORMERR);
            }
            found = Some((record.class, record.ttl_s));
        }
        at = record.end;
    }
    match found {
        Some((_, flags)) if flags >> 16 & 0xff > 0 => Err(rcode::BADVERS),
        found => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPT: &[u8] = b"\0\x00\x29\x10\x00\x00\x00\x80\x00\x00\x00";

    /// `wWw.test. AAAA IN`, with these flags, followed by `rest`.
    fn query(flags: [u8; 2], rest: &[u8]) -> Vec<u8> {
        let head = [0xab, 0xcd, flags[0], flags[1], 0, 1, 0, 0, 0, 0, 0, u8::from(!rest.is_empty())];
        [&head, &b"\x03wWw\x04test\0\0\x1c\0\x01"[..], rest].concat()
    }

    #[test]
    fn a_question_is_read_with_what_its_client_takes() {
        let plain = query([RD, 0], b"");
        let asked = ParsedQuery::from_query(&plain).unwrap();
        assert_eq!((asked.name(&plain), asked.rtype, asked.end()), (&b"\x03wWw\x04test\0"[..], 28, 26));
        assert_eq!((asked.dnssec_ok, asked.checking_disabled, asked.payload(1232)), (false, false, 512));
        let asked = ParsedQuery::from_query(&query([RD, CD], OPT)).unwrap();
        assert_eq!((asked.dnssec_ok, asked.checking_disabled, asked.payload(1232)), (true, true, 1232));
        assert_eq!(asked.payload(4096), 4096);
        let small = [&OPT[..3], b"\0\x01", &OPT[5..]].concat();
        assert_eq!(ParsedQuery::from_query(&query([RD, 0], &small)).unwrap().payload(1232), 512);
    }

    #[test]
    fn what_is_kept_of_a_query_is_short_and_reads_the_same() {
        let option = [&[0, 12, 0xea, 0x60][..], &vec![0; 60_000]].concat();
        let opt = [&OPT[..9], &(option.len() as u16).to_be_bytes(), &option].concat();
        for (flags, rest, bytes) in [([RD, CD | AD], &opt[..], 26 + 11), ([RD, 0], &b""[..], 26)] {
            let query = query(flags, rest);
            let (asked, mut short) = (ParsedQuery::from_query(&query).unwrap(), b"before".to_vec());
            asked.write_short(&query, &mut short);
            let short = &short[6..];
            assert_eq!(
                (ParsedQuery::from_query(short), short.len(), &short[..4]),
                (Ok(asked), bytes, &query[..4])
            );
            assert_eq!(asked.name(short), asked.name(&query));
            let form = Form { question_end: 26, dnssec_ok: asked.payload_bytes.map(|_| true) };
            assert_eq!(asked.form(), form);
        }
    }

    #[test]
    fn what_is_not_looked_up_has_a_reason() {
        let say = |rcode| Err(Refusal::Say(rcode));
        assert_eq!(ParsedQuery::from_query(&[0; 11]), Err(Refusal::Drop(Cause::QueryTooShort)));
        assert_eq!(ParsedQuery::from_query(&query([QR | RD, 0], b"")), Err(Refusal::Drop(Cause::IsResponse)));
        assert_eq!(ParsedQuery::from_query(&query([RD | 0x20, 0], b"")), say(rcode::NOTIMP));
        assert_eq!(ParsedQuery::from_query(&query([0, 0], b"")), say(rcode::REFUSED), "without RD");
        let whole = query([RD, 0], b"");
        (12..whole.len())
            .for_each(|cut| assert_eq!(ParsedQuery::from_query(&whole[..cut]), say(rcode::FORMERR)));
        for (rtype, rcode) in [(0, 1), (41, 1), (250, 1), (251, 5), (252, 5)] {
            let mut query = whole.clone();
            query[23] = rtype;
            assert_eq!(ParsedQuery::from_query(&query), say(rcode), "{rtype}");
        }
        let mut chaos = whole.clone();
        chaos[25] = 3;
        assert_eq!(ParsedQuery::from_query(&chaos), say(rcode::REFUSED));
        let version = [&OPT[..6], b"\x01", &OPT[7..]].concat();
        assert_eq!(ParsedQuery::from_query(&query([RD, 0], &version)), say(rcode::BADVERS));
        let mut two = query([RD, 0], &[OPT, OPT].concat());
        two[11] = 2;
        assert_eq!(ParsedQuery::from_query(&two), say(rcode::FORMERR));
        let cut = [&OPT[..9], b"\0\x03\0\x0a\0"].concat();
        assert_eq!(ParsedQuery::from_query(&query([RD, 0], &cut)), say(rcode::FORMERR));
    }
}
