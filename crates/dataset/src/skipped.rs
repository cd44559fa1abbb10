//! The lines and messages of a query file that were left out, by cause, and lines that may mean something else
//! than the reader takes them for.

use crate::error::LineFault;

/// The counts, in the order of the encoded form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Skipped {
    /// Bad lines and messages, by the index in [`NAMES`].
    bad: [u64; NAMES.len()],
    /// Queries for names that begin with `#`.
    pub(crate) hash_queries: u64,
    /// Lines whose first column begins with `#` and is longer, and which are no queries.
    pub(crate) hash_comments: u64,
}

/// The causes of bad lines and messages, as in records and in the program's output.
const NAMES: [&str; 11] = [
    "bad name",
    "no type",
    "unknown type",
    "class",
    "unknown column",
    "bad client subnet",
    "bad answer digest",
    "repeated column",
    "line too long",
    "dynamic update",
    "bad message",
];

/// How many numbers the encoded form has for them.
pub(crate) const NUMBERS: usize = NAMES.len() + 2;

impl Skipped {
    /// Counts a bad line that was left out.
    pub(crate) fn line(&mut self, fault: &LineFault) {
        let at = match fault {
            LineFault::Name(_) => 0,
            LineFault::NoType => 1,
            LineFault::Type { .. } => 2,
            LineFault::Class(_) => 3,
            LineFault::Column { .. } => 4,
            LineFault::Subnet(_) => 5,
            LineFault::Answer(_) => 6,
            LineFault::Repeated(_) => 7,
            LineFault::TooLong(_) => 8,
            LineFault::Update
            | LineFault::Command(_)
            | LineFault::AfterZone(_)
            | LineFault::NoOwner
            | LineFault::NoTtl
            | LineFault::NoData
            | LineFault::Data(_)
            | LineFault::LatePrerequisite
            | LineFault::UpdateTooLong
            | LineFault::Unsent => 9,
        };
        self.bad[at] += 1;
    }

    /// Counts a bad message that was left out.
    pub(crate) fn message(&mut self) {
        self.bad[10] += 1;
    }

    /// The number of bad lines and messages that were left out.
    pub(crate) fn bad(&self) -> u64 {
        self.bad.iter().sum()
    }

    /// Each cause, with its number of lines or messages.
    pub(crate) fn causes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        NAMES.into_iter().zip(self.bad).filter(|(_, count)| *count > 0)
    }

    pub(crate) fn to_numbers(self) -> [u64; NUMBERS] {
        let mut numbers = [0; NUMBERS];
        numbers[..NAMES.len()].copy_from_slice(&self.bad);
        numbers[NAMES.len()] = self.hash_queries;
        numbers[NAMES.len() + 1] = self.hash_comments;
        numbers
    }

    pub(crate) fn from_numbers(numbers: [u64; NUMBERS]) -> Self {
        Self {
            bad: std::array::from_fn(|at| numbers[at]),
            hash_queries: numbers[NAMES.len()],
            hash_comments: numbers[NAMES.len() + 1],
        }
    }
}
