//! Replies that no server gave: errors of the server itself.

use kqps_message::edns::{self, DO, OPT_BYTES, UDP_PAYLOAD_BYTES, opt_record};
use kqps_message::header::{CD, HEADER_BYTES, OPCODE, QR, RA, RD};
use kqps_message::name;
use kqps_message::question::QUESTION_TAIL_BYTES;

/// Writes a reply with this rcode over the query in the first `bytes` bytes of a buffer, which has a header. Returns
/// its length. It has an OPT record if the query has one (RFC 6891, section 6.1.1) and there is room.
pub(crate) fn refuse(buffer: &mut [u8], bytes: usize, rcode: u16) -> usize {
    let query = &buffer[..bytes];
    let dnssec_ok = edns::find(query).ok().flatten().map(|opt| opt.ttl_s & DO != 0);
    let tail_end = name::literal_end(query, HEADER_BYTES).map(|end| end + QUESTION_TAIL_BYTES);
    let end = tail_end.filter(|&end| query[4..6] == [0, 1] && end <= bytes).unwrap_or(HEADER_BYTES);
    buffer[2] = buffer[2] & (OPCODE | RD) | QR;
    let [low, _] = rcode.to_le_bytes();
    buffer[3] = buffer[3] & CD | RA | low & 0x0f;
    buffer[4..HEADER_BYTES].fill(0);
    buffer[5] = u8::from(end > HEADER_BYTES);
    let Some((dnssec_ok, room)) = dnssec_ok.zip(buffer.get_mut(end..end + OPT_BYTES)) else { return end };
    room.copy_from_slice(&opt_record(UDP_PAYLOAD_BYTES, rcode, dnssec_ok));
    buffer[11] = 1;
    end + OPT_BYTES
}

#[cfg(test)]
mod tests {
    use kqps_message::rcode;

    use super::*;

    const OPT: &[u8] = b"\0\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x00";

    /// `wWw.test. A IN`, followed by `rest`.
    fn query(rest: &[u8]) -> Vec<u8> {
        let head = [0xab, 0xcd, RD, CD, 0, 1, 0, 0, 0, 0, 0, u8::from(!rest.is_empty())];
        [&head, &b"\x03wWw\x04test\0\0\x01\0\x01"[..], rest].concat()
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
}
