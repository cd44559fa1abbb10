//! Conversion of names between presentation form and wire form (RFC 1035, sections 3.1 and 5.1; RFC 4343 for
//! escapes). A name is bytes, not text: it need not be UTF-8.

use std::fmt;

/// The maximum length of a name on the wire in bytes, with its root label (RFC 1035, section 2.3.4).
pub const NAME_BYTES_MAX: usize = 255;
/// The maximum length of a label in bytes (RFC 1035, section 2.3.4).
pub const LABEL_BYTES_MAX: usize = 63;

/// Why a presentation form is not a valid name, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct NameError {
    /// The byte of the presentation form at which the fault was found, counted from 1.
    pub column: usize,
    /// The fault at this column.
    pub fault: NameFault,
}

/// The faults that a presentation form can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameFault {
    /// The text is empty.
    #[error("the name is empty; the root is written \".\"")]
    Empty,
    /// Two dots follow one another, or a dot comes first.
    #[error("a label is empty")]
    EmptyLabel,
    /// A label has more than 63 bytes.
    #[error("a label is longer than 63 bytes")]
    LabelTooLong,
    /// The name has more than 255 bytes on the wire.
    #[error("the name is longer than 255 bytes on the wire")]
    NameTooLong,
    /// A backslash is the last byte of the text.
    #[error("nothing follows the backslash")]
    LoneBackslash,
    /// Fewer than two further digits follow a backslash and a digit.
    #[error("a backslash and a digit must be followed by two more digits")]
    ShortEscape,
    /// A decimal escape is above 255.
    #[error("an escape is above \\255")]
    EscapeTooLarge,
}

/// Appends the wire form of `text` to `wire` and returns its length, 1 to 255 bytes. On an error `wire` is
/// unchanged. The final dot is optional: every name is absolute. `\DDD` stands for the byte with that decimal
/// value, and a backslash before any other byte stands for that byte.
pub fn encode(text: &[u8], wire: &mut Vec<u8>) -> Result<usize, NameError> {
    let start = wire.len();
    encode_labels(text, wire, start).inspect_err(|_| wire.truncate(start))?;
    Ok(wire.len() - start)
}

fn encode_labels(text: &[u8], wire: &mut Vec<u8>, start: usize) -> Result<(), NameError> {
    let error = |at: usize, fault| NameError { column: at + 1, fault };
    if text.is_empty() {
        return Err(error(0, NameFault::Empty));
    }
    if text == b"." {
        wire.push(0);
        return Ok(());
    }
    let mut label = wire.len();
    wire.push(0);
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'.' if wire.len() == label + 1 => return Err(error(at, NameFault::EmptyLabel)),
            b'.' => {
                at += 1;
                // The length byte of the next label, or the root label if the text ends here.
                label = wire.len();
                wire.push(0);
            }
            b'\\' => {
                let (byte, taken) = unescape(&text[at + 1..]).map_err(|fault| error(at, fault))?;
                extend(wire, start, label, &[byte]).map_err(|(_, fault)| error(at, fault))?;
                at += taken;
            }
            _ => {
                let rest = &text[at..];
                let plain = rest.iter().position(|byte| matches!(byte, b'.' | b'\\')).unwrap_or(rest.len());
                extend(wire, start, label, &rest[..plain])
                    .map_err(|(room, fault)| error(at + room, fault))?;
                at += plain;
            }
        }
    }
    if wire.len() > label + 1 {
        wire.push(0);
    }
    Ok(())
}

/// Appends bytes to the label whose length byte is at `label`. If they do not fit, the error holds how many
/// would.
fn extend(wire: &mut Vec<u8>, start: usize, label: usize, bytes: &[u8]) -> Result<(), (usize, NameFault)> {
    // A byte stays free for the root label.
    let in_name = (NAME_BYTES_MAX - 1).saturating_sub(wire.len() - start);
    let in_label = LABEL_BYTES_MAX - usize::from(wire[label]);
    if bytes.len() > in_name.min(in_label) {
        let fault = if in_name <= in_label { NameFault::NameTooLong } else { NameFault::LabelTooLong };
        return Err((in_name.min(in_label), fault));
    }
    wire.extend_from_slice(bytes);
    wire[label] += u8::try_from(bytes.len()).expect("a label has 63 bytes at most");
    Ok(())
}

/// Reads the rest of an escape in a name or a character string. `rest` begins after the backslash. Returns the
/// escaped byte and the length of the escape, with its backslash.
pub fn unescape(rest: &[u8]) -> Result<(u8, usize), NameFault> {
    match rest {
        [] => Err(NameFault::LoneBackslash),
        [a @ b'0'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', ..] => {
            let value = u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0');
            Ok((u8::try_from(value).map_err(|_| NameFault::EscapeTooLarge)?, 4))
        }
        [b'0'..=b'9', ..] => Err(NameFault::ShortEscape),
        [byte, ..] => Ok((*byte, 2)),
    }
}

/// The position just after the name that begins at `from`: after its root label, or after the first compression
/// pointer (RFC 1035, section 4.1.4). `None` if the bytes end first, if a label type is unknown, or if the
/// labels exceed 255 bytes.
#[inline]
pub fn end(message: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        match *message.get(at)? {
            0 => return (at - from < NAME_BYTES_MAX).then_some(at + 1),
            length @ 1..=63 => at += 1 + usize::from(length),
            192.. => return (at + 2 <= message.len()).then_some(at + 2),
            _ => return None,
        }
        if at - from >= NAME_BYTES_MAX {
            return None;
        }
    }
}

/// Like [`end`] for a name without pointers, such as that of the first question, which no other name precedes.
#[inline]
pub fn literal_end(message: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        match *message.get(at)? {
            0 => return (at - from < NAME_BYTES_MAX).then_some(at + 1),
            length @ 1..=63 => at += 1 + usize::from(length),
            _ => return None,
        }
    }
}

/// Displays an uncompressed name in wire form: in presentation form with its final dot. Bytes that are not
/// printable ASCII become `\DDD`. A name that is cut short is shown up to its end.
#[derive(Clone, Copy, Debug)]
pub struct NameText<'a>(pub &'a [u8]);

impl fmt::Display for NameText<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        let mut rest = self.0;
        if rest.first().is_none_or(|&length| length == 0) {
            return out.write_char('.');
        }
        while let Some((&length, tail)) = rest.split_first() {
            if length == 0 || usize::from(length) > LABEL_BYTES_MAX {
                break;
            }
            let (label, tail) = tail.split_at(tail.len().min(usize::from(length)));
            for &byte in label {
                match byte {
                    b'.' | b'\\' | b'"' | b'(' | b')' | b';' | b'@' | b'$' => {
                        write!(out, "\\{}", char::from(byte))?;
                    }
                    0x21..=0x7e => out.write_char(char::from(byte))?,
                    _ => write!(out, "\\{byte:03}")?,
                }
            }
            out.write_char('.')?;
            rest = tail;
        }
        Ok(())
    }
}

/// Whether a name is the other one or ends with its labels. Both are in wire form, without pointers. ASCII case does not
/// matter.
pub fn is_at_or_below(name: &[u8], other: &[u8]) -> bool {
    let Some(above) = name.len().checked_sub(other.len()) else { return false };
    if !name[above..].eq_ignore_ascii_case(other) {
        return false;
    }
    // Only whole labels count.
    let mut at = 0;
    while at < above {
        at += 1 + usize::from(name[at]);
    }
    at == above
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(text: &str) -> Result<Vec<u8>, NameError> {
        let mut out = Vec::new();
        encode(text.as_bytes(), &mut out).map(|_| out)
    }

    #[test]
    fn names_are_written_as_labels() {
        assert_eq!(wire(".").unwrap(), b"\0");
        assert_eq!(wire("www.Example").unwrap(), b"\x03www\x07Example\0");
        assert_eq!(wire("www.Example.").unwrap(), b"\x03www\x07Example\0");
        assert_eq!(wire(r"a\.b.\065\\\ .").unwrap(), b"\x03a.b\x03A\\ \0");
        assert_eq!(wire(r"\000\255").unwrap(), b"\x02\x00\xff\0");
    }

    #[test]
    fn a_bad_name_is_refused_with_its_column() {
        let label = "x".repeat(64);
        let long = format!("{0}.{0}.{0}.{1}", "x".repeat(63), "y".repeat(62));
        for (text, column, fault) in [
            ("", 1, NameFault::Empty),
            (".a", 1, NameFault::EmptyLabel),
            ("a..b", 3, NameFault::EmptyLabel),
            ("a..", 3, NameFault::EmptyLabel),
            (&label, 64, NameFault::LabelTooLong),
            (&long, 254, NameFault::NameTooLong),
            ("ab\\", 3, NameFault::LoneBackslash),
            (r"a\25", 2, NameFault::ShortEscape),
            (r"a\2x5", 2, NameFault::ShortEscape),
            (r"a\256", 2, NameFault::EscapeTooLarge),
        ] {
            assert_eq!(wire(text), Err(NameError { column, fault }), "{text}");
        }
    }

    #[test]
    fn the_longest_name_has_255_bytes() {
        let text = format!("{0}.{0}.{0}.{1}", "x".repeat(63), "y".repeat(61));
        assert_eq!(wire(&text).unwrap().len(), NAME_BYTES_MAX);
    }

    #[test]
    fn an_error_leaves_the_buffer_as_it_was() {
        let mut out = b"kept".to_vec();
        assert!(encode(b"www.a..b", &mut out).is_err());
        assert_eq!(out, b"kept");
    }

    #[test]
    fn a_name_without_a_pointer_ends_after_its_root() {
        assert_eq!(literal_end(b"..\x03www\x04test\0rest", 2), Some(12));
        assert_eq!(literal_end(b"\0", 0), Some(1));
        assert_eq!(literal_end(b"\x03www\xc0\x00", 0), None);
        assert_eq!(literal_end(b"\x03www", 0), None);
        let longest = [&[63][..], &[b'a'; 63]].concat().repeat(3);
        let fits = [&longest[..], &[61], &[b'a'; 61], &[0]].concat();
        assert_eq!(literal_end(&fits, 0), Some(NAME_BYTES_MAX));
        let too_long = [&longest[..], &[62], &[b'a'; 62], &[0]].concat();
        assert_eq!(literal_end(&too_long, 0), None);
    }

    #[test]
    fn a_name_ends_after_its_root_or_its_pointer() {
        assert_eq!(end(b"\x01a\0rest", 0), Some(3));
        assert_eq!(end(b"xx\x01a\xc0\x00rest", 2), Some(6));
        assert_eq!(end(b"\0", 0), Some(1));
        assert_eq!(end(b"\x01a", 0), None);
        assert_eq!(end(b"\x01a\xc0", 0), None);
        assert_eq!(end(b"\x40a\0", 0), None);
        assert_eq!(end(b"", 3), None);
        assert_eq!(end(&[1; 600], 0), None);
    }

    #[test]
    fn a_name_is_shown_as_it_can_be_written() {
        assert_eq!(NameText(b"\0").to_string(), ".");
        assert_eq!(NameText(b"\x03a.b\x02\xff \0").to_string(), r"a\.b.\255\032.");
        assert_eq!(NameText(b"\x09cut").to_string(), "cut.");
    }

    #[test]
    fn a_name_is_below_another_by_whole_labels() {
        let name = b"\x03www\x07example\x03com\0";
        for other in [&name[..], b"\x07EXAMPLE\x03com\0", b"\x03com\0", b"\0"] {
            assert!(is_at_or_below(name, other), "{other:x?}");
        }
        let below = b"\x01a\x03www\x07example\x03com\0";
        for other in [&b"\x03ple\x03com\0"[..], b"\x06xample\x03com\0", b"\x03net\0", below] {
            assert!(!is_at_or_below(name, other), "{other:x?}");
        }
    }
}
