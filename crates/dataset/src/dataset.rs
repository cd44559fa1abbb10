//! An open dataset: queries by position, straight from the memory map.

mod traffic;

use std::fmt;
use std::path::{Path, PathBuf};

use kqps_kernel::map::MappedFile;
use kqps_message::rcode;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

use crate::answer::Digest;
use crate::bad::Bad;
use crate::encoded::{
    COVERS_AD, DIGEST, HEADER_BYTES, Header, NO_RCODE, STRIDE, UNIT_BYTES, digest_at, message_at,
};
use crate::facts::CaptureFacts;
use crate::mapped::Mapped;

/// A set of queries that does not change. Threads can share it.
#[derive(Debug)]
pub struct Dataset {
    path: PathBuf,
    file: MappedFile,
    header: Header,
    /// The facts of the capture, if the source is one.
    capture: Option<CaptureFacts>,
    bad: Bad,
    note: Option<String>,
    /// How answers are checked.
    check: Check,
}

/// How answers are checked against a dataset's expectations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, EnumString, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", parse_err_ty = String, parse_err_fn = unknown)]
pub enum Check {
    /// Not at all: any reply to the question is right.
    Off,
    /// By the rcode, if one is expected.
    Rcode,
    /// By the rcode and the answer, if they are expected.
    Answers,
}

impl Check {
    /// The word in flags and records.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The error for a word that names no check.
fn unknown(_: &str) -> String {
    "expected rcode, answers or off".to_owned()
}

/// The place of a query in its dataset. A position of another dataset is meaningless here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(u32);

impl Position {
    /// The number of the position, below that of [`Dataset::end`].
    #[inline]
    pub fn number(self) -> u32 {
        self.0
    }

    /// The position with this number.
    #[inline]
    pub fn of_number(number: u32) -> Self {
        Self(number)
    }
}

/// The right answer that a query file expects, as far as servers distinguish answers when they limit them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Expected {
    /// An rcode. If it is NOERROR, there are data, or it is not known whether there are.
    Rcode(u16),
    /// NOERROR from an authority, and no record: the name has no data of the type.
    NoData,
    /// NOERROR from no authority, and no record in the answer section: a referral.
    Referral,
    /// The file expects nothing.
    Unknown,
}

impl fmt::Display for Expected {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rcode(rcode) => rcode::RcodeName(*rcode).fmt(out),
            Self::NoData => out.pad("NODATA"),
            Self::Referral => out.pad("referral"),
            Self::Unknown => out.pad("unknown"),
        }
    }
}

/// A query, ready to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<'a> {
    /// The whole message. Its ID is 0, to be overwritten.
    pub message: &'a [u8],
    /// The length of the question section, which follows the header, in bytes.
    pub question_bytes: usize,
    /// The rcode of a right answer, if it is known and checked.
    pub expected_rcode: Option<u16>,
    /// The digest of a right answer, if it is known and checked.
    pub expected_answer: Option<Digest>,
}

impl Dataset {
    pub(crate) fn from_mapped(path: &Path, mapped: Mapped, note: Option<String>) -> Self {
        let Mapped { file, header, capture, bad } = mapped;
        let check = match capture {
            Some(_) => Check::Off,
            None if header.answers > 0 => Check::Answers,
            None => Check::Rcode,
        };
        Self { path: path.to_owned(), file, header, capture, bad, note, check }
    }

    /// These queries with another check of their answers. [`Check::Off`] is for a server that cannot give the
    /// answers that the file expects, such as an echo.
    #[must_use]
    pub fn checked(self, check: Check) -> Self {
        Self { check, ..self }
    }

    /// How answers are checked: as far as the file expects anything, and not at all for a capture, unless
    /// [`Self::checked`] says otherwise.
    pub fn check(&self) -> Check {
        self.check
    }

    /// The number of queries for which the digest of the right answer is known.
    pub fn answers(&self) -> u64 {
        self.header.answers
    }

    /// The path of the query file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// BLAKE3 of the query file's content, in hex.
    pub fn hash(&self) -> String {
        blake3::Hash::from_bytes(self.header.source_hash).to_hex().to_string()
    }

    /// The number of queries, at least one.
    pub fn queries(&self) -> u64 {
        self.header.queries
    }

    /// The number of bad lines or messages that were left out.
    pub fn skipped(&self) -> u64 {
        self.header.skipped.bad()
    }

    /// The bad lines or messages that were left out, if the source is a query file.
    pub fn bad(&self) -> &Bad {
        &self.bad
    }

    /// The faults of bad lines or messages, and how often each was seen.
    pub fn skipped_causes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.header.skipped.causes()
    }

    /// The number of queries for names that begin with `#`, which begins a comment in other tools' files.
    pub fn hash_queries(&self) -> u64 {
        self.header.skipped.hash_queries
    }

    /// The number of lines that begin with `#` and a letter, as such a name does, but are no queries. They were left
    /// out as comments.
    pub fn hash_comments(&self) -> u64 {
        self.header.skipped.hash_comments
    }

    /// A note to the user if the encoded form could not be kept, with the reason.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// The position of the first query.
    #[inline]
    pub fn first(&self) -> Position {
        Position(u32::try_from(HEADER_BYTES / UNIT_BYTES).expect("a header is short"))
    }

    /// The position after the last query. There is no query at it.
    #[inline]
    pub fn end(&self) -> Position {
        Position(u32::try_from(self.header.records_end / UNIT_BYTES as u64).expect("positions have 32 bits"))
    }

    /// The position of query `index`, counted from 0; the end if there are not as many. It steps over at most 1023
    /// queries.
    pub fn position(&self, index: u64) -> Position {
        if index >= self.header.queries {
            return self.end();
        }
        (0..index % STRIDE).fold(self.entry(index / STRIDE), |position, _| self.after(position))
    }

    /// The position of query `number` × 1024, which the table has. There must be such a query.
    fn entry(&self, number: u64) -> Position {
        let at = self.header.records_end as usize + number as usize * 4;
        Position(u32::from_le_bytes(self.file[at..].first_chunk().copied().unwrap_or_default()))
    }

    /// The query at a position. Must not be called with the end.
    #[inline]
    pub fn query(&self, position: Position) -> Query<'_> {
        let query = self.record(position);
        Query {
            expected_rcode: query.expected_rcode.filter(|_| self.check != Check::Off),
            expected_answer: query.expected_answer.filter(|_| self.check == Check::Answers),
            ..query
        }
    }

    /// The query at a position, with everything that the file expects of the right answer.
    #[inline]
    fn record(&self, position: Position) -> Query<'_> {
        let record = &self.file[position.0 as usize * UNIT_BYTES..];
        let word = |at: usize| u16::from_le_bytes([record[at], record[at + 1]]);
        let (message_bytes, question_bytes, rcode, parts) = (word(0), word(2), word(4), word(6));
        let start = message_at(parts);
        let digest = || record[digest_at(parts)..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let expected_answer = if parts & DIGEST != 0 { digest() } else { None };
        Query {
            message: &record[start..start + usize::from(message_bytes)],
            question_bytes: usize::from(question_bytes),
            expected_rcode: (rcode != NO_RCODE).then_some(rcode),
            expected_answer: expected_answer
                .map(|number| Digest::from_number(number, parts & COVERS_AD != 0)),
        }
    }

    /// The expected answer to a query, whatever is checked.
    pub fn expected(&self, position: Position) -> Expected {
        let Query { expected_rcode, expected_answer, .. } = self.record(position);
        let none = |aa| Digest::of_none(rcode::NOERROR, aa);
        if let Some(digest) = expected_answer.filter(|digest| digest.covers_ad()) {
            // A resolver has no authority, and refers to nobody.
            let is_none = |ad| digest == none(false).covering_ad(rcode::NOERROR, ad);
            if expected_rcode.is_none_or(|rcode| rcode == rcode::NOERROR) && (is_none(false) || is_none(true))
            {
                return Expected::NoData;
            }
        }
        let is_none = |aa| expected_answer == Some(none(aa));
        match expected_rcode {
            None | Some(rcode::NOERROR) if is_none(true) => Expected::NoData,
            None | Some(rcode::NOERROR) if is_none(false) => Expected::Referral,
            Some(rcode) => Expected::Rcode(rcode),
            None => Expected::Unknown,
        }
    }

    /// The next position. Must not be called with the end.
    #[inline]
    pub fn after(&self, position: Position) -> Position {
        let record = &self.file[position.0 as usize * UNIT_BYTES..];
        let word = |at: usize| u16::from_le_bytes([record[at], record[at + 1]]);
        let units = (message_at(word(6)) + usize::from(word(0))).div_ceil(UNIT_BYTES);
        // A record has 8,197 units at most: two bytes.
        let [low, high, ..] = units.to_le_bytes();
        Position(position.0 + u32::from(u16::from_le_bytes([low, high])))
    }

    /// Every query once, in order.
    pub fn iter(&self) -> impl Iterator<Item = Query<'_>> {
        let positions = std::iter::successors(Some(self.first()), |&position| Some(self.after(position)));
        positions.take(self.header.queries as usize).map(|position| self.query(position))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    #[test]
    fn words_are_typed_as_they_are_stored() {
        let checks = [Check::Off, Check::Rcode, Check::Answers];
        assert_eq!(checks.map(Check::name), ["off", "rcode", "answers"]);
        for check in checks {
            assert_eq!(check.name().parse(), Ok(check));
            assert_eq!(serde_json::to_value(check).unwrap(), check.name());
        }
        assert_eq!("on".parse::<Check>().unwrap_err(), "expected rcode, answers or off");
    }

    #[test]
    fn an_answer_without_records_is_named_whatever_its_digest_covers() {
        let none = |aa| Digest::of_none(rcode::NOERROR, aa);
        let of_ad = |is_set| none(false).covering_ad(rcode::NOERROR, is_set).number();
        let folder = tempfile::tempdir().unwrap();
        let lines = [
            (none(true).number(), ""),
            (none(false).number(), ""),
            (of_ad(true), "AD"),
            (of_ad(false), "AD"),
        ];
        let lines = lines.map(|(number, ad)| format!("a.test A NOERROR ={number:016x} {ad}\n"));
        let file = folder.path().join("queries");
        std::fs::write(&file, lines.concat()).unwrap();
        let options = Options { cache_dir: Some(folder.path().join("cache")), ..Options::default() };
        let dataset = Dataset::open(&file, &options).unwrap();
        let expected = [0, 1, 2, 3].map(|index| dataset.expected(dataset.position(index)));
        assert_eq!(expected, [Expected::NoData, Expected::Referral, Expected::NoData, Expected::NoData]);
    }
}
