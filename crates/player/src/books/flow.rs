//! A flow of the books, and which flows the queries of a capture used.

use super::{Books, Table};

/// The outstanding queries of a flow.
pub(super) struct Flow<T> {
    pub(super) table: T,
    /// How many more queries the flow takes; `u32::MAX` for any number.
    pub(super) left: u32,
    /// Whether the flow takes no queries for now.
    pub(super) is_blocked: bool,
    /// Until this time no query of this flow is lost. A query left later than its timeout, and the player waits for its
    /// reply as long as for any other.
    pub(super) held_until_ns: u64,
    /// Whether a query of a capture went by it.
    pub(super) was_used: bool,
}

impl<T> Flow<T> {
    /// A flow without queries.
    pub(super) fn new(table: T) -> Self {
        Self { table, left: u32::MAX, is_blocked: false, held_until_ns: 0, was_used: false }
    }
}

impl<T: Table> Books<'_, T> {
    /// The paths, such as sockets, by which a query of a capture went.
    pub(crate) fn paths_used(&self) -> usize {
        self.flows.chunks(1 << self.path_bits).filter(|path| path.iter().any(|flow| flow.was_used)).count()
    }
}
