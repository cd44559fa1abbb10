//! Refusing in place a query whose answer its transport cannot carry.

use kqps_message::edns::{self, UDP_PAYLOAD_BYTES, opt_record};
use kqps_message::header::{OPCODE, QR, RD};
use kqps_message::{question, rcode};

/// Writes the reply REFUSED over the query in the first `bytes` bytes of a buffer. Returns its length. It has an OPT
/// record if the query has one (RFC 6891, section 6.1.1).
pub(super) fn refuse(buffer: &mut [u8], bytes: usize) -> usize {
    let has_opt = edns::find(&buffer[..bytes]).ok().flatten().is_some();
    let mut end = question::end(&buffer[..bytes]).unwrap_or(bytes);
    buffer[2] = buffer[2] & (OPCODE | RD) | QR;
    [_, buffer[3]] = rcode::REFUSED.to_be_bytes();
    buffer[6..12].fill(0);
    if has_opt {
        let opt = opt_record(UDP_PAYLOAD_BYTES, 0, false);
        if let Some(room) = buffer.get_mut(end..end + opt.len()) {
            room.copy_from_slice(&opt);
            buffer[11] = 1;
            end += opt.len();
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_the_question_and_an_opt_record_if_the_query_has_one() {
        let asked = b"\x01a\0\x00\xfc\x00\x01";
        let opt = b"\0\x00\x29\x10\x00\x00\x00\x80\x00\x00\x00";
        for has_opt in [false, true] {
            let header = [0, 7, 1, 0x20, 0, 1, 0, 0, 0, 0, 0, u8::from(has_opt)];
            let query = [&header[..], asked, if has_opt { &opt[..] } else { &[] }].concat();
            let mut buffer = [query.clone(), vec![0xff; 100]].concat();
            let bytes = refuse(&mut buffer, query.len());
            let reply = &buffer[..bytes];
            assert_eq!(reply[..12], [0, 7, 0x81, 5, 0, 1, 0, 0, 0, 0, 0, u8::from(has_opt)]);
            assert_eq!(reply[12..12 + asked.len()], *asked);
            assert_eq!(edns::find(reply).unwrap().is_some(), has_opt);
        }
    }
}
