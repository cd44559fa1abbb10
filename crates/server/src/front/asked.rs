//! What the front reads of a query, and the replies that it makes itself.

use std::net::IpAddr;

use kqps_kernel::Address;
use kqps_message::header::{CD, HEADER_BYTES, OPCODE, QR, RD, TC};
use kqps_message::question::QUESTION_TAIL_BYTES;
use kqps_message::{Header, edns, name, rcode, rtype};

use crate::counts::Cause;
use crate::echo::QUERY_BYTES;

/// The longest reply over UDP to a client that offers nothing (RFC 1035, section 4.2.1).
const PLAIN_PAYLOAD_BYTES: usize = 512;

/// The longest reply that a datagram holds: over IPv4 its length, of 65535 bytes at most, counts the 20 bytes of that
/// header in (RFC 791, section 3.1), and over IPv6 only the 8 of UDP's own (RFC 768; RFC 8200, section 3).
const V4_PAYLOAD_BYTES: usize = 65_507;
const V6_PAYLOAD_BYTES: usize = 65_527;

/// The one question of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// The bytes of its name, which begins behind the header.
    name_bytes: u16,
    pub(super) qtype: u16,
}

/// Why a query goes to no back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It gets no answer.
    Drop(Cause),
    /// It is answered with this rcode at once.
    Say(u16),
}

impl Asked {
    /// What a query asks. Whoever answers it is sent one question whose name is whole, and not a zone transfer,
    /// whose many messages nothing here could tell apart.
    #[inline]
    pub(super) fn of(query: &[u8]) -> Result<Self, Refusal> {
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
        let qtype = u16::from_be_bytes([tail[0], tail[1]]);
        if matches!(qtype, rtype::AXFR | rtype::IXFR) {
            return Err(Refusal::Say(rcode::REFUSED));
        }
        Ok(Self { name_bytes: (name_end - HEADER_BYTES) as u16, qtype })
    }

    /// The name asked, of the query that this was read from.
    #[inline]
    pub(super) fn name(self, query: &[u8]) -> &[u8] {
        &query[HEADER_BYTES..][..usize::from(self.name_bytes)]
    }

    /// The question, of the same.
    #[inline]
    pub(super) fn question(self, query: &[u8]) -> &[u8] {
        &query[HEADER_BYTES..self.end()]
    }

    /// Gives a reply the ID and the question of its query, in the client's own case: the back end knew it by another
    /// ID, and may have changed the case, at which the client may look.
    #[inline]
    pub(super) fn restore(self, query: &[u8], reply: &mut [u8]) {
        reply[..2].copy_from_slice(&query[..2]);
        if reply[5] == 1 {
            reply[HEADER_BYTES..self.end()].copy_from_slice(self.question(query));
        }
    }

    /// Where the question ends.
    #[inline]
    pub(super) fn end(self) -> usize {
        HEADER_BYTES + usize::from(self.name_bytes) + QUESTION_TAIL_BYTES
    }
}

/// Writes the reply of the front's own to a query, which has a header: ID, opcode, RD, CD and the question, where
/// it can be read, are the query's. Returns its length. `reply` has room for the query.
pub(super) fn refuse(query: &[u8], rcode: u16, reply: &mut [u8]) -> usize {
    let end = Asked::of(query).map_or_else(|_| whole_question(query), Asked::end);
    reply[..end].copy_from_slice(&query[..end]);
    reply[2] = query[2] & (OPCODE | RD) | QR;
    reply[3] = query[3] & CD | rcode as u8;
    reply[4..HEADER_BYTES].fill(0);
    reply[5] = u8::from(end > HEADER_BYTES);
    end
}

/// Where the one question of a query that was refused ends; behind its header where there is none.
fn whole_question(query: &[u8]) -> usize {
    let tail_end = name::literal_end(query, HEADER_BYTES).map(|end| end + QUESTION_TAIL_BYTES);
    tail_end.filter(|&end| query[4..6] == [0, 1] && end <= query.len()).unwrap_or(HEADER_BYTES)
}

/// Makes a back end's reply to a datagram its client's: with the ID and the question that came from there, and no
/// longer than the client takes it, and than it can be sent there. Returns its length.
#[inline]
pub(super) fn make_clients(query: &[u8], asked: Asked, to: &Address, reply: &mut [u8]) -> usize {
    asked.restore(query, reply);
    if reply.len() > PLAIN_PAYLOAD_BYTES && reply.len() > payload_bytes(query, to) {
        truncate(query, asked, reply)
    } else {
        reply.len()
    }
}

/// How long a reply over UDP may be (RFC 6891, section 6.2.5).
pub(super) fn payload_bytes(query: &[u8], to: &Address) -> usize {
    let most = if matches!(to.ip(), Some(IpAddr::V6(_))) { V6_PAYLOAD_BYTES } else { V4_PAYLOAD_BYTES };
    match edns::find(query) {
        Ok(Some(opt)) => usize::from(opt.class).clamp(PLAIN_PAYLOAD_BYTES, most),
        _ => PLAIN_PAYLOAD_BYTES,
    }
}

/// Cuts a reply that does not fit to its header and question, with TC set (RFC 2181, section 9), and the OPT
/// record of whoever answered where the client sent one (RFC 6891, section 7). Returns its length.
fn truncate(query: &[u8], asked: Asked, reply: &mut [u8]) -> usize {
    let opt = match (edns::find(query), edns::find(reply)) {
        (Ok(Some(_)), Ok(Some(opt))) => Some((opt.class, opt.ttl_s)),
        _ => None,
    };
    // An error of a server that could not read the question comes without it.
    let end = if reply[5] == 1 { asked.end() } else { HEADER_BYTES };
    reply[2] |= TC;
    reply[6..HEADER_BYTES].fill(0);
    let Some((class, ttl_s)) = opt else { return end };
    reply[11] = 1;
    reply[end] = 0;
    reply[end + 1..end + 3].copy_from_slice(&rtype::OPT.to_be_bytes());
    reply[end + 3..end + 5].copy_from_slice(&class.to_be_bytes());
    reply[end + 5..end + 9].copy_from_slice(&ttl_s.to_be_bytes());
    reply[end + 9..end + 11].fill(0);
    end + 11
}

/// Whether a message is the reply to a query: it repeats the question, or is an error of a server that could not
/// read that far.
#[inline]
pub(super) fn is_reply_to(query: &[u8], asked: Asked, reply: &[u8]) -> bool {
    let Some(header) = Header::of(reply) else { return false };
    if !header.is_reply() || header.opcode() != (query[2] & OPCODE) >> 3 {
        return false;
    }
    if header.questions() == 0 {
        return matches!(header.rcode(), rcode::FORMERR | rcode::NOTIMP);
    }
    header.questions() == 1 && kqps_message::question::same(asked.question(query), reply)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    /// `wWw.test. AAAA IN`, with these flags and this after it.
    fn query(flags: [u8; 2], rest: &[u8]) -> Vec<u8> {
        let head = [0xab, 0xcd, flags[0], flags[1], 0, 1, 0, 0, 0, 0, 0, u8::from(!rest.is_empty())];
        [&head, &b"\x03wWw\x04test\0\0\x1c\0\x01"[..], rest].concat()
    }

    const OPT: &[u8] = b"\0\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x00";

    #[test]
    fn one_whole_question_is_asked() {
        let query = query([RD, 0], OPT);
        let asked = Asked::of(&query).unwrap();
        assert_eq!(asked.name(&query), b"\x03wWw\x04test\0");
        assert_eq!((asked.qtype, asked.end()), (28, 26));
        assert_eq!(asked.question(&query), &query[12..26]);
    }

    #[test]
    fn what_cannot_be_handed_on_is_refused() {
        let formerr = Err(Refusal::Say(rcode::FORMERR));
        assert_eq!(Asked::of(&[0; 11]), Err(Refusal::Drop(Cause::QueryTooShort)));
        assert_eq!(Asked::of(&[0; 4097]), Err(Refusal::Drop(Cause::QueryTooLong)));
        assert_eq!(Asked::of(&query([QR, 0], b"")), Err(Refusal::Drop(Cause::IsResponse)));
        assert_eq!(Asked::of(&[0; 12]), formerr);
        let whole = query([0, 0], b"");
        (12..whole.len()).for_each(|cut| assert_eq!(Asked::of(&whole[..cut]), formerr));
        let pointer = [&whole[..12], b"\xc0\x0c\0\x01\0\x01"].concat();
        assert_eq!(Asked::of(&pointer), formerr);
        let long = [&whole[..12], &b"\x3f"[..], &[b'a'; 63]].concat();
        let long = [&long[..], &long[12..], &long[12..], &long[12..], b"\0\0\x01\0\x01"].concat();
        assert_eq!(Asked::of(&long), formerr);
        let mut transfer = whole;
        transfer[23] = 252;
        assert_eq!(Asked::of(&transfer), Err(Refusal::Say(rcode::REFUSED)));
    }

    #[test]
    fn a_reply_of_the_fronts_own_repeats_what_it_can() {
        let mut reply = [0xff; 64];
        let query = query([0x20 | RD | TC, 0xff], OPT);
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
    fn a_reply_is_cut_to_what_the_client_takes() {
        let [v4, v6] =
            ["127.0.0.1:53", "[::1]:53"].map(|to| Address::from(to.parse::<SocketAddr>().unwrap()));
        assert_eq!(payload_bytes(&query([0, 0], b""), &v4), 512);
        assert_eq!(payload_bytes(&query([0, 0], OPT), &v4), 1232);
        let all = query([0, 0], b"\0\x00\x29\xff\xff\x00\x00\x80\x00\x00\x00");
        assert_eq!((payload_bytes(&all, &v4), payload_bytes(&all, &v6)), (65_507, 65_527));
        for (rest, expected_tail) in [(OPT, OPT), (&b""[..], &b""[..])] {
            let query = query([0, 0], rest);
            let asked = Asked::of(&query).unwrap();
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
        let asked = Asked::of(&query).unwrap();
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
