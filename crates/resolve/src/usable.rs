//! Which messages of servers answer a question, and which are failures (RFC 9520, section 2).

use kqps_message::header::Header;
use kqps_message::{edns, question, rcode, record, rtype};

/// The rcode of an answer with a name that a DNAME record would make too long (RFC 6672, section 2.2).
const YXDOMAIN: u16 = 6;

/// Whether a reply, which belongs to its query, answers the question: it is whole and can be read, its rcode says
/// something about the name, and it is no referral to servers that would have to be asked next.
pub(crate) fn is_answer(message: &[u8]) -> bool {
    let Some(header) = Header::of(message) else { return false };
    let rcode = edns::rcode(header, message);
    let is_about_name = matches!(rcode, rcode::NOERROR | rcode::NXDOMAIN | YXDOMAIN);
    if header.is_truncated() || !is_about_name || record::end(message).is_none() {
        return false;
    }
    rcode != rcode::NOERROR || header.answers() > 0 || !is_referral(header, message)
}

/// Whether a reply without answers has NS records and no SOA record in its authority section (RFC 2308, section 2.2).
fn is_referral(header: Header<'_>, message: &[u8]) -> bool {
    let (mut at, mut has_ns) = (question::end(message), false);
    for _ in 0..header.authorities() {
        let Some(record) = at.and_then(|at| record::read(message, at)) else { return false };
        if record.rtype == rtype::SOA {
            return false;
        }
        has_ns |= record.rtype == rtype::NS;
        at = Some(record.end);
    }
    has_ns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(flags: [u8; 2], counts: [u8; 3], rtypes: &[u8]) -> Vec<u8> {
        let [answers, authorities, additionals] = counts;
        let head = [0, 1, flags[0], flags[1], 0, 1, 0, answers, 0, authorities, 0, additionals];
        let records = rtypes.iter().flat_map(|&rtype| [0xc0, 12, 0, rtype, 0, 1, 0, 0, 0, 9, 0, 1, 0]);
        head.into_iter().chain(*b"\x01a\0\0\x01\0\x01").chain(records).collect()
    }

    #[test]
    fn an_answer_says_something_about_the_name() {
        for (flags, counts, rtypes, expected) in [
            ([0x80, 0], [1, 0, 0], &[1][..], true),
            ([0x80, 3], [0, 1, 0], &[6][..], true),
            ([0x80, 6], [1, 0, 0], &[39][..], true),
            ([0x80, 0], [0, 1, 0], &[6][..], true),
            ([0x80, 0], [0, 0, 0], &[][..], true),
            ([0x80, 0], [0, 2, 0], &[2, 6][..], true),
            // An alias with the servers of its target.
            ([0x80, 0], [1, 1, 0], &[5, 2][..], true),
            ([0x80, 0], [0, 1, 0], &[2][..], false),
            ([0x80, 2], [0, 0, 0], &[][..], false),
            ([0x80, 5], [0, 0, 0], &[][..], false),
            ([0x80, 1], [0, 0, 0], &[][..], false),
            ([0x82, 0], [1, 0, 0], &[1][..], false),
            // A record less than counted.
            ([0x80, 0], [2, 0, 0], &[1][..], false),
        ] {
            assert_eq!(
                is_answer(&message(flags, counts, rtypes)),
                expected,
                "{flags:?} {counts:?} {rtypes:?}"
            );
        }
        assert!(!is_answer(&[0x80; 11]));
    }
}
