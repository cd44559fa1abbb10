//! Hashed owner names (RFC 5155, section 5) and their letters (base32hex, RFC 4648, section 7).

use sha1::{Digest, Sha1};

/// The bytes of a hash: the 160 bits of SHA-1.
pub const HASH_BYTES: usize = 20;

const LETTERS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";

/// The hash of a name in wire form: SHA-1 over the name in lower case and the salt, and `iterations` times more
/// over the hash and the salt.
pub fn hash(name: &[u8], salt: &[u8], iterations: u16) -> [u8; HASH_BYTES] {
    let mut small = [0; 255];
    let small = &mut small[..name.len().min(255)];
    small.copy_from_slice(&name[..small.len()]);
    small.make_ascii_lowercase();
    let mut digest: [u8; HASH_BYTES] = Sha1::new().chain_update(small).chain_update(salt).finalize().into();
    for _ in 0..iterations {
        digest = Sha1::new().chain_update(digest).chain_update(salt).finalize().into();
    }
    digest
}

/// A hash in lower-case letters.
pub fn letters(hash: &[u8; HASH_BYTES]) -> [u8; 32] {
    let mut letters = [0; 32];
    for (five, eight) in hash.chunks_exact(5).zip(letters.chunks_exact_mut(8)) {
        let bits = five.iter().fold(0_u64, |bits, &byte| bits << 8 | u64::from(byte));
        for (place, letter) in eight.iter_mut().enumerate() {
            *letter = LETTERS[(bits >> (35 - 5 * place)) as usize & 31];
        }
    }
    letters
}

/// Whether letters of either case are a hash.
pub(crate) fn is_hash(letters: &[u8]) -> bool {
    letters.len() == 32
        && letters.iter().all(|letter| matches!(letter, b'0'..=b'9' | b'a'..=b'v' | b'A'..=b'V'))
}

/// Parses a hash from letters of either case; `None` if they are not a hash.
pub(crate) fn parse(letters: &[u8]) -> Option<[u8; HASH_BYTES]> {
    let mut hash = [0; HASH_BYTES];
    if letters.len() != 32 {
        return None;
    }
    for (eight, five) in letters.chunks_exact(8).zip(hash.chunks_exact_mut(5)) {
        let mut bits = 0_u64;
        for letter in eight {
            let value = LETTERS.iter().position(|known| known.eq_ignore_ascii_case(letter))?;
            bits = bits << 5 | value as u64;
        }
        five.copy_from_slice(&bits.to_be_bytes()[3..]);
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_rfc_5155() {
        // Appendix A: salt aabbccdd, 12 iterations.
        for (name, expected) in [
            (&b"\x07example\0"[..], &b"0p9mhaveqvm6t7vbl5lop2u3t2rp3tom"[..]),
            (b"\x01a\x07eXAmple\0", b"35mthgpgcu1qg68fab165klnsnk3dpvl"),
            (b"\x01*\x01w\x07example\0", b"r53bq7cc2uvmubfu5ocmm6pers9tk9en"),
        ] {
            let hash = hash(name, &[0xaa, 0xbb, 0xcc, 0xdd], 12);
            assert_eq!(letters(&hash).escape_ascii().to_string(), expected.escape_ascii().to_string());
            assert_eq!(parse(&expected.to_ascii_uppercase()), Some(hash));
        }
    }

    #[test]
    fn what_is_no_hash_is_refused() {
        for letters in [&b"0p9mhaveqvm6t7vbl5lop2u3t2rp3to"[..], b"0p9mhaveqvm6t7vbl5lop2u3t2rp3tow"] {
            assert_eq!((parse(letters), is_hash(letters)), (None, false));
        }
        for letter in 0..=u8::MAX {
            let letters = [letter; 32];
            assert_eq!(is_hash(&letters), parse(&letters).is_some(), "{letter}");
        }
    }
}
