//! Cuts a master file into pieces for several threads. It looks at little more than the line ends around each
//! cut. It guesses that no entry crosses a cut, and that each line that begins with `$` is a directive. The
//! code that reads the pieces finds wrong guesses, and reads on from there.

use std::ops::Range;

use super::directive::{Directive, origin};
use super::harvest::State;
use super::heading::{TTL_MAX_S, default_ttl};
use super::lexer::Lexer;

/// A piece of a file.
pub(super) struct Piece {
    /// Its number, counted from 0.
    pub(super) number: usize,
    pub(super) range: Range<usize>,
    /// The line on which it begins.
    pub(super) line: u32,
    /// The line on which the next piece begins.
    pub(super) line_after: u32,
    /// The state in which it begins, if the guesses are right.
    pub(super) state: State,
}

pub(super) struct Splitter<'a> {
    text: &'a [u8],
    at: usize,
    line: u32,
    number: usize,
    state: State,
    /// The size of the next piece. All except the first have `piece_bytes`.
    next_bytes: usize,
    piece_bytes: usize,
}

/// The size of the first piece: enough for a SOA record, whose MINIMUM may become the default TTL of
/// everything after it.
const HEAD_BYTES: usize = 4096;

impl<'a> Splitter<'a> {
    /// Cuts the text from this position, line and state. The first cut comes at or after `whole_to`.
    pub(super) fn new(
        text: &'a [u8],
        (at, line): (usize, u32),
        state: State,
        whole_to: usize,
        piece_bytes: usize,
    ) -> Self {
        let piece_bytes = piece_bytes.max(1);
        let next_bytes = if at == 0 { HEAD_BYTES.min(piece_bytes) } else { piece_bytes };
        let next_bytes = next_bytes.max(whole_to - at);
        Self { text, at, line, number: 0, state, next_bytes, piece_bytes }
    }

    fn follow_directives(&mut self, range: Range<usize>) {
        let piece = &self.text[range];
        let first = piece.starts_with(b"$").then_some(0);
        let others = memchr::memmem::find_iter(piece, b"\n$").map(|at| at + 1);
        for at in first.into_iter().chain(others) {
            // The code that reads the piece reports errors in it.
            let mut lexer = Lexer::new(&piece[at..]);
            let Ok(Some(directive)) = lexer.next() else { continue };
            match Directive::parse(directive.text) {
                Some(Directive::Origin) => {
                    if let Ok(origin) = origin(&mut lexer, &self.state.origin)
                        && lexer.end().is_ok()
                    {
                        self.state.origin = origin;
                    }
                }
                Some(Directive::Ttl) => {
                    if let Ok(ttl) = default_ttl(&mut lexer)
                        && lexer.end().is_ok()
                    {
                        let ttl_s = if ttl.ttl_s > TTL_MAX_S { 0 } else { ttl.ttl_s };
                        self.state.default_ttl_s = Some(ttl_s);
                    }
                }
                _ => {}
            }
        }
    }
}

impl Iterator for Splitter<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let start = self.at;
        if start == self.text.len() {
            return None;
        }
        let end = cut(self.text, start.saturating_add(self.next_bytes));
        let line = self.line;
        let lines = memchr::memchr_iter(b'\n', &self.text[start..end]).count();
        self.line = self.line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        let state = self.state.clone();
        self.follow_directives(start..end);
        let piece = Piece { number: self.number, range: start..end, line, line_after: self.line, state };
        self.at = end;
        self.number += 1;
        self.next_bytes = self.piece_bytes;
        Some(piece)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.text.len() - self.at;
        (usize::from(left > 0), Some(left.div_ceil(self.piece_bytes) + 1))
    }
}

/// The first line at or after this position that begins with an owner, or the end of the text.
fn cut(text: &[u8], from: usize) -> usize {
    let mut at = from.max(1) - 1;
    while let Some(found) = text.get(at..).and_then(|rest| memchr::memchr(b'\n', rest)) {
        at += found + 1;
        match text.get(at) {
            Some(b' ' | b'\t' | b'\r' | b'\n' | b';' | b'(' | b')' | b'"' | b'$') => {}
            Some(_) => return at,
            None => break,
        }
    }
    text.len()
}
