//! The errors of a master file, with their place.

use std::path::Path;
use std::sync::Arc;

use kqps_message::name::NameFault;
use kqps_message::rtype;
use kqps_message::text::WrongEncoding;

use crate::position::ShownPath;

/// The most errors that are reported for one file. More of them are probably one mistake many times.
pub const ERRORS_MAX: usize = 20;

/// An error or a warning of a master file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}:{column}: {wrong}", ShownPath(.path))]
pub struct Remark {
    /// The file: the zone's own, or one that it includes.
    pub path: Arc<Path>,
    /// The line, counted from 1.
    pub line: u32,
    /// The byte of the line, counted from 1.
    pub column: u32,
    /// The error or warning.
    pub wrong: Wrong,
}

/// An error or a warning at a place of a master file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// The format requires something else here.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// The text that the format requires.
        expected: &'static str,
        /// The text that is there: the word in quotation marks, or the end of the line.
        found: Box<str>,
    },
    /// A name is malformed, or an escape, which names and strings have in common.
    #[error("{0}")]
    Name(NameFault),
    /// A rule of the format is broken. This sentence is the rule or the error.
    #[error("{0}")]
    Rule(&'static str),
    /// A class other than IN.
    #[error("the class is {0}, and only IN is served")]
    Class(Box<str>),
    /// A type that only messages have.
    #[error(
        "{} is a type of questions and messages; a zone cannot have records of it",
        rtype::RtypeName(*.0)
    )]
    Meta(u16),
    /// A type whose data has no other form here than that of RFC 3597.
    #[error("data of type {} is written as \\# LENGTH HEX (RFC 3597)", rtype::RtypeName(*.0))]
    NoText(u16),
    /// Data in the form of RFC 3597 has another length than announced.
    #[error("\\# announces {announced} bytes, but {given} follow")]
    Length {
        /// The announced number of bytes.
        announced: usize,
        /// The number of bytes that are there.
        given: usize,
    },
    /// Data in the form of RFC 3597 is not valid for its type.
    #[error("these bytes are not valid data of type {}", rtype::RtypeName(*.0))]
    Data(u16),
    /// The file is not in UTF-8.
    #[error("{0}")]
    Encoding(WrongEncoding),
    /// A file cannot be included.
    #[error("cannot include {path}: {reason}")]
    Include {
        /// The path of the file.
        path: Box<str>,
        /// The reason why not.
        reason: Box<str>,
    },
}

/// Something wrong at a byte of the text. It is in a box to keep results small, since words without errors are
/// passed on far more often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble(Box<(usize, Wrong)>);

pub(super) type Parsed<T> = Result<T, Trouble>;

impl Trouble {
    #[cold]
    pub(super) fn new(at: usize, wrong: Wrong) -> Self {
        Self(Box::new((at, wrong)))
    }

    /// The byte of the text, counted from 0.
    pub(super) fn at(&self) -> usize {
        self.0.0
    }

    pub(super) fn into_wrong(self) -> Wrong {
        self.0.1
    }

    #[cold]
    pub(super) fn rule(at: usize, rule: &'static str) -> Self {
        Self::new(at, Wrong::Rule(rule))
    }

    #[cold]
    pub(super) fn expected(expected: &'static str, found: &[u8], at: usize) -> Self {
        Self::new(at, Wrong::Expected { expected, found: quoted(found) })
    }

    #[cold]
    pub(super) fn ended(expected: &'static str, at: usize) -> Self {
        Self::new(at, Wrong::Expected { expected, found: "the end of the record".into() })
    }
}

/// Bytes of a file for a message: printable, in quotation marks, limited in length.
pub(super) fn quoted(bytes: &[u8]) -> Box<str> {
    const SHOWN_MAX: usize = 40;
    let more = if bytes.len() > SHOWN_MAX { "…" } else { "" };
    format!("\"{}{more}\"", bytes[..bytes.len().min(SHOWN_MAX)].escape_ascii()).into()
}
