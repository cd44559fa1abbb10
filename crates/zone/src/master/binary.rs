//! Bytes written as text: base 16, base 32 with the extended hex alphabet, and base 64 (RFC 4648).

use super::error::{Parsed, Trouble};
use super::lexer::{Lexer, Token};

/// Marks a byte that is not a digit.
const NONE: u8 = 255;

const fn digits(alphabet: &[u8], same_in_lower_case: bool) -> [u8; 256] {
    let mut table = [NONE; 256];
    let mut value: u8 = 0;
    while (value as usize) < alphabet.len() {
        let digit = alphabet[value as usize];
        table[digit as usize] = value;
        if same_in_lower_case {
            table[digit.to_ascii_lowercase() as usize] = value;
        }
        value += 1;
    }
    table
}

const HEX: [u8; 256] = digits(b"0123456789ABCDEF", true);
const HEX_32: [u8; 256] = digits(b"0123456789ABCDEFGHIJKLMNOPQRSTUV", true);
const BASE_64: [u8; 256] = digits(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", false);

/// Collects digits of a fixed number of bits into bytes.
#[derive(Default)]
struct Bits {
    value: u32,
    count: u32,
}

impl Bits {
    #[inline]
    fn push(&mut self, digit: u8, bits: u32, out: &mut Vec<u8>) {
        self.value = self.value << bits | u32::from(digit);
        self.count += bits;
        if self.count >= 8 {
            self.count -= 8;
            let [.., byte] = (self.value >> self.count).to_be_bytes();
            out.push(byte);
        }
    }

    /// Whether the remaining bits are the zeros that fill the last digit, fewer than `bits`.
    fn are_done(&self, bits: u32) -> bool {
        self.count < bits && self.value & ((1 << self.count) - 1) == 0
    }
}

/// Appends the bytes of one word in hexadecimal digits.
pub(super) fn hex(token: &Token<'_>, out: &mut Vec<u8>) -> Parsed<()> {
    let expected = "an even number of hexadecimal digits";
    let mut bits = Bits::default();
    for &byte in token.text {
        let digit = HEX[usize::from(byte)];
        if digit == NONE {
            return Err(Trouble::expected(expected, token.text, token.at));
        }
        bits.push(digit, 4, out);
    }
    if bits.count != 0 || token.quoted() {
        return Err(Trouble::expected(expected, token.text, token.at));
    }
    Ok(())
}

/// Appends the bytes of all hexadecimal digits up to the entry's end, in one word or many. `optional` is
/// whether there may be none.
pub(super) fn hex_rest(lexer: &mut Lexer<'_>, optional: bool, out: &mut Vec<u8>) -> Parsed<()> {
    let expected = "hexadecimal digits";
    let mut bits = Bits::default();
    let mut any = optional;
    while let Some(token) = lexer.next()? {
        any = true;
        for (at, &byte) in token.text.iter().enumerate() {
            let digit = HEX[usize::from(byte)];
            if digit == NONE {
                return Err(Trouble::expected(expected, &token.text[at..], token.text_at + at));
            }
            bits.push(digit, 4, out);
        }
    }
    if !any {
        return Err(Trouble::ended(expected, lexer.at()));
    }
    if bits.count != 0 {
        return Err(Trouble::rule(lexer.at(), "the number of hexadecimal digits is odd"));
    }
    Ok(())
}

/// Appends the bytes of a word in base 32 with the extended hex alphabet, without padding.
pub(super) fn base32hex(token: &Token<'_>, out: &mut Vec<u8>) -> Parsed<()> {
    let expected = "bytes in base 32 with the extended hex alphabet (RFC 4648)";
    let mut bits = Bits::default();
    for &byte in token.text {
        let digit = HEX_32[usize::from(byte)];
        if digit == NONE {
            return Err(Trouble::expected(expected, token.text, token.at));
        }
        bits.push(digit, 5, out);
    }
    if token.text.is_empty() || token.quoted() || !bits.are_done(5) {
        return Err(Trouble::expected(expected, token.text, token.at));
    }
    Ok(())
}

/// Appends the bytes of all base 64 up to the entry's end, in one word or many.
pub(super) fn base64_rest(lexer: &mut Lexer<'_>, out: &mut Vec<u8>) -> Parsed<()> {
    let mut base64 = Base64::default();
    let mut any = false;
    while let Some(token) = lexer.next()? {
        any = true;
        base64.add(&token, out)?;
    }
    if !any {
        return Err(Trouble::ended(BASE_64_EXPECTED, lexer.at()));
    }
    base64.finish(lexer.at())
}

/// Appends the bytes of one word in base 64.
pub(super) fn base64(token: &Token<'_>, out: &mut Vec<u8>) -> Parsed<()> {
    let mut base64 = Base64::default();
    base64.add(token, out)?;
    base64.finish(token.text_at + token.text.len())
}

const BASE_64_EXPECTED: &str = "bytes in base 64 (RFC 4648)";

/// Decodes base 64 in one piece or several.
#[derive(Default)]
struct Base64 {
    bits: Bits,
    digits: usize,
    padding: usize,
}

impl Base64 {
    fn add(&mut self, token: &Token<'_>, out: &mut Vec<u8>) -> Parsed<()> {
        let whole = if self.padding == 0 { self.add_groups(token.text, out) } else { 0 };
        for (at, &byte) in token.text.iter().enumerate().skip(whole) {
            let digit = BASE_64[usize::from(byte)];
            if digit != NONE && self.padding == 0 {
                self.bits.push(digit, 6, out);
                self.digits += 1;
            } else if byte == b'=' {
                self.padding += 1;
            } else {
                let at_text = token.text_at + at;
                return Err(Trouble::expected(BASE_64_EXPECTED, &token.text[at..], at_text));
            }
        }
        Ok(())
    }

    /// Adds groups of four digits while no bits are left over from before. Returns the number of digits.
    fn add_groups(&mut self, text: &[u8], out: &mut Vec<u8>) -> usize {
        let mut at = 0;
        while self.bits.count == 0
            && let Some(group) = text.get(at..).and_then(<[u8]>::first_chunk::<4>)
        {
            let [a, b, c, d] = group.map(|byte| u32::from(BASE_64[usize::from(byte)]));
            if a | b | c | d > 63 {
                break;
            }
            out.extend_from_slice(&(a << 18 | b << 12 | c << 6 | d).to_be_bytes()[1..]);
            at += 4;
        }
        self.digits += at;
        at
    }

    fn finish(&self, at: usize) -> Parsed<()> {
        let whole = (self.digits + self.padding).is_multiple_of(4) && self.padding <= 2;
        if !whole || !self.bits.are_done(6) {
            return Err(Trouble::rule(at, "the bytes in base 64 end in the middle of a group of four"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Reader = fn(&mut Lexer<'_>, &mut Vec<u8>) -> Parsed<()>;

    fn hex_rest(lexer: &mut Lexer<'_>, out: &mut Vec<u8>) -> Parsed<()> {
        super::hex_rest(lexer, false, out)
    }

    fn rest(reader: Reader, text: &str) -> Parsed<Vec<u8>> {
        let mut out = Vec::new();
        reader(&mut Lexer::new(text.as_bytes()), &mut out).map(|()| out)
    }

    /// The vectors of RFC 4648, section 10.
    #[test]
    fn the_rfcs_vectors() {
        for (text, bytes) in [
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm 9vY m E =", "fooba"),
            ("Zm9vYmFy", "foobar"),
        ] {
            assert_eq!(rest(base64_rest, text).unwrap(), bytes.as_bytes());
        }
        for (text, bytes) in [("CO", "f"), ("cpng", "fo"), ("CPNMU", "foo"), ("CPNMUOJ1E8", "foobar")] {
            let mut out = Vec::new();
            base32hex(&Token::new(text.as_bytes(), 0), &mut out).unwrap();
            assert_eq!(out, bytes.as_bytes());
        }
        assert_eq!(rest(hex_rest, "66 6f6\tF 6").map_err(|trouble| trouble.at()), Err(10));
        assert_eq!(rest(hex_rest, "66 6f6\tF").unwrap(), b"foo");
    }

    #[test]
    fn what_is_none_is_refused_where_it_goes_wrong() {
        for (reader, text, at) in [
            (hex_rest as Reader, "", 0),
            (hex_rest, "6g", 1),
            (base64_rest, "", 0),
            (base64_rest, "Zm9", 3),
            (base64_rest, "Zm9=v", 4),
            (base64_rest, "Zh==", 4),
            (base64_rest, "Z===", 4),
            (base64_rest, "Zm9v Zm-v", 7),
        ] {
            assert_eq!(rest(reader, text).unwrap_err().at(), at, "{text}");
        }
    }
}
