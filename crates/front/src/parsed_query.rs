//! The parts of a query that the front reads.

use kqps_message::header::{HEADER_BYTES, OPCODE, QR};
use kqps_message::question::QUESTION_TAIL_BYTES;
use kqps_message::{name, rcode, rtype};
use kqps_server::answer::QUERY_BYTES;
use kqps_server::counts::Cause;

use super::edns;

/// The one question of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ParsedQuery {
    /// The length of its name, which follows the header, in bytes.
    name_bytes: u8,
    pub(super) qtype: u16,
}

/// Why a query goes to no back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The query gets no answer.
    Drop(Cause),
    /// The front answers with this rcode at once.
    Say(u16),
}

impl ParsedQuery {
    /// Reads the question of a query. A query goes to a back end only if it has one question with a whole name, and
    /// EDNS of version 0 or none. Zone transfers are refused: the front could not match their many messages to the
    /// query.
    #[inline]
    pub(super) fn from_query(query: &[u8]) -> Result<Self, Refusal> {
        if query.len() < HEADER_BYTES {
            return Err(Refusal::Drop(Cause::QueryTooShort));
        }
        if query.len() > QUERY_BYTES {
            return Err(Refusal::Drop(Cause::QueryTooLong));
        }
        if query[2] & QR != 0 {
            return Err(Refusal::Drop(Cause::IsResponse));
        }
        if query[4..6] != [0, 1] {
            return Err(Refusal::Say(rcode::FORMERR));
        }
        let name_end = name::literal_end(query, HEADER_BYTES).ok_or(Refusal::Say(rcode::FORMERR))?;
        let tail = query.get(name_end..name_end + QUESTION_TAIL_BYTES);
        let tail = tail.ok_or(Refusal::Say(rcode::FORMERR))?;
        if let Some(rcode) = edns::objection(query, name_end + QUESTION_TAIL_BYTES) {
            return Err(Refusal::Say(rcode));
        }
        let qtype = u16::from_be_bytes([tail[0], tail[1]]);
        if matches!(qtype, rtype::AXFR | rtype::IXFR) {
            return Err(Refusal::Say(rcode::REFUSED));
        }
        // A name has 255 bytes at most.
        let [name_bytes, ..] = (name_end - HEADER_BYTES).to_le_bytes();
        Ok(Self { name_bytes, qtype })
    }

    /// The name of the question. `query` must be the query that `self` was read from.
    #[inline]
    pub(super) fn name(self, query: &[u8]) -> &[u8] {
        &query[HEADER_BYTES..][..usize::from(self.name_bytes)]
    }

    /// The question section. `query` must be the query that `self` was read from.
    #[inline]
    pub(super) fn question(self, query: &[u8]) -> &[u8] {
        &query[HEADER_BYTES..self.end()]
    }

    /// Gives a reply the ID and the question of its query, in the client's own case. The back end received the query
    /// under another ID and may have changed the case, which some clients check.
    #[inline]
    pub(super) fn restore(self, query: &[u8], reply: &mut [u8]) {
        reply[..2].copy_from_slice(&query[..2]);
        if reply[5] == 1 {
            reply[HEADER_BYTES..self.end()].copy_from_slice(self.question(query));
        }
    }

    /// Whether sending a query twice does no harm. A query that changes something (UPDATE, RFC 2136) may have been
    /// executed although its answer was lost.
    #[inline]
    pub(super) fn is_harmless(query: &[u8]) -> bool {
        query[2] & OPCODE == 0
    }

    /// The position just after the question.
    #[inline]
    pub(super) fn end(self) -> usize {
        HEADER_BYTES + usize::from(self.name_bytes) + QUESTION_TAIL_BYTES
    }
}

#[cfg(test)]
mod tests {
    use kqps_message::header::RD;

    use super::*;

    /// `wWw.test. AAAA IN`, with these flags, followed by `rest`.
    fn query(flags: [u8; 2], rest: &[u8]) -> Vec<u8> {
        let head = [0xab, 0xcd, flags[0], flags[1], 0, 1, 0, 0, 0, 0, 0, u8::from(!rest.is_empty())];
        [&head, &b"\x03wWw\x04test\0\0\x1c\0\x01"[..], rest].concat()
    }

    const OPT: &[u8] = b"\0\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x00";
    const VERSION_1: &[u8] = b"\0\x00\x29\x04\xd0\x00\x01\x80\x00\x00\x00";

    #[test]
    fn one_whole_question_is_asked() {
        let query = query([RD, 0], OPT);
        let asked = ParsedQuery::from_query(&query).unwrap();
        assert_eq!(asked.name(&query), b"\x03wWw\x04test\0");
        assert_eq!((asked.qtype, asked.end()), (28, 26));
        assert_eq!(asked.question(&query), &query[12..26]);
    }

    #[test]
    fn what_cannot_be_handed_on_is_refused() {
        let formerr = Err(Refusal::Say(rcode::FORMERR));
        assert_eq!(ParsedQuery::from_query(&[0; 11]), Err(Refusal::Drop(Cause::QueryTooShort)));
        assert_eq!(ParsedQuery::from_query(&[0; 4097]), Err(Refusal::Drop(Cause::QueryTooLong)));
        assert_eq!(ParsedQuery::from_query(&query([QR, 0], b"")), Err(Refusal::Drop(Cause::IsResponse)));
        assert_eq!(ParsedQuery::from_query(&[0; 12]), formerr);
        let whole = query([0, 0], b"");
        (12..whole.len()).for_each(|cut| assert_eq!(ParsedQuery::from_query(&whole[..cut]), formerr));
        let pointer = [&whole[..12], b"\xc0\x0c\0\x01\0\x01"].concat();
        assert_eq!(ParsedQuery::from_query(&pointer), formerr);
        let long = [&whole[..12], &b"\x3f"[..], &[b'a'; 63]].concat();
        let long = [&long[..], &long[12..], &long[12..], &long[12..], b"\0\0\x01\0\x01"].concat();
        assert_eq!(ParsedQuery::from_query(&long), formerr);
        let badvers = Err(Refusal::Say(rcode::BADVERS));
        assert_eq!(ParsedQuery::from_query(&query([0, 0], VERSION_1)), badvers);
        let mut transfer = query([0, 0], OPT);
        transfer[23] = 252;
        assert_eq!(ParsedQuery::from_query(&transfer), Err(Refusal::Say(rcode::REFUSED)));
        transfer[32] = 1;
        assert_eq!(
            ParsedQuery::from_query(&transfer),
            badvers,
            "of another version nothing else is looked at"
        );
    }
}
