//! Reads a piece of a master file, entry by entry. Records go into batches, and directives change the state.

use std::sync::Arc;

use kqps_message::rtype;

use super::directive::{Directive, origin};
use super::error::{ERRORS_MAX, Parsed, Remark, Trouble, Wrong, quoted};
use super::harvest::{Ended, File, Harvest, LastTtl, Start, State};
use super::heading::{Heading, TTL_MAX_S, Ttl, default_ttl};
use super::lexer::Lexer;
use super::{name, rdata, text};
use crate::batch::{Batch, Record, TTL_OPEN};
use crate::position::line_and_column;

/// The most room that is allocated for a batch in advance.
const BATCH_BYTES: usize = 4 << 20;
/// The most records of a batch, so that each stays a small part of a big zone.
const BATCH_RECORDS_MAX: usize = 1 << 16;

pub(super) struct Reader<'a> {
    pub(super) file: &'a File<'a>,
    text: &'a [u8],
    pub(super) lexer: Lexer<'a>,
    first_line: u32,
    pub(super) state: State,
    pub(super) last_ttl: LastTtl,
    pub(super) owner: Vec<u8>,
    pub(super) data: Vec<u8>,
    pub(super) harvest: Harvest,
    batch: Batch,
    directives: &'a dyn Directives,
}

/// The directives that bring further entries. The code that carries them out needs a reader itself.
pub(super) trait Directives {
    /// `$INCLUDE`: reads the file with this name.
    ///
    /// Returns its content and the state at its end, or the reason why it cannot be read.
    fn include(&self, file: &File<'_>, name: &[u8], start: Start) -> Result<(Harvest, Start), Box<str>>;

    /// `$GENERATE` on this line: reads the rest of the directive and adds its records.
    fn generate(&self, reader: &mut Reader<'_>, line: u32) -> Parsed<()>;
}

impl<'a> Reader<'a> {
    /// Reads this text, which begins with an entry, on this line of the file.
    pub(super) fn new(
        file: &'a File<'a>,
        text: &'a [u8],
        first_line: u32,
        start: Start,
        directives: &'a dyn Directives,
    ) -> Self {
        Self {
            file,
            text,
            lexer: Lexer::new(text),
            first_line,
            state: start.state,
            last_ttl: start.last_ttl,
            owner: start.owner,
            data: Vec::with_capacity(256),
            harvest: Harvest::default(),
            // A short record takes a little more room than its line.
            batch: Batch::with_capacity((text.len() + text.len() / 2).min(BATCH_BYTES)),
            directives,
        }
    }

    /// Reads to the end. `is_last` is whether the file ends with the text. If it does not, an incomplete last
    /// entry is left to the reader of the next piece.
    pub(super) fn run(mut self, is_last: bool) -> Ended {
        let mut unfinished = None;
        while !self.lexer.is_done() && !self.harvest.gave_up {
            let begins = (self.lexer.at(), self.line());
            let outcome = self.entry();
            match (outcome, self.lexer.leave_entry()) {
                (_, Some(_)) if !is_last => {
                    unfinished = Some(begins);
                    break;
                }
                (_, Some(trouble)) | (Err(trouble), None) => self.note(trouble),
                (Ok(()), None) => {}
            }
        }
        self.finish(unfinished)
    }

    /// Reads up to the first record. Returns it, if there is no error before it.
    pub(super) fn first_record(mut self) -> Option<Batch> {
        while !self.lexer.is_done() {
            self.entry().ok()?;
            self.close_batch();
            if self.harvest.has_records() {
                return self.harvest.batches.into_iter().find(|batch| !batch.is_empty());
            }
            if self.lexer.leave_entry().is_some() || !self.harvest.errors.is_empty() {
                return None;
            }
        }
        None
    }

    fn finish(mut self, unfinished: Option<(usize, u32)>) -> Ended {
        self.close_batch();
        let next = Start { state: self.state, last_ttl: self.last_ttl, owner: self.owner };
        Ended { harvest: self.harvest, next, unfinished }
    }

    /// The line of the next byte.
    pub(super) fn line(&self) -> u32 {
        self.first_line.saturating_add(self.lexer.lines())
    }

    /// Reads one entry, up to its line end.
    fn entry(&mut self) -> Parsed<()> {
        let first = self.lexer.byte();
        if first == Some(b'$') {
            return self.directive();
        }
        let (start, line) = (self.lexer.at(), self.line());
        if self.lexer.peek()?.is_none() {
            return Ok(());
        }
        if !first.is_some_and(is_blank) {
            let token = self.lexer.plain("the name of an owner")?;
            self.owner.clear();
            if let Err(trouble) = name::append(&token, &self.state.origin, &mut self.owner) {
                // Lines that inherit this owner should not be errors for that.
                self.owner.extend_from_slice(&self.state.origin);
                return Err(trouble);
            }
        } else if self.owner.is_empty() {
            let rule = "this line begins with a blank, but no record before it has an owner to inherit";
            return Err(Trouble::rule(self.lexer.at(), rule));
        }
        let heading = Heading::read(&mut self.lexer)?;
        rdata::read(heading.rtype, &mut self.lexer, &self.state.origin, &mut self.data)?;
        let at = if first.is_some_and(is_blank) { self.after_blanks(start) } else { start };
        if at > start {
            self.batch.indent(line, u32::try_from(at - start + 1).unwrap_or(u32::MAX));
        }
        self.push(&heading, line, at)
    }

    /// The first position from `from` on that is not a blank.
    fn after_blanks(&self, from: usize) -> usize {
        from + self.text[from..].iter().take_while(|&&byte| is_blank(byte)).count()
    }

    /// Adds the record whose owner and data have been read.
    #[inline]
    pub(super) fn push(&mut self, heading: &Heading, line: u32, at: usize) -> Parsed<()> {
        let ttl_s = self.ttl(heading, at)?;
        let record = Record { owner: &self.owner, rtype: heading.rtype, ttl_s, data: &self.data, line };
        if !self.batch.push(&record) {
            return Err(Trouble::rule(at, "the record is longer than a message can carry"));
        }
        if self.batch.len() == BATCH_RECORDS_MAX {
            self.close_batch();
        }
        Ok(())
    }

    /// The record's TTL: its own; else that of `$TTL`; else the last explicit TTL of a record; else, for a
    /// SOA record, its MINIMUM, which then counts as `$TTL`, as in other servers.
    #[inline]
    fn ttl(&mut self, heading: &Heading, at: usize) -> Parsed<u32> {
        if let Some(ttl) = heading.ttl {
            let ttl_s = self.limited(ttl);
            self.last_ttl = LastTtl::Known(ttl_s);
            return Ok(ttl_s);
        }
        if let Some(ttl_s) = self.state.default_ttl_s {
            return Ok(ttl_s);
        }
        match (self.last_ttl, self.data.last_chunk::<4>()) {
            (LastTtl::Known(ttl_s), _) => Ok(ttl_s),
            (LastTtl::Elsewhere, _) => {
                self.harvest.ttl_open = true;
                Ok(TTL_OPEN)
            }
            (LastTtl::None, Some(minimum)) if heading.rtype == rtype::SOA => {
                let ttl_s = self.limited(Ttl { ttl_s: u32::from_be_bytes(*minimum), at });
                self.state.default_ttl_s = Some(ttl_s);
                Ok(ttl_s)
            }
            (LastTtl::None, _) => {
                let rule = "the record has no TTL, there is no $TTL, and no record before it has one";
                Err(Trouble::rule(at, rule))
            }
        }
    }

    /// A TTL above 2^31 − 1 counts as 0 (RFC 2181, section 8).
    #[inline]
    fn limited(&mut self, ttl: Ttl) -> u32 {
        if ttl.ttl_s <= TTL_MAX_S {
            return ttl.ttl_s;
        }
        let rule = "this TTL is above 2147483647 and counts as 0 (RFC 2181, section 8)";
        if self.harvest.warnings.len() < ERRORS_MAX {
            let warning = self.remark(Trouble::rule(ttl.at, rule));
            self.harvest.warnings.push(warning);
        } else {
            self.harvest.more_warnings += 1;
        }
        0
    }

    fn directive(&mut self) -> Parsed<()> {
        let line = self.line();
        let directive = self.lexer.plain("a directive")?;
        match Directive::parse(directive.text) {
            Some(Directive::Origin) => {
                let origin = origin(&mut self.lexer, &self.state.origin)?;
                self.lexer.end()?;
                self.state.origin = origin;
            }
            Some(Directive::Ttl) => {
                let ttl = default_ttl(&mut self.lexer)?;
                self.lexer.end()?;
                self.state.default_ttl_s = Some(self.limited(ttl));
            }
            Some(Directive::Include) => self.include()?,
            Some(Directive::Generate) => self.directives.generate(self, line)?,
            None => {
                let expected = "$ORIGIN, $TTL, $INCLUDE or $GENERATE";
                return Err(Trouble::expected(expected, directive.text, directive.at));
            }
        }
        Ok(())
    }

    fn include(&mut self) -> Parsed<()> {
        let token = self.lexer.need("the name of a file")?;
        let mut path = Vec::new();
        text::append(&token, &mut path)?;
        let origin = match self.lexer.peek()? {
            Some(_) => origin(&mut self.lexer, &self.state.origin)?,
            None => self.state.origin.clone(),
        };
        self.lexer.end()?;
        let start = Start {
            state: State { origin, default_ttl_s: self.state.default_ttl_s },
            last_ttl: self.last_ttl,
            owner: self.owner.clone(),
        };
        self.close_batch();
        let (harvest, end) = self
            .directives
            .include(self.file, &path, start)
            .map_err(|reason| Trouble::new(token.at, Wrong::Include { path: quoted(&path), reason }))?;
        self.harvest.add(harvest);
        self.state.default_ttl_s = end.state.default_ttl_s;
        self.last_ttl = end.last_ttl;
        Ok(())
    }

    fn close_batch(&mut self) {
        if !self.batch.is_empty() {
            let batch = std::mem::take(&mut self.batch);
            self.harvest.batches.push(match self.file.includer {
                None => batch,
                Some(_) => batch.included_from(Arc::clone(&self.file.path)),
            });
        }
    }

    fn note(&mut self, trouble: Trouble) {
        let error = self.remark(trouble);
        self.harvest.errors.push(error);
        if self.harvest.errors.len() > ERRORS_MAX {
            self.harvest.errors.truncate(ERRORS_MAX);
            self.harvest.gave_up = true;
        }
    }

    #[cold]
    fn remark(&self, trouble: Trouble) -> Remark {
        let (line, column) = line_and_column(self.text, trouble.at());
        let lines_before = u32::try_from(line - 1).unwrap_or(u32::MAX);
        Remark {
            path: Arc::clone(&self.file.path),
            line: self.first_line.saturating_add(lines_before),
            column: u32::try_from(column).unwrap_or(u32::MAX),
            wrong: trouble.into_wrong(),
        }
    }
}

/// Whether a line that begins with this byte inherits its owner.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}
