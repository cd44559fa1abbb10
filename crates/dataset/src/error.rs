//! The errors of a query file, with their place and what was expected there.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use kqps_capture::{CaptureError, Why, ports_in_words};
use kqps_message::NameFault;
use kqps_message::edns::Malformed;
use kqps_message::text::WrongEncoding;

use crate::bad::Bad;
use crate::options::Client;

/// The longest line of a query, in bytes. A name takes 1012 at most, with every byte escaped.
pub(crate) const LINE_BYTES_MAX: usize = 4096;

/// The longest line of an update, in bytes. The data of a record take 262,140 at most, with every byte escaped.
pub(crate) const UPDATE_LINE_BYTES_MAX: usize = 264 << 10;

/// The reason why a dataset could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// The system refused an operation on a file.
    #[error("cannot {action} {}: {error}", path.display())]
    Io {
        /// The operation: `open`, `read`, `write`.
        action: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The path is a directory.
    #[error("{} is a directory; expected a file of queries", path.display())]
    Directory {
        /// The path of the directory.
        path: PathBuf,
    },
    /// The file holds no query, or none that is well formed.
    #[error("{} holds no query{}", path.display(), Skipped(*skipped))]
    Empty {
        /// The path of the file.
        path: PathBuf,
        /// The number of bad lines or messages that were skipped.
        skipped: u64,
        /// The bad lines or messages that were skipped.
        bad: Bad,
    },
    /// Lines of a text file, or messages of a binary one, are bad.
    #[error("{}", bad.lines(path).first().map_or("", String::as_str))]
    Bad {
        /// The path of the file.
        path: PathBuf,
        /// The bad lines or messages, one at least.
        bad: Bad,
    },
    /// The file is text in another encoding than UTF-8, so all its lines are bad.
    #[error("{}:1:1: {encoding}", path.display())]
    Encoding {
        /// The path of the file.
        path: PathBuf,
        /// The encoding that its first bytes show.
        encoding: WrongEncoding,
    },
    /// The file is binary, and neither a capture nor messages.
    #[error(
        "{} is a binary file; expected lines of `name type`, a capture (pcap, pcapng or dnstap, plain or compressed by \
         gzip or zstd), or with -B messages after their lengths",
        path.display()
    )]
    Binary {
        /// The path of the file.
        path: PathBuf,
    },
    /// The file is a damaged capture, or none.
    #[error("{}: {error}", path.display())]
    Capture {
        /// The path of the file.
        path: PathBuf,
        /// The fault of the capture, and its place.
        error: CaptureError,
    },
    /// The capture holds no query that can be sent.
    #[error("{} holds no query{}", path.display(), Passed(*packets, *responses, *bad, skipped, other_ports))]
    EmptyCapture {
        /// The path of the file.
        path: PathBuf,
        /// The number of its packets.
        packets: u64,
        /// The number of responses in them.
        responses: u64,
        /// The number of queries that cannot be read.
        bad: u64,
        /// The packets that were skipped, by cause.
        skipped: BTreeMap<String, u64>,
        /// The packets that were skipped as `other-port`, by port.
        other_ports: BTreeMap<u16, u64>,
    },
    /// The capture has more clients than kqps can number.
    #[error("{} has more than {most} clients; {}", path.display(), Fewer(*by))]
    TooManyClients {
        /// The path of the file.
        path: PathBuf,
        /// The most clients.
        most: usize,
        /// How clients are distinguished.
        by: Client,
    },
    /// The encoded queries would exceed the largest position, 32 GiB.
    #[error("{} is too large: its encoded queries exceed 32 GiB", path.display())]
    TooLarge {
        /// The path of the file.
        path: PathBuf,
    },
}

impl DatasetError {
    /// The error in lines: the first says it, and others name further bad lines or messages.
    pub fn lines(&self) -> Vec<String> {
        match self {
            Self::Bad { path, bad } => bad.lines(path),
            Self::Empty { path, bad, .. } => [vec![self.to_string()], bad.lines(path)].concat(),
            other => vec![other.to_string()],
        }
    }

    pub(crate) fn io(action: &'static str, path: &Path, error: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), error }
    }
}

/// The fault of a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineFault {
    /// The name is wrong.
    #[error("bad name: {0}")]
    Name(#[from] NameFault),
    /// The line ends after the name.
    #[error("expected a type after the name, such as A or TYPE65")]
    NoType,
    /// The second column is not a type.
    #[error("unknown type \"{found}\"; expected one such as A or TYPE65{}", Nearest(*.nearest))]
    Type {
        /// The column, with bytes that are not printable escaped.
        found: String,
        /// The known type with the most similar spelling.
        nearest: Option<&'static str>,
    },
    /// The second column is a class.
    #[error("\"{0}\" is a class, and every query's class is IN: expected `name type` without one")]
    Class(String),
    /// The line belongs to a file of dynamic updates.
    #[error("this is a dynamic update; -u reads a file of them, and without it a line is `name type`")]
    Update,
    /// A line of an update begins with no word of updates.
    #[error("unknown word \"{0}\"; expected require, prohibit, add, delete or send")]
    Command(String),
    /// Something follows the zone of an update.
    #[error("expected that nothing follows the zone, found \"{0}\"")]
    AfterZone(String),
    /// A line of an update ends before the name.
    #[error("expected a name after the word")]
    NoOwner,
    /// A record that is added has no TTL.
    #[error("expected a TTL after the name, such as 3600")]
    NoTtl,
    /// A record that is added has no type or no data.
    #[error("expected a type and its data, such as A 192.0.2.1")]
    NoData,
    /// The data of a record are wrong.
    #[error("bad data: {0}")]
    Data(String),
    /// A prerequisite follows a change.
    #[error("a prerequisite stands before the changes of its update (RFC 2136, section 2)")]
    LatePrerequisite,
    /// An update is longer than a message can be.
    #[error("the update is longer than a message of 65,535 bytes")]
    UpdateTooLong,
    /// The file ends within an update.
    #[error("the file ends before the `send` of this update")]
    Unsent,
    /// A further column is unknown.
    #[error(
        "unknown column \"{found}\"; expected E (EDNS), D (EDNS and DO), AD, a client subnet such as 192.0.2.0/24 or \
         2001:db8::/32, an expected rcode such as NXDOMAIN, or = and the digest of an expected answer{}",
        Nearest(*.nearest)
    )]
    Column {
        /// The column, with bytes that are not printable escaped.
        found: String,
        /// The known rcode with the most similar spelling.
        nearest: Option<&'static str>,
    },
    /// A further column looks like a client subnet but is not one.
    #[error(
        "bad client subnet \"{0}\"; expected an address and a length such as 192.0.2.0/24 or 2001:db8::/32"
    )]
    Subnet(String),
    /// A further column begins like the digest of an answer but is not one.
    #[error(
        "bad answer digest \"{0}\"; expected = and 16 hexadecimal digits, as `kqps gen queries` writes them"
    )]
    Answer(String),
    /// Two columns are of one kind.
    #[error("a second {0} in one line")]
    Repeated(&'static str),
    /// The line is longer than a line can be.
    #[error("the line is longer than {0} bytes; binary messages are read with -B")]
    TooLong(usize),
}

/// The fault of a message of a binary file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordFault {
    /// The file ends within the message.
    #[error("the file ends after {found} of {expected} bytes")]
    Truncated {
        /// The bytes that the length announces, including the two of the length.
        expected: usize,
        /// The bytes that are there.
        found: usize,
    },
    /// The message is the beginning of a text.
    #[error("this is text, not a length; without -B the file is read as lines of `name type`")]
    Text,
    /// The message is shorter than a header.
    #[error("{0} bytes are too few for a DNS message, whose header has 12")]
    Short(usize),
    /// QR is set: the message is a reply.
    #[error("it is a reply (QR=1); expected queries")]
    Reply,
    /// The question section is malformed.
    #[error("its question section is cut short or malformed")]
    Question,
    /// The query should get an OPT record, and its records cannot be parsed.
    #[error("no OPT record can be added: {0}")]
    Malformed(#[from] Malformed),
    /// The message has a signature, which is its only one and its last record (RFC 8945, section 5.1).
    #[error("it is signed already: a TSIG record is the last one, so nothing can be added after it")]
    Signed,
    /// With an OPT or TSIG record the message would be longer than 65535 bytes.
    #[error("it is too long for an OPT or TSIG record to be added")]
    TooLong,
    /// The name of a binary query should get random labels.
    #[error("a prefix is for queries in text, since records of a message may point into its name")]
    Prefix,
    /// The message is too short for an ID.
    #[error("{0} bytes are too few: replies are matched by the ID, which has two")]
    NoId(usize),
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

/// The words for how a capture has fewer clients.
struct Fewer(Client);

impl fmt::Display for Fewer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self.0 {
            Client::AddressAndPort => "--client address makes one client of all ports of an address",
            Client::Address => {
                "take the queries to one server (--captured-server ADDR), or a part of the capture"
            }
        })
    }
}

/// The words for what a capture without queries holds: packets, responses, queries that cannot be read, and what was
/// skipped by cause, with the other ports.
struct Passed<'a>(u64, u64, u64, &'a BTreeMap<String, u64>, &'a BTreeMap<u16, u64>);

impl fmt::Display for Passed<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(packets, responses, bad, skipped, other_ports) = self;
        let s = |count: u64| if count == 1 { "" } else { "s" };
        write!(out, ": {packets} packet{}, {responses} response{}", s(*packets), s(*responses))?;
        match bad {
            0 => {}
            1 => out.write_str(", 1 query that cannot be read")?,
            bad => write!(out, ", {bad} queries that cannot be read")?,
        }
        for (index, (cause, count)) in skipped.iter().enumerate() {
            write!(out, "{}{count} {cause}", if index == 0 { ", skipped: " } else { ", " })?;
        }
        if skipped.contains_key(Why::OtherPort.name()) {
            let ports = ports_in_words(other_ports);
            write!(out, " ({ports}); name the servers' port by --captured-port")?;
        }
        Ok(())
    }
}

/// The words for the nearest known mnemonic, if any is near.
struct Nearest(Option<&'static str>);

impl fmt::Display for Nearest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |name| write!(out, "; did you mean {name}?"))
    }
}
