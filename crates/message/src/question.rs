//! The question section: where it ends, and whether a reply repeats it.

use crate::header::{HEADER_BYTES, Header};
use crate::name;

/// The number of bytes that follow the name of a question: type and class.
pub const QUESTION_TAIL_BYTES: usize = 4;

/// The position just after the question section of `message`; without a question, the end of the header.
/// `None` if the header or a question is cut short or malformed.
#[inline]
pub fn end(message: &[u8]) -> Option<usize> {
    let mut at = HEADER_BYTES;
    for _ in 0..Header::from_bytes(message)?.questions() {
        at = name::end(message, at)? + QUESTION_TAIL_BYTES;
        if at > message.len() {
            return None;
        }
    }
    Some(at)
}

/// Whether `reply` repeats the question of the query. `asked` is the question section of the query, which the
/// reply must repeat just after its header. The case of ASCII letters in the name does not matter (RFC 4343);
/// type and class must be equal. Every reply matches a query without a question.
#[inline]
pub fn same(asked: &[u8], reply: &[u8]) -> bool {
    if asked.is_empty() {
        return true;
    }
    let Some(repeated) = reply.get(HEADER_BYTES..HEADER_BYTES + asked.len()) else { return false };
    let counted = reply[4] != 0 || reply[5] != 0;
    counted && (repeated == asked || same_but_for_case(asked, repeated))
}

/// The slow path of [`same`], for two sections of equal length. Length bytes are smaller than any letter, so
/// they can be compared like the rest of the name.
#[cold]
fn same_but_for_case(asked: &[u8], repeated: &[u8]) -> bool {
    let name_bytes = asked.len().saturating_sub(QUESTION_TAIL_BYTES);
    asked[name_bytes..] == repeated[name_bytes..]
        && asked[..name_bytes].eq_ignore_ascii_case(&repeated[..name_bytes])
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: &[u8] = b"\x03wWw\x04test\0\x00\x41\x00\x01";

    fn reply(question: &[u8]) -> Vec<u8> {
        [&[0, 0, 0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0], question].concat()
    }

    #[test]
    fn a_question_ends_after_its_class() {
        let message = reply(ASKED);
        assert_eq!(end(&message), Some(message.len()));
        assert_eq!(end(&message[..message.len() - 1]), None);
        assert_eq!(end(&message[..11]), None);
        assert_eq!(end(&[0; 12]), Some(12));
    }

    #[test]
    fn a_reply_repeats_the_question_in_any_case() {
        assert!(same(ASKED, &reply(ASKED)));
        assert!(same(ASKED, &reply(b"\x03Www\x04TEST\0\x00\x41\x00\x01")));
        assert!(same(ASKED, &[reply(ASKED), b"answer".to_vec()].concat()));
    }

    #[test]
    fn another_question_does_not_match() {
        assert!(!same(ASKED, &reply(b"\x03wWx\x04test\0\x00\x41\x00\x01")));
        // The byte 'a' instead of 'A' in the type: case matters there.
        assert!(!same(ASKED, &reply(b"\x03wWw\x04test\0\x00\x61\x00\x01")));
        assert!(!same(ASKED, &reply(&ASKED[..ASKED.len() - 1])));
        assert!(!same(ASKED, b""));
    }

    #[test]
    fn a_reply_that_counts_no_question_does_not_match() {
        let mut message = reply(ASKED);
        message[5] = 0;
        assert!(!same(ASKED, &message));
        assert!(same(b"", &message));
    }
}
