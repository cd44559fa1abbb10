//! The hash of a name, built label by label from the root. One pass over a name gives the hashes of all its
//! ancestors, so the apex, the closest encloser and the wildcard are found without another pass. ASCII case
//! does not matter (RFC 4343). The hash has no secret, since the zone's operator chooses the names in a zone.
//! The caller must compare the names it finds.

/// The hash of the root.
pub(crate) const ROOT: u64 = 0x9e37_79b9_7f4a_7c15;

const MULTIPLIER: u64 = 0xa076_1d64_78bd_642f;
const LENGTHS: u64 = 0xe703_7ed1_a0b4_28db;
const BYTES: u64 = 0x0101_0101_0101_0101;

/// The hash of the name whose first label begins at `at` in `bytes` and whose parent has the hash `parent`.
#[inline]
pub(crate) fn child(parent: u64, bytes: &[u8], at: usize) -> u64 {
    let length = usize::from(bytes[at]);
    let mut hash = parent ^ (length as u64).wrapping_mul(LENGTHS);
    let (mut from, end) = (at + 1, at + 1 + length);
    while from < end {
        hash = folded(hash ^ lower(load(bytes, from, end - from)));
        from += 8;
    }
    hash
}

/// Combines both halves of a product, so that every bit of the factor reaches the high and the low bits of
/// the hash.
#[inline]
fn folded(factor: u64) -> u64 {
    let product = u128::from(factor) * u128::from(MULTIPLIER);
    (product as u64) ^ ((product >> 64) as u64)
}

/// Up to eight bytes from `at`. The first `length` are taken, and the others are zero.
#[inline]
fn load(bytes: &[u8], at: usize, length: usize) -> u64 {
    let word = if let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        u64::from_le_bytes(*chunk)
    } else {
        let mut chunk = [0; 8];
        let rest = bytes.get(at..).unwrap_or_default();
        chunk[..rest.len()].copy_from_slice(rest);
        u64::from_le_bytes(chunk)
    };
    if length >= 8 { word } else { word & ((1 << (8 * length)) - 1) }
}

/// Converts eight bytes of ASCII to lower case.
#[inline]
fn lower(word: u64) -> u64 {
    let seven_bits = word & (BYTES * 0x7f);
    let from_a = seven_bits + BYTES * u64::from(0x80 - b'A');
    let beyond_z = seven_bits + BYTES * u64::from(0x7f - b'Z');
    let capitals = (from_a ^ beyond_z) & !word & (BYTES * 0x80);
    word | (capitals >> 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capitals_become_small_and_nothing_else_changes() {
        for byte in 0..=u8::MAX {
            assert_eq!(
                lower(BYTES * u64::from(byte)),
                BYTES * u64::from(byte.to_ascii_lowercase()),
                "{byte}"
            );
        }
    }

    #[test]
    fn only_the_label_counts() {
        let hash = child(ROOT, b"\x03wWwxxxxxxx", 0);
        assert_eq!(hash, child(ROOT, b"\x03WWW", 0));
        assert_ne!(hash, child(ROOT, b"\x03wwx", 0));
        assert_ne!(hash, child(hash, b"\x03www", 0));
        let long = b"\x14abcdefghijklmnopqrst\x00";
        assert_eq!(child(ROOT, long, 0), child(ROOT, b"xx\x14ABCDEFGHIJKLMNOPQRST", 2));
    }

    #[test]
    fn a_zero_byte_is_not_the_end() {
        assert_ne!(child(ROOT, b"\x01\0", 0), child(ROOT, b"\x02\0\0", 0));
    }
}
