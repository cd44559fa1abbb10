//! The bytes of replies, right and wrong (RFC 1035, section 4.1).

use crate::relay::answer;

const HEADER: usize = 12;
const QR: u8 = 0x80;

/// How far an ID is from one that is outstanding: half of all IDs, which a player that counts upwards does not use
/// before 32,768 further queries on its connection.
const FAR: u16 = 1 << 15;

/// Replies that wait for each other leave together when they are this many.
pub(super) const JOINED: u32 = 7;

/// The longest time that a reply waits for another one.
pub(super) const HELD_NS: u64 = 2_000_000;

/// The time between the two pieces of a reply, and between half of it and a reset: long enough that a player reads the
/// first part alone.
pub(super) const APART_NS: u64 = 300_000;

/// A query that was read.
pub(super) struct Query {
    pub(super) message: Vec<u8>,
    /// The number of its stream in HTTP/2; 0 without it.
    pub(super) stream: u32,
}

/// Whether a message is a query with a question.
pub(super) fn is_query(message: &[u8]) -> bool {
    message.len() > HEADER + 1 && message[2] & QR == 0
}

/// The reply to a query.
pub(super) fn right(mut query: Vec<u8>) -> Vec<u8> {
    answer(&mut query);
    query
}

/// The reply with an ID that is not outstanding, and is not 0 if that of the query is.
pub(super) fn with_wrong_id(mut query: Vec<u8>) -> Vec<u8> {
    let id = u16::from_be_bytes([query[0], query[1]]).wrapping_add(FAR);
    query[..2].copy_from_slice(&id.to_be_bytes());
    right(query)
}

/// The reply with another first letter in the question's name.
pub(super) fn with_wrong_question(mut query: Vec<u8>) -> Vec<u8> {
    query[HEADER + 1] ^= 1;
    right(query)
}

/// The reply after a length that is too large.
pub(super) fn too_long(query: Vec<u8>) -> Vec<u8> {
    let mut frame = framed(&right(query));
    frame[..2].copy_from_slice(&u16::MAX.to_be_bytes());
    frame
}

/// Random bytes, as many as the reply and its length have. As a length, the first two are more than all that follow.
pub(super) fn garbage(query: Vec<u8>, random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = framed(&right(query));
    random.fill(&mut bytes);
    bytes[0] = 0xff;
    bytes
}

/// A message after its length (RFC 1035, section 4.2.2; RFC 9250, section 4.2).
pub(super) fn framed(message: &[u8]) -> Vec<u8> {
    let [.., high, low] = message.len().to_be_bytes();
    [&[high, low][..], message].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reply_is_wrong_in_one_thing() {
        let query =
            b"\xff\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x02n1\x04test\x00\x00\x01\x00\x01".to_vec();
        assert!(is_query(&query) && !is_query(&query[..13]));
        let right = framed(&right(query.clone()));
        assert_eq!(usize::from(u16::from_be_bytes([right[0], right[1]])), right.len() - 2);
        assert!(!is_query(&right[2..]));
        let other = with_wrong_id(query.clone());
        assert_eq!((&other[..2], &other[2..]), (&[0x7f, 0x34][..], &right[4..]));
        assert_eq!(&with_wrong_question(query.clone())[12..15], b"\x02o1");
        assert_eq!(too_long(query.clone())[2..], right[2..]);
        let garbage = garbage(query, &mut fastrand::Rng::with_seed(1));
        assert!(garbage.len() == right.len() && garbage[0] == 0xff);
    }
}
