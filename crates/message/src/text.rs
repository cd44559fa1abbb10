//! Text files as editors save them, with or without a byte order mark.

/// The UTF-8 byte order mark, which some editors write before the text. It is not part of the text (RFC
/// 3629, section 6).
const MARK: &[u8] = b"\xef\xbb\xbf";

/// The byte order mark of a file says that the file is neither UTF-8 nor ASCII.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the file is encoded in {0}, as its byte order mark shows; save it as UTF-8")]
pub struct WrongEncoding(&'static str);

/// Returns the contents of a file without its UTF-8 byte order mark. Fails if the mark is that of UTF-16
/// or UTF-32. Checks only the first four bytes.
pub fn without_mark(file: &[u8]) -> Result<&[u8], WrongEncoding> {
    match file {
        // The byte order mark of UTF-16 (little endian) is the beginning of that of UTF-32, so UTF-32
        // comes first.
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => Err(WrongEncoding("UTF-32")),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Err(WrongEncoding("UTF-16")),
        _ => Ok(file.strip_prefix(MARK).unwrap_or(file)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_counts_once_and_only_at_the_beginning() {
        for (file, text) in [
            (&b"\xef\xbb\xbfa b"[..], &b"a b"[..]),
            (b"\xef\xbb\xbf\xef\xbb\xbfa", b"\xef\xbb\xbfa"),
            (b"a\n\xef\xbb\xbfb", b"a\n\xef\xbb\xbfb"),
            (b"\xef\xbb\xbf", b""),
            (b"\xef\xbb", b"\xef\xbb"),
            (b"", b""),
        ] {
            assert_eq!(without_mark(file), Ok(text), "{}", file.escape_ascii());
        }
    }

    #[test]
    fn other_encodings_are_named() {
        for (file, encoding) in [
            (&b"\xff\xfea\0"[..], "UTF-16"),
            (b"\xfe\xff\0a", "UTF-16"),
            (b"\xff\xfe", "UTF-16"),
            (b"\xff\xfe\0\0a\0\0\0", "UTF-32"),
            (b"\0\0\xfe\xff\0\0\0a", "UTF-32"),
        ] {
            assert_eq!(without_mark(file), Err(WrongEncoding(encoding)), "{}", file.escape_ascii());
        }
    }
}
