//! The front's own replies, and its changes to replies of back ends.

use std::net::IpAddr;

use kqps_kernel::Address;
use kqps_message::edns::OPT_BYTES;
use kqps_message::header::{CD, HEADER_BYTES, OPCODE, QR, RD, TC};
use kqps_message::question::{self, QUESTION_TAIL_BYTES};
use kqps_message::{Header, edns as message_edns, name, rcode};

use super::edns;
use super::parsed_query::ParsedQuery;

/// The longest reply over UDP to a client without EDNS, in bytes (RFC 1035, section 4.2.1).
const PLAIN_PAYLOAD_BYTES: usize = 512;

/// The longest reply that fits a datagram, in bytes. The length field of IPv4, at most 65,535, includes the 20 bytes
/// of its own header (RFC 791, section 3.1) and the 8 bytes of UDP's. That of IPv6 includes only the latter (RFC
/// 768; RFC 8200, section 3).
const V4_PAYLOAD_BYTES: usize = 65_507;
const V6_PAYLOAD_BYTES: usize = 65_527;

/// Writes the front's own reply to a query, which must have a header. It copies ID, opcode, RD, CD and, if it is
/// readable, the question of the query. It has an OPT record if the query has one (RFC 6891, section 6.1.1). Returns
/// its length in bytes, at most that of the query. `reply` must have room for the query.
pub(super) fn refuse(query: &[u8], rcode: u16, reply: &mut [u8]) -> usize {
    let end = whole_question(query);
    let opt = question::end(query).and_then(|at| edns::see(query, at).opt);
    reply[..end].copy_from_slice(&query[..end]);
    reply[2] = query[2] & (OPCODE | RD) | QR;
    let [low, _] = rcode.to_le_bytes();
    reply[3] = query[3] & CD | low & 0x0f;
    reply[4..HEADER_BYTES].fill(0);
    reply[5] = u8::from(end > HEADER_BYTES);
    let Some(opt) = opt else { return end };
    append(reply, end, edns::own(opt, rcode))
}

/// Appends an OPT record to a reply that has no records. Returns the length of the reply.
fn append(reply: &mut [u8], end: usize, opt: [u8; OPT_BYTES]) -> usize {
    reply[11] = 1;
    reply[end..end + OPT_BYTES].copy_from_slice(&opt);
    end + OPT_BYTES
}

/// The end of the question of a query that was refused; the end of the header if there is no single whole question.
fn whole_question(query: &[u8]) -> usize {
    let tail_end = name::literal_end(query, HEADER_BYTES).map(|end| end + QUESTION_TAIL_BYTES);
    tail_end.filter(|&end| query[4..6] == [0, 1] && end <= query.len()).unwrap_or(HEADER_BYTES)
}

/// Turns a back end's reply into the client's: with the client's ID and question, and truncated if the client or a
/// datagram cannot take its length. Returns its length.
#[inline]
pub(super) fn make_clients(query: &[u8], asked: ParsedQuery, to: &Address, reply: &mut [u8]) -> usize {
    asked.restore(query, reply);
    if reply.len() > PLAIN_PAYLOAD_BYTES && reply.len() > payload_bytes(query, to) {
        truncate(query, asked, reply)
    } else {
        reply.len()
    }
}

/// The maximum length of a reply over UDP in bytes (RFC 6891, section 6.2.5).
pub(super) fn payload_bytes(query: &[u8], to: &Address) -> usize {
    let most = if matches!(to.ip(), Some(IpAddr::V6(_))) { V6_PAYLOAD_BYTES } else { V4_PAYLOAD_BYTES };
    match message_edns::find(query) {
        Ok(Some(opt)) => usize::from(opt.class).clamp(PLAIN_PAYLOAD_BYTES, most),
        _ => PLAIN_PAYLOAD_BYTES,
    }
}

/// Truncates a reply to its header and question, sets TC (RFC 2181, section 9), and appends an OPT record if the
/// client sent one (RFC 6891, section 7). Returns its length.
fn truncate(query: &[u8], asked: ParsedQuery, reply: &mut [u8]) -> usize {
    let asks = edns::see(query, asked.end()).opt;
    let opt = asks.map(|asks| edns::of_cut(asks, message_edns::find(reply).ok().flatten()));
    // A server that could not read the question returns an error without it.
    let end = if reply[5] == 1 { asked.end() } else { HEADER_BYTES };
    reply[2] |= TC;
    reply[6..HEADER_BYTES].fill(0);
    opt.map_or(end, |opt| append(reply, end, opt))
}

/// Whether a reply may be of no use to its client: truncated, or SERVFAIL by the four bits in its header.
#[inline]
pub(super) fn may_be_unfit(reply: &[u8]) -> bool {
    reply[2] & TC != 0 || u16::from(reply[3] & 0x0f) == rcode::SERVFAIL
}

/// Whether the whole rcode is SERVFAIL, with the upper bits in the OPT record.
pub(super) fn is_servfail(reply: &[u8]) -> bool {
    Header::from_bytes(reply).is_some_and(|header| message_edns::rcode(header, reply) == rcode::SERVFAIL)
}

/// Whether a message is the reply to a query: it repeats the question, or is an error of a server that could not
/// read the question.
#[inline]
pub(super) fn is_reply_to(query: &[u8], asked: ParsedQuery, reply: &[u8]) -> bool {
    let Some(header) = Header::from_bytes(reply) else { return false };
    if !header.is_reply() || header.opcode() != (query[2] & OPCODE) >> 3 {
        return false;
    }
    if header.questions() == 0 {
        return matches!(header.rcode(), rcode::FORMERR | rcode::NOTIMP);
    }
    header.questions() == 1 && question::same(asked.question(query), reply)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    /// `wWw.test. AAAA IN`, with these flags, followed by `rest`.
    fn query(flags: [u8; 2], rest: &[u8]) -> Vec<u8> {
        let head = [0xab, 0xcd, flags[0], flags[1], 0, 1, 0, 0, 0, 0, 0, u8::from(!rest.is_empty())];
        [&head, &b"\x03wWw\x04test\0\0\x1c\0\x01"[..], rest].concat()
    }

    const OPT: &[u8] = b"\0\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x00";

    #[test]
    fn a_reply_of_the_fronts_own_repeats_what_it_can() {
        let mut reply = [0xff; 64];
        let query = query([0x20 | RD | TC, 0xff], b"");
        let bytes = refuse(&query, rcode::SERVFAIL, &mut reply);
        let expected =
            [&[0xab, 0xcd, QR | 0x20 | RD, CD | 2, 0, 1, 0, 0, 0, 0, 0, 0], &query[12..26]].concat();
        assert_eq!(reply[..bytes], expected);
        let mut two = query;
        two[5] = 2;
        assert_eq!(refuse(&two, rcode::FORMERR, &mut reply), 12);
        assert_eq!(reply[3..6], [CD | 1, 0, 0]);
    }

    #[test]
    fn a_reply_of_the_fronts_own_has_an_opt_record_where_the_query_has_one() {
        // 4096 bytes, version 3, DO and all other flags, an option.
        let opt = b"\0\0\x29\x10\0\xff\x03\xff\xff\0\x06\xfd\xe9\0\x02\0\xff";
        let query = query([RD, 0], opt);
        let question = &query[12..26];
        for (rcode, bits, upper) in [(rcode::SERVFAIL, 2, 0), (rcode::REFUSED, 5, 0), (rcode::BADVERS, 0, 1)]
        {
            let mut reply = [0xff; 64];
            let bytes = refuse(&query, rcode, &mut reply);
            let head = [0xab, 0xcd, QR | RD, bits, 0, 1, 0, 0, 0, 0, 0, 1];
            let own = [0, 0, 41, 0x04, 0xd0, upper, 0, 0x80, 0, 0, 0];
            assert_eq!(reply[..bytes], [&head[..], question, &own].concat());
        }
        // Two OPT records bring one back. The same holds behind two questions, of which none comes back.
        let mut twice = [&query[..], opt].concat();
        twice[11] = 2;
        let mut two = [&query[..26], question, opt].concat();
        two[5] = 2;
        for (query, end) in [(twice, 26), (two, 12)] {
            let mut reply = [0xff; 80];
            assert_eq!(refuse(&query, rcode::FORMERR, &mut reply), end + 11);
            assert_eq!(reply[end..end + 11], [0, 0, 41, 0x04, 0xd0, 0, 0, 0x80, 0, 0, 0]);
            assert_eq!(reply[10..12], [0, 1]);
        }
    }

    #[test]
    fn a_reply_is_cut_to_what_the_client_takes() {
        let [v4, v6] =
            ["127.0.0.1:53", "[::1]:53"].map(|to| Address::from(to.parse::<SocketAddr>().unwrap()));
        assert_eq!(payload_bytes(&query([0, 0], b""), &v4), 512);
        assert_eq!(payload_bytes(&query([0, 0], OPT), &v4), 1232);
        let all = query([0, 0], b"\0\x00\x29\xff\xff\x00\x00\x80\x00\x00\x00");
        assert_eq!((payload_bytes(&all, &v4), payload_bytes(&all, &v6)), (65_507, 65_527));
        for (rest, expected_tail) in [(OPT, OPT), (&b""[..], &b""[..])] {
            let query = query([0, 0], rest);
            let asked = ParsedQuery::from_query(&query).unwrap();
            let answer = [b"\xc0\x0c\0\x1c\0\x01\0\0\0\x01\0\x10", &[7; 16][..]].concat();
            let mut reply = [&query[..26], &answer, OPT].concat();
            (reply[2], reply[7], reply[11]) = (QR, 1, 1);
            let bytes = truncate(&query, asked, &mut reply);
            let head = [0xab, 0xcd, QR | TC, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(!rest.is_empty())];
            assert_eq!(reply[..bytes], [&head, &query[12..26], expected_tail].concat());
        }
    }

    #[test]
    fn a_reply_belongs_to_its_question() {
        let query = query([0, 0], b"");
        let asked = ParsedQuery::from_query(&query).unwrap();
        let mut reply = query.clone();
        assert!(!is_reply_to(&query, asked, &reply), "a query is none");
        reply[2] |= QR;
        assert!(is_reply_to(&query, asked, &reply));
        reply[13] = b'W';
        assert!(is_reply_to(&query, asked, &reply), "in another case");
        reply[13] = b'x';
        assert!(!is_reply_to(&query, asked, &reply));
        assert!(!is_reply_to(&query, asked, &reply[..12]));
        reply[5] = 0;
        assert!(!is_reply_to(&query, asked, &reply));
        reply[3] = 1;
        assert!(is_reply_to(&query, asked, &reply[..12]), "FORMERR without a question");
    }
}
