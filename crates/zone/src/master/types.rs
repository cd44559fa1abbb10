//! Types by their mnemonics, and sets of them as in NSEC, NSEC3 and CSYNC (RFC 4034, section 4.1.2).

use kqps_message::rtype;

use super::error::{Parsed, Trouble};
use super::lexer::Lexer;

pub(super) const A6: u16 = 38;

/// Packs up to seven bytes, with letters in upper case, into one number. It begins with a 1, so that zero
/// bytes count.
const fn packed(text: &[u8]) -> u64 {
    let mut packed = 1;
    let mut at = 0;
    while at < text.len() {
        packed = packed << 8 | text[at].to_ascii_uppercase() as u64;
        at += 1;
    }
    packed
}

macro_rules! known {
    ($text:expr, $($name:ident = $number:expr,)*) => {{
        $(const $name: u64 = packed(stringify!($name).as_bytes());)*
        match packed($text) {
            $($name => Some($number),)*
            _ => None,
        }
    }};
}

/// The type of a mnemonic. The types that fill zones are found without a search.
#[inline]
pub(super) fn parse(text: &[u8]) -> Option<u16> {
    let common = if text.len() <= 7 {
        known!(
            text,
            A = 1,
            AAAA = 28,
            NS = 2,
            CNAME = 5,
            SOA = 6,
            PTR = 12,
            MX = 15,
            TXT = 16,
            SRV = 33,
            DS = 43,
            RRSIG = 46,
            NSEC = 47,
            DNSKEY = 48,
            NSEC3 = 50,
        )
    } else {
        None
    };
    common.or_else(|| rtype::parse(text))
}

/// Bytes of a window: one bit for each of its 256 types.
const WINDOW_BYTES: usize = 32;

/// Reads the types up to the entry's end and appends the set in wire form. There may be none.
pub(super) fn bitmap(lexer: &mut Lexer<'_>, out: &mut Vec<u8>) -> Parsed<()> {
    let mut first = [0; WINDOW_BYTES];
    let mut others = Vec::new();
    while let Some(token) = lexer.next()? {
        match parse(token.text).filter(|_| !token.quoted()) {
            Some(rtype @ 1..=255) => first[usize::from(rtype / 8)] |= 0x80 >> (rtype % 8),
            Some(rtype) if rtype > 255 => others.push(rtype),
            _ => return Err(Trouble::expected("a type", token.text, token.at)),
        }
    }
    append_window(0, &first, out);
    others.sort_unstable();
    for window in others.chunk_by(|a, b| a >> 8 == b >> 8) {
        let mut bits = [0; WINDOW_BYTES];
        for &rtype in window {
            bits[usize::from(rtype & 255) / 8] |= 0x80 >> (rtype % 8);
        }
        let [number, _] = window[0].to_be_bytes();
        append_window(number, &bits, out);
    }
    Ok(())
}

fn append_window(number: u8, bits: &[u8; WINDOW_BYTES], out: &mut Vec<u8>) {
    let bytes = bits.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    if bytes > 0 {
        out.push(number);
        out.push(u8::try_from(bytes).expect("a window has 32 bytes at most"));
        out.extend_from_slice(&bits[..bytes]);
    }
}

/// Whether these bytes are a set of types in wire form.
pub(super) fn is_bitmap(mut wire: &[u8]) -> bool {
    let mut least = 0;
    while let [window, bytes, rest @ ..] = wire {
        let bytes = usize::from(*bytes);
        let in_order = u16::from(*window) >= least;
        if !in_order || bytes > WINDOW_BYTES || bytes > rest.len() || bytes == 0 || rest[bytes - 1] == 0 {
            return false;
        }
        least = u16::from(*window) + 1;
        wire = &rest[bytes..];
    }
    wire.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_types_have_their_numbers() {
        for &(name, number) in rtype::TYPES {
            assert_eq!(parse(name.as_bytes()), Some(number));
            assert_eq!(parse(name.to_ascii_lowercase().as_bytes()), Some(number));
        }
        assert_eq!(parse(b"TYPE65535"), Some(65_535));
        assert_eq!(parse(b"\0A"), None);
        assert_eq!(parse(b"B"), None);
    }

    /// The example of RFC 4034, section 4.3.
    #[test]
    fn sets_of_types_are_written_in_windows() {
        let mut out = Vec::new();
        bitmap(&mut Lexer::new(b"A MX RRSIG NSEC TYPE1234"), &mut out).unwrap();
        let mut expected = b"\x00\x06\x40\x01\x00\x00\x00\x03\x04\x1b".to_vec();
        expected.resize(expected.len() + 26, 0);
        expected.push(0x20);
        assert_eq!(out, expected);
        assert!(is_bitmap(&out) && is_bitmap(b""));
        for bad in [&b"\0"[..], b"\0\0", b"\0\x02\x40", b"\0\x02\x40\0", b"\x01\x01\x01\0\x01\x01"] {
            assert!(!is_bitmap(bad), "{bad:?}");
        }
    }
}
