//! A question as bytes: what makes two questions the same.

use kqps_cache::Question;
use kqps_message::query::CLASS_IN;

use crate::parsed_query::ParsedQuery;

/// The bytes after the name: the type, and whether DO and CD are set.
const TAIL_BYTES: usize = 3;

/// Writes the key of a question to `key`: its name in lower case (RFC 4343), its type, and whether the client wants
/// DNSSEC records, and answers that were not validated (RFC 4035, section 4.7).
pub(crate) fn write(key: &mut Vec<u8>, name: &[u8], asked: ParsedQuery) {
    key.clear();
    key.extend_from_slice(name);
    key.make_ascii_lowercase();
    key.extend_from_slice(&asked.rtype.to_be_bytes());
    key.push(u8::from(asked.dnssec_ok) | u8::from(asked.checking_disabled) << 1);
}

/// The question of a key.
pub(crate) fn question(key: &[u8]) -> Question<'_> {
    let (name, tail) = key.split_at(key.len() - TAIL_BYTES);
    Question {
        name,
        rtype: u16::from_be_bytes([tail[0], tail[1]]),
        class: CLASS_IN,
        dnssec_ok: tail[2] & 1 != 0,
        checking_disabled: tail[2] & 2 != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_holds_its_question() {
        let query = b"\0\0\x01\x10\0\x01\0\0\0\0\0\x01\x03wWw\0\0\x1c\0\x01\0\0\x29\x04\xd0\0\0\x80\0\0\0";
        let asked = ParsedQuery::from_query(query).unwrap();
        let mut key = b"before".to_vec();
        write(&mut key, asked.name(query), asked);
        let Question { name: asked_name, rtype, class, dnssec_ok, checking_disabled } = question(&key);
        assert_eq!((asked_name, rtype, class), (&b"\x03www\0"[..], 28, 1));
        assert!(dnssec_ok && checking_disabled);
    }
}
