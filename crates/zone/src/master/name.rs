//! Names in master files: the origin completes relative ones (RFC 1035, section 5.1).

use kqps_message::name::{self, LABEL_BYTES_MAX, NAME_BYTES_MAX, NameError, NameFault};

use super::error::{Parsed, Trouble, Wrong};
use super::lexer::Token;

/// Appends the name of a word: `@` is the origin, and a final dot makes a name absolute.
#[inline]
pub(super) fn append(token: &Token<'_>, origin: &[u8], out: &mut Vec<u8>) -> Parsed<()> {
    encode(token.text, origin, out).map_err(|error| {
        let at = token.text_at + (error.column - 1).min(token.text.len());
        Trouble::new(at, Wrong::Name(error.fault))
    })
}

/// Appends the name in any text, as [`append`] does. On an error `out` is unchanged.
#[inline]
pub(super) fn encode(text: &[u8], origin: &[u8], out: &mut Vec<u8>) -> Result<(), NameError> {
    if text == b"@" {
        out.extend_from_slice(origin);
        return Ok(());
    }
    let start = out.len();
    if plain(text, origin, out, start) {
        return Ok(());
    }
    out.truncate(start);
    with_care(text, origin, out)
}

/// Appends a name without escapes. Returns false if the text has an escape or is not a name; `out` is then
/// undefined after `start`.
#[inline]
fn plain(text: &[u8], origin: &[u8], out: &mut Vec<u8>, start: usize) -> bool {
    // Each dot stands where the wire form has the length of the next label.
    out.push(0);
    out.extend_from_slice(text);
    let wire = &mut out[start..];
    let mut label = 0;
    for at in 1..wire.len() {
        match wire[at] {
            b'.' => {
                let bytes = at - label - 1;
                if bytes == 0 || bytes > LABEL_BYTES_MAX {
                    return false;
                }
                wire[label] = u8::try_from(bytes).expect("a label has 63 bytes at most");
                label = at;
            }
            b'\\' => return false,
            _ => {}
        }
    }
    let bytes = wire.len() - label - 1;
    if bytes > LABEL_BYTES_MAX {
        return false;
    }
    wire[label] = u8::try_from(bytes).expect("a label has 63 bytes at most");
    if bytes > 0 {
        out.extend_from_slice(origin);
    } else if label == 0 {
        return false;
    }
    out.len() - start <= NAME_BYTES_MAX
}

/// Appends any name, or returns what is wrong with it.
#[cold]
fn with_care(text: &[u8], origin: &[u8], out: &mut Vec<u8>) -> Result<(), NameError> {
    let start = out.len();
    name::encode(text, out)?;
    if !ends_with_dot(text) {
        out.pop();
        out.extend_from_slice(origin);
        if out.len() - start > NAME_BYTES_MAX {
            out.truncate(start);
            return Err(NameError { column: text.len(), fault: NameFault::NameTooLong });
        }
    }
    Ok(())
}

/// Whether the last byte is a dot that no backslash escapes.
fn ends_with_dot(text: &[u8]) -> bool {
    text.strip_suffix(b".")
        .is_some_and(|head| head.iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(text: &str) -> Result<Vec<u8>, NameError> {
        let mut out = b"before".to_vec();
        encode(text.as_bytes(), b"\x07example\0", &mut out)?;
        Ok(out.split_off(6))
    }

    #[test]
    fn relative_names_end_with_the_origin() {
        assert_eq!(wire("@").unwrap(), b"\x07example\0");
        assert_eq!(wire("www").unwrap(), b"\x03www\x07example\0");
        assert_eq!(wire("a.b").unwrap(), b"\x01a\x01b\x07example\0");
        assert_eq!(wire("a.b.").unwrap(), b"\x01a\x01b\0");
        assert_eq!(wire(".").unwrap(), b"\0");
        assert_eq!(wire(r"\@").unwrap(), b"\x01@\x07example\0");
        assert_eq!(wire(r"a\.").unwrap(), b"\x02a.\x07example\0");
        assert_eq!(wire(r"a\\.").unwrap(), b"\x02a\\\0");
        assert_eq!(wire(r"a\092.").unwrap(), b"\x02a\\\0");
    }

    #[test]
    fn what_is_no_name_is_refused_where_it_goes_wrong() {
        let long = "x".repeat(63);
        for (text, column, fault) in [
            (".a", 1, NameFault::EmptyLabel),
            ("a..b", 3, NameFault::EmptyLabel),
            ("..", 1, NameFault::EmptyLabel),
            (&format!("{long}x"), 64, NameFault::LabelTooLong),
            (&format!("{long}x."), 64, NameFault::LabelTooLong),
            // 4 × 64 is more than 255; so are 3 × 64 + 56 and the origin's 9 bytes.
            (&[&*long; 4].join("."), 254, NameFault::NameTooLong),
            (&format!("{long}.{long}.{long}.{}", "y".repeat(55)), 247, NameFault::NameTooLong),
            (r"a\", 2, NameFault::LoneBackslash),
        ] {
            assert_eq!(wire(text), Err(NameError { column, fault }), "{text}");
        }
        assert_eq!(wire(&format!("{long}.{long}.{long}.{}", "y".repeat(53))).unwrap().len(), 255);
    }
}
