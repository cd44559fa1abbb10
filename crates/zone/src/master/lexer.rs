//! Cuts a master file into entries and words (RFC 1035, section 5.1). An entry ends with its line. If parentheses
//! or quotation marks are open, it ends with the line on which they close.

use super::error::{Parsed, Trouble, Wrong};

/// A word of an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    /// Its bytes with their escapes, without quotation marks.
    pub(super) text: &'a [u8],
    /// Its position: that of its first byte, or of the quotation mark before it.
    pub(super) at: usize,
    /// The position of its text: the same, or after the quotation mark. (A flag would be enough, but it would
    /// leave a gap in the middle of the value that is passed on for every word, and that is much slower.)
    pub(super) text_at: usize,
}

impl<'a> Token<'a> {
    /// A word without quotation marks.
    pub(super) fn new(text: &'a [u8], at: usize) -> Self {
        Self { text, at, text_at: at }
    }

    /// Whether the word is in quotation marks.
    pub(super) fn quoted(&self) -> bool {
        self.text_at > self.at
    }

    /// The word as if it had no quotation marks.
    pub(super) fn without_quotes(&self) -> Self {
        Self::new(self.text, self.text_at)
    }
}

/// Reads one text from its beginning to its end.
#[derive(Clone, Debug)]
pub(super) struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
    /// Line ends passed so far.
    lines: u32,
    /// The number of open parentheses.
    depth: u32,
    /// The position of the outermost open parenthesis.
    opened_at: usize,
    /// The error of a parenthesis or quotation mark that is still open at the end of the text.
    open: Option<Trouble>,
}

/// The kind of a byte outside quotation marks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Word,
    Escape,
    Blank,
    LineEnd,
    Comment,
    Quote,
    Opening,
    Closing,
}

const KINDS: [Kind; 256] = {
    let mut kinds = [Kind::Word; 256];
    kinds[b'\\' as usize] = Kind::Escape;
    kinds[b' ' as usize] = Kind::Blank;
    kinds[b'\t' as usize] = Kind::Blank;
    kinds[b'\r' as usize] = Kind::Blank;
    kinds[b'\n' as usize] = Kind::LineEnd;
    kinds[b';' as usize] = Kind::Comment;
    kinds[b'"' as usize] = Kind::Quote;
    kinds[b'(' as usize] = Kind::Opening;
    kinds[b')' as usize] = Kind::Closing;
    kinds
};

/// The number of bytes at the beginning that can only be parts of a word. It checks eight at a time. The caller
/// must check the last bytes and all unclear ones one by one.
#[inline]
fn letters(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(chunk) = text.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let others = others(u64::from_le_bytes(*chunk));
        if others != 0 {
            return at + others.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at
}

/// Marks bytes in the upper bit of each: all up to the blank, quotation marks, parentheses, semicolons and
/// backslashes. A mark is right if no lower one is set (Warren, Hacker's Delight, section 6-1).
#[inline]
const fn others(bytes: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    const fn below(bytes: u64, limit: u8) -> u64 {
        bytes.wrapping_sub(ONES * limit as u64) & !bytes & HIGHS
    }
    let below_letters = below(bytes, b' ' + 1);
    // Both parentheses differ in their last bit only.
    let parentheses = below((bytes | ONES) ^ (ONES * b')' as u64), 1);
    let quotes = below(bytes ^ (ONES * b'"' as u64), 1);
    let comments = below(bytes ^ (ONES * b';' as u64), 1);
    let escapes = below(bytes ^ (ONES * b'\\' as u64), 1);
    below_letters | parentheses | quotes | comments | escapes
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, lines: 0, depth: 0, opened_at: 0, open: None }
    }

    /// The position of the next byte.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Line ends passed so far.
    pub(super) fn lines(&self) -> u32 {
        self.lines
    }

    /// The next byte, whatever it is.
    pub(super) fn byte(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Whether the whole text has been read.
    pub(super) fn is_done(&self) -> bool {
        self.at == self.text.len()
    }

    /// Skips blanks, comments, parentheses and the line ends within them. Returns the next byte, which is the
    /// first of a word, or `None` at the end of the entry.
    #[inline]
    pub(super) fn peek(&mut self) -> Parsed<Option<u8>> {
        loop {
            let Some(&byte) = self.text.get(self.at) else {
                return self.text_ended();
            };
            // The usual case comes first: one branch for it costs less than a jump by a table.
            let kind = KINDS[usize::from(byte)];
            if kind == Kind::Word {
                return Ok(Some(byte));
            }
            if kind == Kind::Blank {
                self.at += 1;
                continue;
            }
            if kind == Kind::LineEnd && self.depth == 0 {
                return Ok(None);
            }
            if matches!(kind, Kind::Escape | Kind::Quote) {
                return Ok(Some(byte));
            }
            self.pass(kind)?;
        }
    }

    /// Skips what can stand between words besides blanks.
    fn pass(&mut self, kind: Kind) -> Parsed<()> {
        match kind {
            Kind::Comment => self.pass_comment(),
            Kind::LineEnd => self.pass_line_end(),
            Kind::Opening => {
                if self.depth == 0 {
                    self.opened_at = self.at;
                }
                self.depth += 1;
                self.at += 1;
            }
            Kind::Closing => {
                self.at += 1;
                let Some(depth) = self.depth.checked_sub(1) else {
                    let rule = "this parenthesis closes one that was never opened";
                    return Err(Trouble::rule(self.at - 1, rule));
                };
                self.depth = depth;
            }
            Kind::Word | Kind::Escape | Kind::Blank | Kind::Quote => {}
        }
        Ok(())
    }

    /// The next word of the entry; `None` at the entry's end.
    #[inline]
    pub(super) fn next(&mut self) -> Parsed<Option<Token<'a>>> {
        match self.peek()? {
            None => Ok(None),
            Some(b'"') => self.quotation().map(Some),
            Some(_) => Ok(Some(self.word())),
        }
    }

    /// The next word. It is an error if there is none.
    #[inline]
    pub(super) fn need(&mut self, expected: &'static str) -> Parsed<Token<'a>> {
        self.next()?.ok_or_else(|| Trouble::ended(expected, self.at))
    }

    /// The next word. It is an error if there is none, or if it is in quotation marks.
    #[inline]
    pub(super) fn plain(&mut self, expected: &'static str) -> Parsed<Token<'a>> {
        let token = self.need(expected)?;
        if token.quoted() {
            let found = "a quoted string".into();
            return Err(Trouble::new(token.at, Wrong::Expected { expected, found }));
        }
        Ok(token)
    }

    /// Skips the word `\#`, if it is next. The lexer must be at the beginning of a word.
    pub(super) fn takes_marker(&mut self) -> bool {
        let is_next = self.text[self.at..].starts_with(b"\\#")
            && self
                .text
                .get(self.at + 2)
                .is_none_or(|&byte| !matches!(KINDS[usize::from(byte)], Kind::Word | Kind::Escape));
        if is_next {
            self.at += 2;
        }
        is_next
    }

    /// Checks that nothing follows in the entry.
    #[inline]
    pub(super) fn end(&mut self) -> Parsed<()> {
        match self.next()? {
            None => Ok(()),
            Some(token) => Err(Trouble::expected("the end of the record", token.text, token.at)),
        }
    }

    /// Skips the rest of the entry, whatever it is, and its line end. If the text ends inside parentheses or
    /// quotation marks, the entry is not whole, and the result says where they were opened.
    #[inline]
    pub(super) fn leave_entry(&mut self) -> Option<Trouble> {
        while self.open.is_none() && !matches!(self.next(), Ok(None)) {}
        self.depth = 0;
        if self.at < self.text.len() {
            self.pass_line_end();
        }
        self.open.take()
    }

    /// The length of the first entry of a text, including its line end.
    pub(super) fn entry_bytes(text: &'a [u8]) -> usize {
        let mut lexer = Self::new(text);
        lexer.leave_entry();
        lexer.at
    }

    fn text_ended(&mut self) -> Parsed<Option<u8>> {
        if self.depth == 0 {
            return Ok(None);
        }
        let trouble = Trouble::rule(self.opened_at, "this parenthesis is never closed");
        self.open = Some(trouble.clone());
        Err(trouble)
    }

    fn pass_line_end(&mut self) {
        self.at += 1;
        self.lines += 1;
    }

    fn pass_comment(&mut self) {
        let rest = &self.text[self.at..];
        self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
    }

    #[inline]
    fn word(&mut self) -> Token<'a> {
        let start = self.at;
        let mut at = start;
        loop {
            at += letters(&self.text[at..]);
            match self.text.get(at).map(|&byte| KINDS[usize::from(byte)]) {
                Some(Kind::Word) => at += 1,
                // The byte after a backslash belongs to the word, unless the line ends before it.
                Some(Kind::Escape) => {
                    at += 1 + usize::from(self.text.get(at + 1).is_some_and(|&b| b != b'\n'));
                }
                _ => break,
            }
        }
        self.at = at;
        Token::new(&self.text[start..at], start)
    }

    #[cold]
    fn quotation(&mut self) -> Parsed<Token<'a>> {
        let start = self.at;
        let mut at = start + 1;
        while let Some(found) = memchr::memchr3(b'"', b'\\', b'\n', &self.text[at..]) {
            at += found;
            match self.text[at] {
                b'"' => {
                    self.at = at + 1;
                    return Ok(Token { text: &self.text[start + 1..at], at: start, text_at: start + 1 });
                }
                b'\n' => {
                    self.lines += 1;
                    at += 1;
                }
                _ => {
                    self.lines += u32::from(self.text.get(at + 1) == Some(&b'\n'));
                    at = (at + 2).min(self.text.len());
                }
            }
        }
        self.at = self.text.len();
        let trouble = Trouble::rule(start, "this quotation mark is never closed");
        self.open = Some(trouble.clone());
        Err(trouble)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bytes_at_once_are_what_each_is_alone() {
        for byte in 0..=u8::MAX {
            let is_letter = KINDS[usize::from(byte)] == Kind::Word && byte > b' ';
            for place in 0..8 {
                for around in [b'a', 0x7f, 0x80, 0xff, b'!', b'*', b'\'', b':', b']', b'#'] {
                    let mut chunk = [around; 8];
                    chunk[place] = byte;
                    assert_eq!(letters(&chunk), if is_letter { 8 } else { place }, "{chunk:?}");
                }
            }
        }
    }
}
