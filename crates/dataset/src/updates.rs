//! A file of dynamic updates (RFC 2136) in dnsperf's form. A block is a message: a line with the zone, lines with
//! prerequisites (`require`, `prohibit`), lines with changes (`add`, `delete`), and a line `send`. Names are relative
//! to the zone unless they end with a dot. Data are written as in master files.

mod names;

use std::io;
use std::path::Path;

use kqps_message::query::CLASS_IN;
use kqps_message::{NameError, NameFault, name, rtype};
use kqps_zone::Batch;
use kqps_zone::master::{self, DEPTH_MAX};

use crate::encoded::Facts;
use crate::error::{LineFault, UPDATE_LINE_BYTES_MAX};
use crate::text::{Fields, shown, unknown_type};
use names::Names;

/// The opcode UPDATE in byte 2 of a header (RFC 2136, section 2.2).
const UPDATE: u8 = 5 << 3;
const CLASS_NONE: u16 = 254;
const CLASS_ANY: u16 = 255;
const TYPE_ANY: u16 = 255;

/// The bytes of the header's counts of prerequisites and of changes.
const PREREQUISITES_AT: usize = 6;
const CHANGES_AT: usize = 8;

/// The update that is being read.
#[derive(Debug)]
pub(crate) struct Update {
    message: Vec<u8>,
    /// The zone's name in wire form.
    zone: Vec<u8>,
    names: Names,
    question_bytes: u16,
}

/// A column of a line: its place, and its text.
type Column<'a> = (usize, &'a [u8]);

/// The place of a fault in a line, counted from 1, and the fault.
type Fault = (usize, LineFault);

/// The command of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Command {
    Require,
    Prohibit,
    Add,
    Delete,
}

/// Whether a line of a file is blank or a comment. Such lines may stand anywhere.
pub(crate) fn is_nothing(line: &[u8]) -> bool {
    matches!(Fields { line, at: 0 }.next(), None | Some((_, b"#" | [b';', ..])))
}

/// Whether a line ends the block.
pub(crate) fn is_end(line: &[u8]) -> bool {
    let mut fields = Fields { line, at: 0 };
    fields.next().is_some_and(|(_, word)| word.eq_ignore_ascii_case(b"send")) && fields.next().is_none()
}

impl Update {
    /// Begins an update of the zone in this line.
    pub(crate) fn begin(line: &[u8]) -> Result<Self, Fault> {
        check_length(line)?;
        let mut fields = Fields { line, at: 0 };
        let (at, text) = fields.next().unwrap_or_default();
        if let Some((after, more)) = fields.next() {
            return Err((after + 1, LineFault::AfterZone(shown(more))));
        }
        let mut zone = Vec::new();
        name::encode(text, &mut zone).map_err(|error| bad_name(at, &error))?;
        let mut message = vec![0, 0, UPDATE, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        let mut names = Names::default();
        names.write(&zone, &mut message);
        for word in [rtype::SOA, CLASS_IN] {
            message.extend_from_slice(&word.to_be_bytes());
        }
        let question_bytes = u16::try_from(zone.len() + 4).expect("a name has 255 bytes at most");
        Ok(Self { message, zone, names, question_bytes })
    }

    /// Adds what a line of the block says.
    pub(crate) fn take(&mut self, line: &[u8]) -> Result<(), Fault> {
        check_length(line)?;
        let mut fields = Fields { line, at: 0 };
        let (at, word) = fields.next().unwrap_or_default();
        let command = match word.to_ascii_lowercase().as_slice() {
            b"require" => Command::Require,
            b"prohibit" => Command::Prohibit,
            b"add" => Command::Add,
            b"delete" => Command::Delete,
            _ => return Err((at + 1, LineFault::Command(shown(word)))),
        };
        let is_prerequisite = matches!(command, Command::Require | Command::Prohibit);
        if is_prerequisite && self.message[CHANGES_AT..CHANGES_AT + 2] != [0, 0] {
            return Err((at + 1, LineFault::LatePrerequisite));
        }
        let end = line.len() + 1;
        let owner = fields.next().ok_or((end, LineFault::NoOwner))?;
        let ttl =
            if command == Command::Add { Some(fields.next().ok_or((end, LineFault::NoTtl))?) } else { None };
        let rtype = fields.next();
        let data = fields.next();
        match (command, rtype, data) {
            (Command::Add, Some(rtype), Some(_)) => self.with_data(line, (owner, ttl, rtype), CLASS_IN),
            (Command::Add, ..) => Err((end, LineFault::NoData)),
            (Command::Require, Some(rtype), Some(_)) => self.with_data(line, (owner, None, rtype), CLASS_IN),
            (Command::Delete, Some(rtype), Some(_)) => self.with_data(line, (owner, None, rtype), CLASS_NONE),
            // As in dnsperf, data are ignored: a prohibited name or set of records has none (RFC 2136, section 2.4).
            (Command::Prohibit, rtype, _) => self.without_data(owner, rtype, CLASS_NONE),
            (Command::Require | Command::Delete, rtype, _) => self.without_data(owner, rtype, CLASS_ANY),
        }?;
        let count_at = if is_prerequisite { PREREQUISITES_AT } else { CHANGES_AT };
        let count = u16::from_be_bytes([self.message[count_at], self.message[count_at + 1]]);
        let more = count.checked_add(1).filter(|_| u16::try_from(self.message.len()).is_ok());
        let more = more.ok_or((1, LineFault::UpdateTooLong))?;
        self.message[count_at..count_at + 2].copy_from_slice(&more.to_be_bytes());
        Ok(())
    }

    /// The message.
    pub(crate) fn end(self) -> (Vec<u8>, Facts) {
        let Self { message, question_bytes, .. } = self;
        (message, Facts { question_bytes, expected_rcode: None, expected_answer: None })
    }

    /// Appends a record that stands for a name or for a set of records.
    fn without_data(
        &mut self,
        (at, owner): Column<'_>,
        rtype: Option<Column<'_>>,
        class: u16,
    ) -> Result<(), Fault> {
        let rtype = rtype.map_or(Ok(TYPE_ANY), |(at, text)| type_of(at, text))?;
        let owner = self.absolute(owner).map_err(|error| bad_name(at, &error))?;
        self.record(&owner, rtype, class, 0, &[]);
        Ok(())
    }

    /// Appends a record whose data are the rest of the line, as a master file has them.
    fn with_data(
        &mut self,
        line: &[u8],
        ((at, owner), ttl, (type_at, type_text)): (Column<'_>, Option<Column<'_>>, Column<'_>),
        class: u16,
    ) -> Result<(), Fault> {
        type_of(type_at, type_text)?;
        let wire = self.absolute(owner).map_err(|error| bad_name(at, &error))?;
        let ttl = ttl.map_or(&b"0"[..], |(_, text)| text);
        // The owner is known already. In a master file its text might be a directive.
        let entry = [b". ", ttl, b" IN ", &line[type_at..], b"\n"].concat();
        let open = |_: &Path| Err(io::ErrorKind::Unsupported.into());
        let options = master::Options {
            threads: 1,
            piece_bytes: entry.len() + 1,
            generated_max: 0,
            depth_max: DEPTH_MAX,
            open: &open,
            advance: &|_| (),
        };
        let reading = master::read(&entry, Path::new("update"), &self.zone, &options);
        if let Some(error) = reading.errors.first() {
            return Err((type_at + 1, LineFault::Data(error.wrong.to_string())));
        }
        let record = reading.batches.first().and_then(|batch: &Batch| batch.records().next());
        let (_, record) = record.ok_or((type_at + 1, LineFault::NoData))?;
        let ttl_s = if class == CLASS_IN { record.ttl_s } else { 0 };
        self.record(&wire, record.rtype, class, ttl_s, record.data);
        Ok(())
    }

    fn record(&mut self, owner: &[u8], rtype: u16, class: u16, ttl_s: u32, data: &[u8]) {
        self.names.write(owner, &mut self.message);
        for word in [rtype, class] {
            self.message.extend_from_slice(&word.to_be_bytes());
        }
        self.message.extend_from_slice(&ttl_s.to_be_bytes());
        let length_at = self.message.len();
        self.message.extend_from_slice(&[0; 2]);
        self.names.write_data(rtype, data, &mut self.message);
        let bytes = u16::try_from(self.message.len() - length_at - 2);
        let bytes = bytes.expect("a record's data have 65,535 bytes at most");
        self.message[length_at..length_at + 2].copy_from_slice(&bytes.to_be_bytes());
    }

    /// A name in wire form, which belongs to the zone unless its text ends with a dot.
    fn absolute(&self, text: &[u8]) -> Result<Vec<u8>, NameError> {
        if text == b"@" {
            return Ok(self.zone.clone());
        }
        let mut wire = Vec::new();
        name::encode(text, &mut wire)?;
        if is_absolute(text) {
            return Ok(wire);
        }
        wire.pop();
        wire.extend_from_slice(&self.zone);
        if wire.len() > name::NAME_BYTES_MAX {
            return Err(NameError { column: 1, fault: NameFault::NameTooLong });
        }
        Ok(wire)
    }
}

/// Whether the text of a name ends with a dot that no backslash makes a letter.
fn is_absolute(text: &[u8]) -> bool {
    let Some(before) = text.strip_suffix(b".") else { return false };
    before.iter().rev().take_while(|byte| **byte == b'\\').count().is_multiple_of(2)
}

fn type_of(at: usize, text: &[u8]) -> Result<u16, Fault> {
    rtype::parse(text).ok_or_else(|| (at + 1, unknown_type(text)))
}

fn bad_name(at: usize, error: &NameError) -> Fault {
    (at + error.column, error.fault.into())
}

fn check_length(line: &[u8]) -> Result<(), Fault> {
    if line.len() <= UPDATE_LINE_BYTES_MAX {
        return Ok(());
    }
    Err((UPDATE_LINE_BYTES_MAX + 1, LineFault::TooLong(UPDATE_LINE_BYTES_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(lines: &[&str]) -> Result<Vec<u8>, Fault> {
        let mut update = Update::begin(lines[0].as_bytes())?;
        lines[1..].iter().try_for_each(|line| update.take(line.as_bytes()))?;
        Ok(update.end().0)
    }

    /// The bytes that Debian's dnsperf 2.10 sends for the lines of its manual page.
    #[test]
    fn an_update_has_the_bytes_that_dnsperf_sends() {
        let message = update(&[
            "example.com",
            "require a",
            "require a A",
            "require a A 1.2.3.4",
            "prohibit x",
            "prohibit x A",
            "add x 3600 A 10.1.2.3",
            "delete y A 10.1.2.3",
            "delete z A",
            "delete w",
        ]);
        let expected = [
            &b"\0\0\x28\0\0\x01\0\x05\0\x04\0\0\x07example\x03com\0\x00\x06\x00\x01"[..],
            b"\x01a\xc0\x0c\x00\xff\x00\xff\0\0\0\0\0\0",
            b"\xc0\x1d\x00\x01\x00\xff\0\0\0\0\0\0",
            b"\xc0\x1d\x00\x01\x00\x01\0\0\0\0\0\x04\x01\x02\x03\x04",
            b"\x01x\xc0\x0c\x00\xff\x00\xfe\0\0\0\0\0\0",
            b"\xc0\x47\x00\x01\x00\xfe\0\0\0\0\0\0",
            b"\xc0\x47\x00\x01\x00\x01\x00\x00\x0e\x10\0\x04\x0a\x01\x02\x03",
            b"\x01y\xc0\x0c\x00\x01\x00\xfe\0\0\0\0\0\x04\x0a\x01\x02\x03",
            b"\x01z\xc0\x0c\x00\x01\x00\xff\0\0\0\0\0\0",
            b"\x01w\xc0\x0c\x00\xff\x00\xff\0\0\0\0\0\0",
        ];
        assert_eq!(message, Ok(expected.concat()));
    }

    #[test]
    fn names_are_relative_to_the_zone_unless_they_end_with_a_dot() {
        let owner = |text: &str| Update::begin(b"example.org").unwrap().absolute(text.as_bytes());
        assert_eq!(owner("a"), Ok(b"\x01a\x07example\x03org\0".to_vec()));
        assert_eq!(owner("a.example.org"), Ok(b"\x01a\x07example\x03org\x07example\x03org\0".to_vec()));
        assert_eq!(owner("a.test."), Ok(b"\x01a\x04test\0".to_vec()));
        assert_eq!(owner("@"), Ok(b"\x07example\x03org\0".to_vec()));
        assert_eq!(owner(r"a\."), Ok(b"\x02a.\x07example\x03org\0".to_vec()));
        let text =
            update(&["example.org", "add q.example.org. 60 TXT \"a b\"", "add m 1h MX 10 mail"]).unwrap();
        assert!(text.windows(4).any(|bytes| bytes == b"\x03a b"));
        assert!(text.ends_with(b"\x00\x0a\x04mail\xc0\x0c"), "data belong to the zone as well");
        let prohibited = |line| update(&["example.org", line]);
        assert_eq!(prohibited("prohibit x A 1.2.3.4"), prohibited("prohibit x A"), "data are ignored");
    }

    #[test]
    fn a_line_that_is_no_command_says_what_is_wrong() {
        for (lines, column, wanted) in [
            (&["b..d"][..], 3, "a label is empty"),
            (&["example.org more"], 13, "nothing follows the zone"),
            (&["example.org", "foo bar"], 1, "expected require, prohibit, add, delete or send"),
            (&["example.org", "add"], 4, "a name"),
            (&["example.org", "add x"], 6, "a TTL"),
            (&["example.org", "add x 60"], 9, "a type and its data"),
            (&["example.org", "add x 60 A"], 11, "a type and its data"),
            (&["example.org", "add x 60 FOO 1"], 10, "unknown type"),
            (&["example.org", "add x 60 A 1.2.3"], 10, "expected"),
            (&["example.org", "add x y A 1.2.3.4"], 9, "expected"),
            (&["example.org", "delete x", "require y"], 1, "before the changes"),
        ] {
            let (at, fault) = update(lines).unwrap_err();
            assert!(fault.to_string().contains(wanted), "{lines:?}: {fault}");
            assert_eq!(at, column, "{lines:?}: {fault}");
        }
        assert!(is_end(b" SEND ") && !is_end(b"send A") && is_nothing(b"; c") && is_nothing(b""));
    }
}
