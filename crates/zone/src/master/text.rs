//! Character strings (RFC 1035, section 5.1): bytes, some of them written as escapes.

use kqps_message::name;

use super::error::{Parsed, Trouble, Wrong};
use super::lexer::Token;

/// Appends the bytes of a word.
#[inline]
pub(super) fn append(token: &Token<'_>, out: &mut Vec<u8>) -> Parsed<()> {
    let Some(first) = memchr::memchr(b'\\', token.text) else {
        out.extend_from_slice(token.text);
        return Ok(());
    };
    out.extend_from_slice(&token.text[..first]);
    let mut at = first;
    while at < token.text.len() {
        let rest = &token.text[at..];
        if rest[0] != b'\\' {
            let plain = memchr::memchr(b'\\', rest).unwrap_or(rest.len());
            out.extend_from_slice(&rest[..plain]);
            at += plain;
            continue;
        }
        let (byte, taken) = name::unescape(&rest[1..])
            .map_err(|fault| Trouble::new(token.text_at + at, Wrong::Name(fault)))?;
        out.push(byte);
        at += taken;
    }
    Ok(())
}

/// Appends a word as a string with its length before it, which is at most 255.
#[inline]
pub(super) fn append_string(token: &Token<'_>, out: &mut Vec<u8>) -> Parsed<()> {
    let start = out.len();
    out.push(0);
    append(token, out)?;
    let bytes = u8::try_from(out.len() - start - 1)
        .map_err(|_| Trouble::rule(token.at, "a string has at most 255 bytes, and this one has more"))?;
    out[start] = bytes;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn string(text: &str) -> Parsed<Vec<u8>> {
        let mut out = Vec::new();
        append_string(&Token { text: text.as_bytes(), at: 10, text_at: 11 }, &mut out).map(|()| out)
    }

    #[test]
    fn escapes_stand_for_bytes() {
        assert_eq!(string("").unwrap(), b"\0");
        assert_eq!(string(r#"a\"b\\c\065\000\;"#).unwrap(), b"\x08a\"b\\cA\0;");
        assert_eq!(string(&"x".repeat(255)).unwrap().len(), 256);
        for (text, at) in [(r"ab\256", 13), (r"a\25", 12), (r"a\", 12), (&"x".repeat(256), 10)] {
            assert_eq!(string(text).unwrap_err().at(), at, "{text}");
        }
    }
}
