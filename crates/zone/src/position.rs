//! Positions as people read them: file, line, and byte of the line.

use std::fmt::{self, Write as _};
use std::path::Path;

/// A path for a message. It may come from a file and be printed on a terminal, so control characters are escaped.
pub(crate) struct ShownPath<'a>(pub(crate) &'a Path);

impl fmt::Display for ShownPath<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.0.to_string_lossy().chars() {
            if part.is_control() { write!(out, "{}", part.escape_default())? } else { out.write_char(part)? }
        }
        Ok(())
    }
}

/// The line of a byte and its place on that line, both counted from 1; at most the end of the text.
pub(crate) fn line_and_column(text: &[u8], at: usize) -> (usize, usize) {
    let before = &text[..at.min(text.len())];
    let line_start = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
    (memchr::memchr_iter(b'\n', before).count() + 1, before.len() - line_start + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_bytes_are_counted_from_one() {
        for (at, expected) in [(0, (1, 1)), (1, (1, 2)), (2, (1, 3)), (3, (2, 1)), (4, (3, 1)), (9, (3, 2))] {
            assert_eq!(line_and_column(b"ab\n\nc", at), expected, "{at}");
        }
    }
}
