//! The outstanding queries of one flow, by the key that matches a reply to its query.

use std::fmt;

use kqps_dataset::Position;

/// A table of outstanding queries. A query holds its place until its fate is settled: until a reply settles it, or
/// until it is lost.
pub trait Table {
    /// The key by which a reply is known: a message's ID, or a stream.
    type Key: Copy + fmt::Debug + Into<u64>;

    /// Whether unsettled queries hold all places.
    fn is_full(&self) -> bool;

    /// The number of places.
    fn slots(&self) -> usize;

    /// Doubles the number of places, if there are keys for them. Returns whether it did. Queries keep their keys.
    fn grow(&mut self) -> bool;

    /// Whether the reply to an earlier query with this key may still come: the query is lost, and no reply has come.
    fn misses(&self, key: Self::Key) -> bool;

    /// Notes that a reply to an earlier query with this key came. Returns whether one was missing.
    fn came(&mut self, key: Self::Key) -> bool;

    /// Notes that no reply to an earlier query can come any more.
    fn renew(&mut self);

    /// The number of queries whose timeout has not passed.
    fn waiting(&self) -> u32;

    /// The number of unsettled queries.
    fn unsettled(&self) -> u32;

    /// Gives the query a key and records it as waiting. Panics if [`Self::is_full`].
    fn issue(&mut self, due_ns: u64, query: Position) -> Self::Key;

    /// Takes back the query that was just issued under `key`, because the kernel refused it.
    fn take_back(&mut self, key: Self::Key);

    /// The query that was sent with this key; `None` if no query has it.
    fn find(&mut self, key: Self::Key) -> Option<Outstanding>;

    /// Settles the query with this key, which [`Self::find`] returned as waiting or overdue. Returns whether it was
    /// still waiting.
    fn settle(&mut self, key: Self::Key) -> bool;

    /// Loses the query with this key, which [`Self::find`] returned as waiting or overdue. Returns whether it was still
    /// waiting.
    fn lose(&mut self, key: Self::Key) -> bool;

    /// Advances the time. Unanswered queries due before `overdue_before_ns` become overdue. Those due before
    /// `lost_before_ns` are lost. Calls `each_overdue` for each query that becomes overdue, and `each_lost` for each
    /// lost query, with the time at which it was due.
    fn expire(
        &mut self,
        overdue_before_ns: u64,
        lost_before_ns: u64,
        each_overdue: impl FnMut(Position, Self::Key),
        each_lost: impl FnMut(Position, u64),
    ) -> Expired;
}

/// A query that was sent, and its state.
#[derive(Clone, Copy, Debug)]
pub struct Outstanding {
    /// When the query was due, nanoseconds since the trial's start.
    pub due_ns: u64,
    /// The query's position in the dataset.
    pub query: Position,
    /// The query's state.
    pub state: State,
}

/// The state of the query that holds a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The place has held no query yet, or the kernel refused the query.
    Free,
    /// Sent; the timeout has not passed.
    Waiting,
    /// Sent; the timeout has passed, so a reply would be late.
    Overdue,
    /// Answered; another reply is a duplicate.
    Settled,
    /// Lost; a reply is unsolicited.
    Lost,
}

/// The queries that timed out since the last call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Queries whose timeout passed. They leave the window of a closed loop.
    pub overdue: u64,
    /// Queries that are lost.
    pub lost: u64,
}
