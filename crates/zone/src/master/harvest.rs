//! How a piece of a master file begins, and the result of reading it: its records, its errors, and the state at its
//! end.

use std::path::Path;
use std::sync::Arc;

use super::Options;
use super::error::{ERRORS_MAX, Remark};
use crate::batch::Batch;

/// A file that is being read, and the files that include it.
pub(super) struct File<'a> {
    pub(super) path: Arc<Path>,
    pub(super) options: &'a Options<'a>,
    /// The file that includes it.
    pub(super) includer: Option<&'a File<'a>>,
}

/// State that directives set for the entries after them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) origin: Vec<u8>,
    /// `$TTL`, or the SOA's MINIMUM in its place (RFC 2308, section 4).
    pub(super) default_ttl_s: Option<u32>,
}

/// The last explicit TTL of an earlier record (RFC 1035, section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastTtl {
    /// No earlier record has one.
    None,
    /// It is in an earlier piece, which another thread is reading.
    Elsewhere,
    Known(u32),
}

/// How a piece begins.
#[derive(Clone, Debug)]
pub(super) struct Start {
    pub(super) state: State,
    pub(super) last_ttl: LastTtl,
    /// The owner that a line inherits if it begins with a blank; empty if there is none.
    pub(super) owner: Vec<u8>,
}

/// The content of a text.
#[derive(Debug, Default)]
pub(super) struct Harvest {
    pub(super) batches: Vec<Batch>,
    pub(super) errors: Vec<Remark>,
    /// Whether reading stopped early because there were too many errors.
    pub(super) gave_up: bool,
    pub(super) warnings: Vec<Remark>,
    /// The number of further warnings.
    pub(super) more_warnings: u64,
    /// Whether some records have [`TTL_OPEN`](crate::batch::TTL_OPEN).
    pub(super) ttl_open: bool,
}

impl Harvest {
    pub(super) fn has_records(&self) -> bool {
        self.batches.iter().any(|batch| !batch.is_empty())
    }

    pub(super) fn add(&mut self, other: Self) {
        self.batches.extend(other.batches);
        self.errors.extend(other.errors);
        self.warnings.extend(other.warnings);
        self.more_warnings += other.more_warnings + self.warnings.len().saturating_sub(ERRORS_MAX) as u64;
        self.warnings.truncate(ERRORS_MAX);
        self.ttl_open |= other.ttl_open;
        self.gave_up |= other.gave_up || self.errors.len() > ERRORS_MAX;
        self.errors.truncate(ERRORS_MAX);
    }
}

/// How a piece ended.
pub(super) struct Ended {
    pub(super) harvest: Harvest,
    /// The state for the next piece.
    pub(super) next: Start,
    /// The position and line of the last entry, if the piece ends before that entry does.
    pub(super) unfinished: Option<(usize, u32)>,
}
