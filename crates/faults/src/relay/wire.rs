//! The bytes of a reply, and their changes by faults (RFC 1035, section 4.1, for header and records).

use super::fault::Fault;

pub(super) const HEADER: usize = 12;

const QR: u8 = 0x80;
const TC: u8 = 0x02;
const SERVFAIL: u8 = 2;

/// The ID of a message that has a header.
#[inline]
pub(super) fn id(message: &[u8]) -> u16 {
    u16::from_be_bytes([message[0], message[1]])
}

#[inline]
pub(super) fn set_id(message: &mut [u8], id: u16) {
    message[..2].copy_from_slice(&id.to_be_bytes());
}

/// Whether a message is long enough for a header and has QR=0.
#[inline]
pub(super) fn is_query(message: &[u8]) -> bool {
    message.len() >= HEADER && message[2] & QR == 0
}

/// The record of every answer: the question's name, A, IN, a TTL of 60 seconds, and an address of RFC 5737.
const ANSWER: &[u8] = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\xc0\x00\x02\x01";

/// Turns a query into its reply: QR is set; opcode, RD, ID and question stay; the other flags and the rcode
/// are cleared. If nothing follows the question, the reply gets an address as its answer.
#[inline]
pub fn answer(query: &mut Vec<u8>) {
    query[2] = QR | (query[2] & 0x79);
    query[3] = 0;
    if query[4..HEADER] == [0, 1, 0, 0, 0, 0, 0, 0] {
        query[7] = 1;
        query.extend_from_slice(ANSWER);
    }
}

/// Applies a fault to a reply. Faults that do not change bytes leave it unchanged.
pub(super) fn spoil(reply: &mut Vec<u8>, fault: Fault) {
    match fault {
        Fault::WrongQuestion => {
            // Every letter of the first label becomes another one. The label's length stays, so that only the
            // name is wrong.
            let letters = usize::from(reply[HEADER]);
            reply[HEADER + 1..].iter_mut().take(letters).for_each(|letter| *letter = letter.wrapping_add(1));
        }
        // The first letter of the name: `n` becomes `o`, and the name keeps its length.
        Fault::Corrupt => reply[HEADER + 1] ^= 1,
        Fault::WrongRcode => reply[3] = reply[3] & 0xf0 | SERVFAIL,
        Fault::WrongData => flip_data(reply),
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

/// Flips the last bit of the first answer's data, if there is one.
fn flip_data(reply: &mut [u8]) {
    let mut at = HEADER;
    // Past the question, and past the answer's owner, type, class and TTL.
    for more in [4, 8] {
        at = name_end(reply, at) + more;
    }
    let Some(length) = reply.get(at..at + 2).filter(|_| reply[6..8] != [0, 0]) else { return };
    let last = at + 1 + usize::from(u16::from_be_bytes([length[0], length[1]]));
    if let Some(byte) = reply.get_mut(last) {
        *byte ^= 1;
    }
}

/// The offset after a name: after its root label or a pointer.
fn name_end(message: &[u8], mut at: usize) -> usize {
    loop {
        match message.get(at).copied() {
            None | Some(0) => return at + 1,
            Some(0xc0..) => return at + 2,
            Some(length) => at += 1 + usize::from(length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: &[u8] =
        b"\x12\x34\x01\x10\x00\x01\x00\x00\x00\x00\x00\x00\x02n1\x04test\x00\x00\x01\x00\x01";

    #[test]
    fn an_answer_keeps_id_rd_and_question_and_adds_an_address() {
        let mut reply = QUERY.to_vec();
        answer(&mut reply);
        assert_eq!(reply[..12], [0x12, 0x34, 0x81, 0x00, 0, 1, 0, 1, 0, 0, 0, 0]);
        assert_eq!(reply[12..], [&QUERY[12..], ANSWER].concat());
        let mut with_more = [QUERY, b"an OPT record"].concat();
        with_more[11] = 1;
        let unchanged = with_more[4..].to_vec();
        answer(&mut with_more);
        assert_eq!(with_more[4..], unchanged);
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
        let mut right = QUERY.to_vec();
        answer(&mut right);
        let wrong = spoilt(Fault::WrongData);
        assert_eq!((&wrong[..wrong.len() - 1], wrong.last()), (&right[..right.len() - 1], Some(&0)));
        assert_eq!(spoilt(Fault::NotAReply)[2], 0x01);
        assert_eq!(spoilt(Fault::Truncate)[2], 0x83);
        assert_eq!(spoilt(Fault::CutShort).len(), 14);
        assert_eq!(&spoilt(Fault::WrongQuestion)[12..16], b"\x02o2\x04");
    }
}
