//! What a fault does to the bytes of a reply (RFC 1035, section 4.1.1 for the header's bits).

use super::fault::Fault;

/// Bytes of a DNS header.
pub(super) const HEADER: usize = 12;

const QR: u8 = 0x80;
const TC: u8 = 0x02;
const SERVFAIL: u8 = 2;

/// The ID of a message that has a header.
#[inline]
pub(super) fn id(message: &[u8]) -> u16 {
    u16::from_be_bytes([message[0], message[1]])
}

/// Writes another ID.
#[inline]
pub(super) fn set_id(message: &mut [u8], id: u16) {
    message[..2].copy_from_slice(&id.to_be_bytes());
}

/// Whether this is long enough for a header and has QR=0.
#[inline]
pub(super) fn is_query(message: &[u8]) -> bool {
    message.len() >= HEADER && message[2] & QR == 0
}

/// Turns a query into the reply of an echo: QR set; opcode, RD, ID and question kept; the other flags and
/// the rcode cleared.
#[inline]
pub(super) fn answer(query: &mut [u8]) {
    query[2] = QR | (query[2] & 0x79);
    query[3] = 0;
}

/// Spoils a reply; faults that are not a matter of bytes leave it as it is.
pub(super) fn spoil(reply: &mut Vec<u8>, fault: Fault) {
    match fault {
        Fault::WrongQuestion => {
            // Every letter of the first label is another one; its length stays, so that only the name is wrong.
            let letters = usize::from(reply[HEADER]);
            reply[HEADER + 1..].iter_mut().take(letters).for_each(|letter| *letter = letter.wrapping_add(1));
        }
        // The first letter of the name: `n` becomes `o`, and the name keeps its length.
        Fault::Corrupt => reply[HEADER + 1] ^= 1,
        Fault::WrongRcode => reply[3] = reply[3] & 0xf0 | SERVFAIL,
        Fault::NotAReply => reply[2] &= !QR,
        Fault::CutShort => reply.truncate(HEADER + 2),
        Fault::Truncate => reply[2] |= TC,
        Fault::DropQuery
        | Fault::DropReply
        | Fault::Delay
        | Fault::Late
        | Fault::Duplicate
        | Fault::Reorder
        | Fault::WrongId
        | Fault::WrongPort => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: &[u8] =
        b"\x12\x34\x01\x10\x00\x01\x00\x00\x00\x00\x00\x00\x02n1\x04test\x00\x00\x01\x00\x01";

    #[test]
    fn an_answer_keeps_id_rd_and_question() {
        let mut reply = QUERY.to_vec();
        answer(&mut reply);
        assert_eq!(reply[..4], [0x12, 0x34, 0x81, 0x00]);
        assert_eq!(reply[4..], QUERY[4..]);
        assert!(is_query(QUERY) && !is_query(&reply) && !is_query(&QUERY[..11]));
    }

    #[test]
    fn each_spoiling_changes_one_thing() {
        let spoilt = |fault| {
            let mut reply = QUERY.to_vec();
            answer(&mut reply);
            spoil(&mut reply, fault);
            reply
        };
        assert_eq!(&spoilt(Fault::Corrupt)[12..15], b"\x02o1");
        assert_eq!(spoilt(Fault::WrongRcode)[3], 2);
        assert_eq!(spoilt(Fault::NotAReply)[2], 0x01);
        assert_eq!(spoilt(Fault::Truncate)[2], 0x83);
        assert_eq!(spoilt(Fault::CutShort).len(), 14);
        assert_eq!(&spoilt(Fault::WrongQuestion)[12..16], b"\x02o2\x04");
    }
}
