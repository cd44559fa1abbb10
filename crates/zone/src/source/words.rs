//! A configuration of BIND as statements and blocks of words, without its comments.

use std::path::Path;

use super::{SourceError, wrong};

pub(super) struct Config<'a> {
    path: &'a Path,
    words: Words<'a>,
}

/// The words of a statement up to its semicolon, or to the brace that opens its block.
pub(super) struct Statement<'a> {
    pub(super) words: Vec<Word<'a>>,
    pub(super) has_block: bool,
}

impl<'a> Config<'a> {
    pub(super) fn new(path: &'a Path, text: &'a [u8]) -> Self {
        Self { path, words: Words::new(text) }
    }

    /// The next statement; `None` at the end of the text or, in a block, before the brace that closes it.
    pub(super) fn statement(&mut self, depth: usize) -> Result<Option<Statement<'a>>, SourceError> {
        let mut words = Vec::new();
        loop {
            let Some(word) = self.words.next().map_err(|at| self.wrong(at, UNCLOSED))? else {
                return match (words.first(), depth) {
                    (None, 0) => Ok(None),
                    (None, _) => Err(self.wrong(self.words.at, "expected }, found the end of the file")),
                    (Some(Word { at, .. }), _) => Err(self.wrong(*at, "this statement has no semicolon")),
                };
            };
            match word.kind {
                Kind::Word => words.push(word),
                Kind::End if words.is_empty() => {}
                Kind::End => return Ok(Some(Statement { words, has_block: false })),
                Kind::Open if words.is_empty() => {
                    return Err(self.wrong(word.at, "expected a statement, found {"));
                }
                Kind::Open => return Ok(Some(Statement { words, has_block: true })),
                Kind::Close if words.is_empty() && depth > 0 => {
                    self.words.at = word.at;
                    return Ok(None);
                }
                Kind::Close => return Err(self.wrong(word.at, "expected a semicolon, found }")),
            }
        }
    }

    /// Skips the brace that closes a block.
    pub(super) fn end_of_block(&mut self) -> Result<(), SourceError> {
        self.words.next().map_err(|at| self.wrong(at, UNCLOSED))?;
        Ok(())
    }

    /// Skips the rest of a block, whatever is in it.
    pub(super) fn pass_block(&mut self) -> Result<(), SourceError> {
        let opened = self.words.at;
        let mut depth = 1;
        while depth > 0 {
            match self.words.next().map_err(|at| self.wrong(at, UNCLOSED))?.map(|word| word.kind) {
                Some(Kind::Open) => depth += 1,
                Some(Kind::Close) => depth -= 1,
                Some(_) => {}
                None => return Err(self.wrong(opened, "this block is never closed")),
            }
        }
        Ok(())
    }

    pub(super) fn wrong(&self, at: usize, what: &str) -> SourceError {
        wrong(self.path, self.words.text, at, what)
    }
}

const UNCLOSED: &str = "this is never closed";

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Word,
    Open,
    Close,
    End,
}

#[derive(Clone, Copy)]
pub(super) struct Word<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a [u8],
    pub(super) at: usize,
}

impl Word<'_> {
    /// Whether this is the keyword, ignoring case.
    pub(super) fn is(&self, keyword: &str) -> bool {
        self.text.eq_ignore_ascii_case(keyword.as_bytes())
    }
}

/// Cuts a configuration into words, quoted strings and punctuation, without its comments.
pub(super) struct Words<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Words<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// The next word; `None` at the end. The error is the position of something that is never closed.
    pub(super) fn next(&mut self) -> Result<Option<Word<'a>>, usize> {
        self.pass_blanks()?;
        let start = self.at;
        let Some(&first) = self.text.get(start) else { return Ok(None) };
        let rest = &self.text[start..];
        let (kind, text, length) = match first {
            b'{' => (Kind::Open, &rest[..1], 1),
            b'}' => (Kind::Close, &rest[..1], 1),
            b';' => (Kind::End, &rest[..1], 1),
            b'"' => {
                let length = memchr::memchr(b'"', &rest[1..]).ok_or(start)?;
                (Kind::Word, &rest[1..=length], length + 2)
            }
            _ => {
                let ends =
                    |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'{' | b'}' | b';' | b'"');
                let length = rest.iter().position(ends).unwrap_or(rest.len());
                (Kind::Word, &rest[..length], length)
            }
        };
        self.at += length;
        Ok(Some(Word { kind, text, at: start }))
    }

    fn pass_blanks(&mut self) -> Result<(), usize> {
        loop {
            let rest = &self.text[self.at..];
            let blanks = rest.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(rest.len());
            self.at += blanks;
            let rest = &rest[blanks..];
            if rest.starts_with(b"#") || rest.starts_with(b"//") {
                self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            } else if rest.starts_with(b"/*") {
                self.at += memchr::memmem::find(rest, b"*/").ok_or(self.at)? + 2;
            } else {
                return Ok(());
            }
        }
    }
}
