//! What can be wrong with a query file, said with the place and what was expected there.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use kqps_message::NameFault;
use kqps_message::edns::Malformed;
use kqps_message::text::WrongEncoding;

/// Why a dataset could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// The system refused something.
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        /// What was tried: `open`, `read`, `write`.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The path is a directory.
    #[error("{} is a directory; expected a file of queries", path.display())]
    Directory {
        /// That path.
        path: PathBuf,
    },
    /// The file holds no query, or none that is well formed.
    #[error("{} holds no query{}", path.display(), Skipped(*skipped))]
    Empty {
        /// That file.
        path: PathBuf,
        /// Bad lines or messages that were skipped.
        skipped: u64,
    },
    /// A line of a text file is bad.
    #[error("{}:{line}:{column}: {fault}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// The byte of the line, counted from 1.
        column: usize,
        /// What is wrong there.
        fault: LineFault,
    },
    /// A message of a binary file is bad.
    #[error("{}: message {number}, at byte {offset}: {fault}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The message, counted from 1.
        number: u64,
        /// Where its length stands, in bytes from the start of the file.
        offset: u64,
        /// What is wrong with it.
        fault: RecordFault,
    },
    /// It is text of another encoding than UTF-8, so that all of its lines are bad.
    #[error("{}:1:1: {encoding}", path.display())]
    Encoding {
        /// The file.
        path: PathBuf,
        /// What it begins with.
        encoding: WrongEncoding,
    },
    /// The encoded queries would exceed what a position can address, 32 GiB.
    #[error("{} is too large: its encoded queries exceed 32 GiB", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
}

impl DatasetError {
    pub(crate) fn io(action: &'static str, path: &Path, error: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), error }
    }
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineFault {
    /// Its name.
    #[error("bad name: {0}")]
    Name(#[from] NameFault),
    /// It ends after the name.
    #[error("expected a type after the name, such as A or TYPE65")]
    NoType,
    /// Its second column is no type.
    #[error("unknown type \"{found}\"; expected one such as A or TYPE65{}", Nearest(*.nearest))]
    Type {
        /// What stands there, with bytes that are not printable escaped.
        found: String,
        /// The known type that is spelled most like it.
        nearest: Option<&'static str>,
    },
    /// A class.
    #[error("\"{0}\" is a class, and every query's class is IN: expected `name type` without one")]
    Class(String),
    /// It is of a file of dynamic updates.
    #[error("this is a dynamic update, as for dnsperf -u; kqps plays queries only, `name type` a line")]
    Update,
    /// A further column is nothing that is known.
    #[error(
        "unknown column \"{found}\"; expected E (EDNS), D (EDNS and DO), a client subnet such as 192.0.2.0/24 or \
         2001:db8::/32, an expected rcode such as NXDOMAIN, or = and the digest of an expected answer{}",
        Nearest(*.nearest)
    )]
    Column {
        /// What stands there, with bytes that are not printable escaped.
        found: String,
        /// The known rcode that is spelled most like it.
        nearest: Option<&'static str>,
    },
    /// A further column looks like a client subnet and is none.
    #[error(
        "bad client subnet \"{0}\"; expected an address and a length such as 192.0.2.0/24 or 2001:db8::/32"
    )]
    Subnet(String),
    /// A further column begins as the digest of an answer and is none.
    #[error(
        "bad answer digest \"{0}\"; expected = and 16 hexadecimal digits, as `kqps gen queries` writes them"
    )]
    Answer(String),
    /// A second column of one kind.
    #[error("a second {0} in one line")]
    Repeated(&'static str),
    /// It is longer than a line can be.
    #[error(
        "the line is longer than {} bytes; binary messages are read with -B",
        crate::text::LINE_BYTES_MAX
    )]
    TooLong,
}

/// What is wrong with a message of a binary file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    /// The file ends within it.
    #[error("the file ends after {found} of {expected} bytes")]
    Truncated {
        /// Bytes that its length calls for, the two of the length included.
        expected: usize,
        /// Bytes that are there.
        found: usize,
    },
    /// It is the beginning of a text.
    #[error("this is text and no length; without -B the file is read as lines of `name type`")]
    Text,
    /// It is shorter than a header.
    #[error("{0} bytes are too few for a DNS message, whose header has 12")]
    Short(usize),
    /// QR is set.
    #[error("it is a reply (QR=1); expected queries")]
    Reply,
    /// Its question section is malformed.
    #[error("its question section is cut short or malformed")]
    Question,
    /// An OPT record is asked for, and its records cannot be read.
    #[error("no OPT record can be added: {0}")]
    Malformed(#[from] Malformed),
    /// With an OPT record it would exceed what a length of 16 bits can say.
    #[error("it is too long for an OPT record to be added")]
    TooLong,
}

/// The words for what was skipped, if anything was.
struct Skipped(u64);

impl fmt::Display for Skipped {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            count => write!(out, "; {count} bad ones were skipped"),
        }
    }
}

/// The words for the nearest known mnemonic, if any is near.
struct Nearest(Option<&'static str>);

impl fmt::Display for Nearest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |name| write!(out, "; did you mean {name}?"))
    }
}
