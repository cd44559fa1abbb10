//! Encodes a query file in one pass, with a line and a few buffers in memory, or has a capture encoded.

use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::path::Path;

use kqps_capture::{CaptureError, Foreign, is_binary, is_capture};
use kqps_message::text::without_mark;
use kqps_message::{Edns, edns};

use crate::additions::Additions;
use crate::bad::{Bad, READ_ON_MOST};
use crate::binary;
use crate::capture;
use crate::encoded::{Facts, Header, Sections};
use crate::error::{DatasetError, LINE_BYTES_MAX, LineFault, RecordFault, UPDATE_LINE_BYTES_MAX};
use crate::failure::CompileError;
use crate::options::{Format, Options};
use crate::skipped::Skipped;
use crate::source::{BUFFER_BYTES, Hashing};
use crate::tail::Tail;
use crate::text::{self, Line};
use crate::updates::{self, Update};
use crate::writer::{WriteError, Writer};

/// Encodes the queries of `source` to `out`, and returns their number. `path` is used in messages.
pub fn compile(
    source: impl Read + Send + 'static,
    path: &Path,
    options: &Options,
    out: impl Read + Write + Seek,
) -> Result<u64, DatasetError> {
    encode(source, path, options, out, None).map(|header| header.queries).map_err(|error| match error {
        CompileError::Source(error) => error,
        CompileError::Output(error) => DatasetError::io("write the encoded form of", path, error),
    })
}

/// Encodes the queries of a source whose hash may be `known`, and returns the header.
pub(crate) fn encode(
    source: impl Read + Send + 'static,
    path: &Path,
    options: &Options,
    out: impl Read + Write + Seek,
    known: Option<[u8; 32]>,
) -> Result<Header, CompileError> {
    let writer = Writer::new(out).map_err(CompileError::Output)?;
    let mut source = Hashing::new(source, known);
    let first = source.first().map_err(|error| CompileError::unreadable(path, error))?;
    let format = format_of(first, options.format);
    check_readable(first, path, options, format).map_err(CompileError::Source)?;
    if format == Format::Capture {
        return capture::compile(source, path, options, writer);
    }
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, source);
    let mut compiler = Compiler {
        path,
        edns: options.every_query(),
        additions: &options.additions,
        skip_bad: options.skip_bad,
        skipped: Skipped::default(),
        bad: Bad::default(),
        writer,
    };
    match format {
        Format::Binary | Format::AnyBytes => compiler.binary(&mut reader, format)?,
        Format::Updates => compiler.updates(&mut reader)?,
        Format::Plain => compiler.text(&mut reader, false)?,
        Format::Text | Format::Auto | Format::Capture => compiler.text(&mut reader, true)?,
    }
    let Compiler { writer, skipped, bad, .. } = compiler;
    if !options.skip_bad && !bad.is_empty() {
        return Err(CompileError::Source(DatasetError::Bad { path: path.to_owned(), bad }));
    }
    let hash = reader.into_inner().hash();
    let header = write_tail(writer, hash, skipped, &bad).map_err(CompileError::Output)?;
    if header.queries == 0 {
        let (path, skipped) = (path.to_owned(), skipped.bad());
        return Err(CompileError::Source(DatasetError::Empty { path, skipped, bad }));
    }
    Ok(header)
}

/// Writes what follows the records: the table, and which bad lines or messages were skipped.
fn write_tail<W: Read + Write + Seek>(
    mut writer: Writer<W>,
    source_hash: [u8; 32],
    skipped: Skipped,
    bad: &Bad,
) -> io::Result<Header> {
    writer.end_records()?;
    let encoded = if bad.is_empty() { Vec::new() } else { Tail::Bad(bad.first().to_vec()).encode()? };
    writer.append(&encoded)?;
    let sections = Sections { facts_bytes: encoded.len() as u64, ..Sections::default() };
    writer.finish(source_hash, skipped, sections)
}

/// The format of a source that begins with these bytes. A text file begins with a printable byte or white space. A
/// binary file begins with the upper byte of a length, which is below 9 for every message shorter than 2304 bytes.
fn format_of(first: &[u8], format: Format) -> Format {
    match format {
        Format::Auto if is_capture(first) => Format::Capture,
        Format::Auto if first.first().is_some_and(|&byte| byte < b'\t') => Format::Binary,
        Format::Auto => Format::Text,
        known => known,
    }
}

/// Checks that a source with these first bytes is not of a format that is not read. If the format is not given, other binary
/// files are refused as well, unless bad lines and messages are skipped.
fn check_readable(first: &[u8], path: &Path, options: &Options, found: Format) -> Result<(), DatasetError> {
    let is_guessed = options.format == Format::Auto;
    let is_lines = matches!(found, Format::Text | Format::Plain | Format::Updates);
    if (is_lines || (is_guessed && found == Format::Binary))
        && let Some(format) = Foreign::from_first_bytes(first)
    {
        let error = CaptureError::Foreign { format, packing: None };
        return Err(DatasetError::Capture { path: path.to_owned(), error });
    }
    let is_other = match found {
        Format::Text => is_binary(first),
        Format::Binary => !binary::may_be_query(first),
        _ => false,
    };
    if is_other && is_guessed && !options.skip_bad {
        return Err(DatasetError::Binary { path: path.to_owned() });
    }
    Ok(())
}

struct Compiler<'a, W> {
    path: &'a Path,
    edns: Option<Edns>,
    additions: &'a Additions,
    skip_bad: bool,
    skipped: Skipped,
    bad: Bad,
    writer: Writer<W>,
}

impl<W: Read + Write + Seek> Compiler<'_, W> {
    fn text(&mut self, reader: &mut impl BufRead, has_columns: bool) -> Result<(), CompileError> {
        let mut line = Vec::with_capacity(LINE_BYTES_MAX + 1);
        let mut message = Vec::with_capacity(512);
        let mut number = 0;
        while self.read_line(reader, &mut line, LINE_BYTES_MAX)? {
            number += 1;
            let content = if number == 1 { self.without_mark(&line)? } else { &line };
            let mark = line.len() - content.len();
            message.clear();
            let encoded = text::encode(content, has_columns, self.edns, &mut message).and_then(|mut line| {
                if let Line::Query { facts, .. } = &mut line {
                    let added = self.additions.add(&mut message, &mut facts.question_bytes);
                    added.map_err(|no_room| (1, LineFault::Name(no_room.into())))?;
                }
                Ok(line)
            });
            match encoded {
                Ok(Line::Nothing) => {}
                Ok(Line::HashComment) => self.skipped.hash_comments += 1,
                Ok(Line::Query { facts, begins_with_hash }) => {
                    self.skipped.hash_queries += u64::from(begins_with_hash);
                    self.push(&message, facts)?;
                }
                Err((column, fault)) => {
                    let fault = self.seen_beside(fault, reader)?;
                    self.bad_line(number, mark + column, &fault)?;
                }
            }
        }
        Ok(())
    }

    /// Encodes dynamic updates. An update with a bad line is skipped as a whole, if bad lines are skipped.
    fn updates(&mut self, reader: &mut impl BufRead) -> Result<(), CompileError> {
        let mut line = Vec::with_capacity(LINE_BYTES_MAX + 1);
        let (mut update, mut is_bad, mut number): (Option<Update>, bool, u64) = (None, false, 0);
        while self.read_line(reader, &mut line, UPDATE_LINE_BYTES_MAX)? {
            number += 1;
            let content = if number == 1 { self.without_mark(&line)? } else { &line };
            if updates::is_nothing(content) {
                continue;
            }
            let is_end = updates::is_end(content);
            let taken = match &mut update {
                _ if is_end => Ok(()),
                _ if is_bad => continue,
                None => Update::begin(content).map(|begun| update = Some(begun)),
                Some(update) => update.take(content),
            };
            if let Err((column, fault)) = taken {
                self.bad_line(number, line.len() - content.len() + column, &fault)?;
                (update, is_bad) = (None, true);
            }
            if is_end {
                is_bad = false;
                if let Some(whole) = update.take() {
                    self.push_update(whole, number)?;
                }
            }
        }
        if update.is_some() { self.bad_line(number, line.len() + 1, &LineFault::Unsent) } else { Ok(()) }
    }

    fn push_update(&mut self, update: Update, number: u64) -> Result<(), CompileError> {
        let edns = self.edns;
        let (mut message, mut facts) = update.end();
        let has_room = edns.is_none_or(|edns| edns::append(&mut message, 0, &edns))
            && self.additions.add(&mut message, &mut facts.question_bytes).is_ok()
            && u16::try_from(message.len()).is_ok();
        if !has_room {
            return self.bad_line(number, 1, &LineFault::UpdateTooLong);
        }
        self.push(&message, facts)
    }

    /// Adds a query, unless the source is refused and only its further bad lines are looked for.
    fn push(&mut self, message: &[u8], facts: Facts) -> Result<(), CompileError> {
        if !self.skip_bad && !self.bad.is_empty() {
            return Ok(());
        }
        self.writer.push(message, facts, None).map(drop).map_err(|error| self.unwritable(error))
    }

    /// Counts a bad line. A file of updates that is read as queries is bad as a whole.
    fn bad_line(&mut self, line: u64, column: usize, fault: &LineFault) -> Result<(), CompileError> {
        self.skipped.line(fault);
        self.bad(*fault == LineFault::Update, || format!("{line}:{column}: {fault}"))
    }

    /// The fault of a line in view of the next line: a name alone is a zone to be updated if updates follow.
    fn seen_beside(&self, fault: LineFault, reader: &mut impl BufRead) -> Result<LineFault, CompileError> {
        if fault != LineFault::NoType {
            return Ok(fault);
        }
        let next = reader.fill_buf().map_err(|error| self.unreadable(error))?;
        let line = next.split(|byte| *byte == b'\n').next().unwrap_or_default();
        Ok(if text::is_update(line) { LineFault::Update } else { fault })
    }

    /// The first line without a byte order mark. Another encoding makes all lines bad, so it is an error even if bad
    /// lines are skipped.
    fn without_mark<'l>(&self, line: &'l [u8]) -> Result<&'l [u8], CompileError> {
        without_mark(line).map_err(|encoding| {
            CompileError::Source(DatasetError::Encoding { path: self.path.to_owned(), encoding })
        })
    }

    /// Reads a line with its end, or the beginning of a line that is too long. Returns false at the end of the file. A
    /// source of which enough was read is refused.
    fn read_line(
        &mut self,
        reader: &mut impl BufRead,
        line: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<bool, CompileError> {
        line.clear();
        // Two more bytes for CRLF, and one to see that the line is too long.
        let limit = bytes_max as u64 + 3;
        let taken = reader.take(limit).read_until(b'\n', line).map_err(|error| self.unreadable(error))?;
        let mut read = taken as u64;
        if read == limit && line.last() != Some(&b'\n') {
            // A line without an end is refused, too.
            let most = if self.skip_bad { u64::MAX } else { READ_ON_MOST + 1 };
            read += reader.take(most).skip_until(b'\n').map_err(|error| self.unreadable(error))? as u64;
        } else {
            let end = line.strip_suffix(b"\n").map(|line| line.strip_suffix(b"\r").unwrap_or(line).len());
            line.truncate(end.unwrap_or(taken));
        }
        self.bad.read(read);
        self.end_if_enough()?;
        Ok(taken > 0)
    }

    fn binary(&mut self, reader: &mut impl BufRead, format: Format) -> Result<(), CompileError> {
        let mut message = Vec::new();
        let (mut number, mut offset) = (0, 0);
        loop {
            number += 1;
            let read = binary::read(reader, &mut message).map_err(|error| self.unreadable(error))?;
            let next = offset + 2 + message.len() as u64;
            self.bad.read(next - offset);
            self.end_if_enough()?;
            let encoded = match read {
                Ok(false) => return Ok(()),
                Ok(true) if format == Format::AnyBytes => binary::any(&mut message),
                Ok(true) if self.adds_records() && binary::is_signed(&message) => Err(RecordFault::Signed),
                Ok(true) => binary::encode(&mut message, self.edns)
                    .and_then(|facts| self.added_to_message(&mut message, facts)),
                Err(fault) => Err(fault),
            };
            match encoded {
                Ok(facts) => self.push(&message, facts)?,
                Err(fault) => {
                    let fault = if number == 1 { seen_first(fault) } else { fault };
                    self.skipped.message();
                    let words = || format!(" message {number}, at byte {offset}: {fault}");
                    self.bad(fault == RecordFault::Text, words)?;
                }
            }
            offset = next;
        }
    }

    /// Whether messages get records.
    fn adds_records(&self) -> bool {
        self.edns.is_some() || self.additions.tsig.is_some()
    }

    fn added_to_message(&self, message: &mut Vec<u8>, mut facts: Facts) -> Result<Facts, RecordFault> {
        if !self.additions.labels.is_empty() {
            return Err(RecordFault::Prefix);
        }
        self.additions.add(message, &mut facts.question_bytes).map_err(|_| RecordFault::TooLong)?;
        Ok(facts)
    }

    /// Counts a bad entry. Unless bad entries are skipped, the source is refused: at its end, when enough of it was read,
    /// or at once if the rest of it `is_alike`.
    fn bad(&mut self, is_alike: bool, words: impl FnOnce() -> String) -> Result<(), CompileError> {
        self.bad.add(words);
        if is_alike && !self.skip_bad { Err(self.refused()) } else { self.end_if_enough() }
    }

    /// Refuses a source with bad entries of which enough was read.
    fn end_if_enough(&mut self) -> Result<(), CompileError> {
        if self.skip_bad || !self.bad.are_enough() { Ok(()) } else { Err(self.refused()) }
    }

    /// The error about a source whose rest is not read.
    fn refused(&mut self) -> CompileError {
        let mut bad = std::mem::take(&mut self.bad);
        bad.end_early();
        CompileError::Source(DatasetError::Bad { path: self.path.to_owned(), bad })
    }

    fn unreadable(&self, error: io::Error) -> CompileError {
        CompileError::unreadable(self.path, error)
    }

    fn unwritable(&self, error: WriteError) -> CompileError {
        CompileError::unwritable(self.path, error)
    }
}

/// The fault of a file's first message. A length of two letters is the beginning of a text.
fn seen_first(fault: RecordFault) -> RecordFault {
    match fault {
        RecordFault::Truncated { expected, .. }
            if (expected - 2).to_le_bytes()[..2].iter().all(u8::is_ascii_graphic) =>
        {
            RecordFault::Text
        }
        other => other,
    }
}
