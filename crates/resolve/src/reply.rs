//! Replies that do not come from the cache: errors of the server itself, and answers that cannot be kept.

use kqps_message::edns::{self, DO, UDP_PAYLOAD_BYTES};
use kqps_message::header::{AD, CD, HEADER_BYTES, OPCODE, QR, RA, RD, TC};
use kqps_message::question::QUESTION_TAIL_BYTES;
use kqps_message::{Header, name, question, record, rtype};

use crate::asked::Asked;
use crate::upstreams::is_under;

/// The length of an OPT record without options, in bytes.
const OPT_BYTES: usize = 11;

/// Writes a reply with this rcode over the query in the first `bytes` bytes of a buffer, which has a header. Returns
/// its length. It has an OPT record if the query has one (RFC 6891, section 6.1.1) and there is room.
pub(crate) fn refuse(buffer: &mut [u8], bytes: usize, rcode: u16) -> usize {
    let query = &buffer[..bytes];
    let dnssec_ok = edns::find(query).ok().flatten().map(|opt| opt.ttl_s & DO != 0);
    let tail_end = name::literal_end(query, HEADER_BYTES).map(|end| end + QUESTION_TAIL_BYTES);
    let end = tail_end.filter(|&end| query[4..6] == [0, 1] && end <= bytes).unwrap_or(HEADER_BYTES);
    buffer[2] = buffer[2] & (OPCODE | RD) | QR;
    buffer[3] = buffer[3] & CD | RA | (rcode & 0x0f) as u8;
    buffer[4..HEADER_BYTES].fill(0);
    buffer[5] = u8::from(end > HEADER_BYTES);
    let Some((dnssec_ok, room)) = dnssec_ok.zip(buffer.get_mut(end..end + OPT_BYTES)) else { return end };
    room.copy_from_slice(&opt(rcode, dnssec_ok));
    buffer[11] = 1;
    end + OPT_BYTES
}

/// The server's OPT record, with the upper bits of an rcode.
fn opt(rcode: u16, dnssec_ok: bool) -> [u8; OPT_BYTES] {
    let ([t0, t1], [p0, p1]) = (rtype::OPT.to_be_bytes(), UDP_PAYLOAD_BYTES.to_be_bytes());
    [0, t0, t1, p0, p1, (rcode >> 4) as u8, 0, if dnssec_ok { (DO >> 8) as u8 } else { 0 }, 0, 0, 0]
}

/// Writes the reply to a client's query to `out`, from the answer of a server that is not kept. Records from the first
/// that is outside `zone` on are left out, and so is the OPT record, since EDNS is agreed on hop by hop. A reply longer
/// than `limit_bytes` is truncated (RFC 2181, section 9). Returns whether the answer could be read.
pub(crate) fn pass_on(
    query: &[u8],
    asked: Asked,
    answer: &[u8],
    zone: &[u8],
    limit_bytes: usize,
    out: &mut Vec<u8>,
) -> bool {
    // Names of the answer may point to its question, which must end where the client's does.
    let Some(header) = Header::of(answer) else { return false };
    if header.questions() != 1 || question::end(answer) != Some(asked.end()) {
        return false;
    }
    out.clear();
    out.extend_from_slice(&query[..asked.end()]);
    let may_see = asked.dnssec_ok || query[3] & AD != 0;
    let authentic = if may_see { answer[3] & AD } else { 0 };
    out[2] = query[2] & (OPCODE | RD) | QR;
    out[3] = query[3] & CD | RA | authentic | answer[3] & 0x0f;
    out[6..HEADER_BYTES].fill(0);
    let sections = [header.answers(), header.authorities(), header.additionals()];
    let mut at = asked.end();
    let mut counts = [0_u16; 3];
    'records: for (section, count) in counts.iter_mut().enumerate() {
        for _ in 0..sections[section] {
            let Some(record) = record::read(answer, at) else { return false };
            if record.rtype == rtype::OPT || !is_inside(answer, at, zone) {
                break 'records;
            }
            *count += 1;
            at = record.end;
        }
    }
    let opt = asked.payload_bytes.map(|_| opt(0, asked.dnssec_ok));
    let opt_bytes = opt.map_or(0, |opt| opt.len());
    if at + opt_bytes > limit_bytes {
        out[2] |= TC;
    } else {
        out.extend_from_slice(&answer[asked.end()..at]);
        for (section, count) in counts.iter().enumerate() {
            out[6 + 2 * section..][..2].copy_from_slice(&count.to_be_bytes());
        }
    }
    if let Some(opt) = opt {
        let additionals = u16::from_be_bytes([out[10], out[11]]).saturating_add(1);
        out[10..HEADER_BYTES].copy_from_slice(&additionals.to_be_bytes());
        out.extend_from_slice(&opt);
    }
    true
}

/// Whether the name at `at` is in a zone, whose name is in lower case.
fn is_inside(message: &[u8], at: usize, zone: &[u8]) -> bool {
    if zone == [0] {
        return true;
    }
    let mut name = Vec::with_capacity(name::NAME_BYTES_MAX);
    expand(message, at, &mut name).is_some() && is_under(&name, zone)
}

/// Writes the name at `at` to `name`, in lower case and without pointers (RFC 1035, section 4.1.4). `None` if it is
/// malformed or too long.
fn expand(message: &[u8], mut at: usize, name: &mut Vec<u8>) -> Option<()> {
    loop {
        let bytes = *message.get(at)?;
        match bytes {
            0 => {
                name.push(0);
                return Some(());
            }
            1..=63 => {
                let label = message.get(at..=at + usize::from(bytes))?;
                if name.len() + label.len() >= name::NAME_BYTES_MAX {
                    return None;
                }
                name.extend(label.iter().map(u8::to_ascii_lowercase));
                at += label.len();
            }
            _ => {
                let low = *message.get(at + 1)?;
                let to = usize::from(u16::from_be_bytes([bytes & 0x3f, low]));
                // Pointers lead backwards only, so the walk ends.
                if bytes < 0xc0 || to >= at {
                    return None;
                }
                at = to;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kqps_message::rcode;

    use super::*;

    const OPT: &[u8] = b"\0\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x00";
    const A: &[u8] = b"\xc0\x0c\0\x01\0\x01\0\0\0\x09\0\x04\xc0\0\x02\x01";

    /// `wWw.test. A IN`, followed by `rest`.
    fn query(rest: &[u8]) -> Vec<u8> {
        let head = [0xab, 0xcd, RD, CD, 0, 1, 0, 0, 0, 0, 0, u8::from(!rest.is_empty())];
        [&head, &b"\x03wWw\x04test\0\0\x01\0\x01"[..], rest].concat()
    }

    fn answer(counts: [u8; 3], records: &[&[u8]]) -> Vec<u8> {
        let [answers, authorities, additionals] = counts;
        let head = [0, 1, 0x85, RA | AD, 0, 1, 0, answers, 0, authorities, 0, additionals];
        [&head, &b"\x03www\x04test\0\0\x01\0\x01"[..], &records.concat()].concat()
    }

    #[test]
    fn an_error_repeats_what_it_can() {
        let cases = [(OPT, rcode::SERVFAIL, 0, 2), (OPT, rcode::BADVERS, 1, 0), (&b""[..], 5, 0, 5)];
        for (rest, rcode, upper, low) in cases {
            let query = query(rest);
            let mut buffer = [&query[..], &[0xff; 50]].concat();
            let bytes = refuse(&mut buffer, query.len(), rcode);
            let has_opt = u8::from(!rest.is_empty());
            let head = [0xab, 0xcd, QR | RD, RA | CD | low, 0, 1, 0, 0, 0, 0, 0, has_opt];
            let own = [0, 0, 41, 0x04, 0xd0, upper, 0, 0x80, 0, 0, 0];
            let tail = if has_opt > 0 { &own[..] } else { &[][..] };
            let expected = [&head[..], &query[12..26], tail].concat();
            assert_eq!(buffer[..bytes], expected);
        }
        let mut two = query(b"");
        two[5] = 2;
        assert_eq!(refuse(&mut two, 26, rcode::FORMERR), 12);
    }

    #[test]
    fn an_answer_is_passed_on_with_the_clients_question_and_edns() {
        let (mut out, query) = (Vec::new(), query(OPT));
        let asked = Asked::of(&query).unwrap();
        assert!(pass_on(&query, asked, &answer([1, 0, 1], &[A, OPT]), &[0], 512, &mut out));
        let head = [0xab, 0xcd, QR | RD, RA | AD | CD, 0, 1, 0, 1, 0, 0, 0, 1];
        let own = [0, 0, 41, 0x04, 0xd0, 0, 0, 0x80, 0, 0, 0];
        assert_eq!(out, [&head[..], &query[12..26], A, &own].concat());
        assert!(pass_on(&query, asked, &answer([1, 0, 0], &[A]), &[0], 40, &mut out));
        let head = [0xab, 0xcd, QR | RD | TC, RA | AD | CD, 0, 1, 0, 0, 0, 0, 0, 1];
        assert_eq!(out, [&head[..], &query[12..26], &own].concat());
        for cut in 0..answer([1, 0, 0], &[A]).len() {
            assert!(!pass_on(&query, asked, &answer([1, 0, 0], &[A])[..cut], &[0], 512, &mut out), "{cut}");
        }
    }

    #[test]
    fn records_of_other_zones_are_left_out() {
        let foreign = b"\x07foreign\0\0\x01\0\x01\0\0\0\x09\0\x04\xc0\0\x02\x02";
        let (mut out, query) = (Vec::new(), query(b""));
        let asked = Asked::of(&query).unwrap();
        let answer = answer([2, 0, 1], &[A, foreign, A]);
        assert!(pass_on(&query, asked, &answer, b"\x04test\0", 512, &mut out));
        assert_eq!((out[7], out[11], &out[26..]), (1, 0, A));
        assert!(pass_on(&query, asked, &answer, b"\0", 512, &mut out));
        assert_eq!((out[7], out[11]), (2, 1));
    }

    #[test]
    fn a_name_that_points_forwards_or_to_itself_is_malformed() {
        let mut name = Vec::new();
        assert_eq!(expand(b"\xc0\0", 0, &mut name), None);
        assert_eq!(expand(b"\xc0\x02\0", 0, &mut name), None);
        assert_eq!(expand(b"\x01A\0\x01b\xc0\0", 3, &mut name), Some(()));
        assert_eq!(name, b"\x01b\x01a\0");
        let long = [&[63; 64][..]; 5].concat();
        name.clear();
        assert_eq!(expand(&long, 0, &mut name), None);
    }
}
