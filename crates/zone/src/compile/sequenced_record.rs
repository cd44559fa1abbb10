//! A record of a name while its RRsets are made.

use crate::batch::Record;

/// A record, and its place in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held<'a> {
    pub record: Record<'a>,
    pub sequence: u64,
}
