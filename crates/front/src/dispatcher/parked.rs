//! Queries of another server of this process that got a truncated or doubtful answer while the back end's connection is
//! not open. They wait until it is open or cannot be opened, within their timeout: without the wait such an answer
//! would be a failure, although the next moment brings the whole one.

use kqps_server::counts::Cause;

use super::Dispatcher;
use crate::back_end::BackEnd;
use crate::queries::{Client, Query};
use crate::short;

/// A query that waits for a connection. It is outstanding nowhere.
pub(super) struct Parked {
    place: u16,
    back_end: usize,
    /// When its time is over, in nanoseconds.
    until_ns: u64,
}

impl Dispatcher {
    /// Has a query, which is outstanding nowhere, wait for a connection to this back end. Returns whether it does: the
    /// query is not that of a client, and the back end is up and has no open connection.
    pub(super) fn park(&mut self, place: u16, number: usize) -> bool {
        let Query { client, sent_ns, .. } = *self.queries.get(place);
        let Some(back_end) = &mut self.back_ends[number] else { return false };
        let has_hope = back_end.health.is_up() && !back_end.drains && !back_end.streams.is_empty();
        if !matches!(client, Client::Inner(_)) || !has_hope || back_end.has_connection() {
            return false;
        }
        back_end.streams.iter_mut().for_each(|stream| stream.hasten(self.now_ns));
        self.looks_soon = true;
        let until_ns = sent_ns + self.settings.timeout.as_nanos() as u64;
        self.parked.push(Parked { place, back_end: number, until_ns });
        true
    }

    /// Sends the queries that waited for a connection to this back end, which is open now or cannot be opened. In the
    /// latter case they go to another back end, or fail.
    pub(crate) fn resume(&mut self, number: usize) {
        if self.parked.is_empty() {
            return;
        }
        let all = std::mem::take(&mut self.parked).into_iter();
        let (resumed, others): (Vec<Parked>, _) = all.partition(|parked| parked.back_end == number);
        self.parked = others;
        for Parked { place, .. } in resumed {
            self.consider(place, None);
            if !self.has_connected_candidate() {
                self.consider(place, Some(short(number)));
            }
            self.retain_with_room();
            self.dispatch(place);
        }
    }

    /// Fails the queries that have waited for a connection for too long.
    pub(super) fn fail_parked(&mut self) {
        let now_ns = self.now_ns;
        let all = std::mem::take(&mut self.parked).into_iter();
        let (late, others): (Vec<Parked>, _) = all.partition(|parked| parked.until_ns <= now_ns);
        self.parked = others;
        for Parked { place, .. } in late {
            self.give_up(place);
        }
    }

    /// Drops all queries that wait for a connection, since the server stops.
    pub(super) fn drop_parked(&mut self) {
        for Parked { place, .. } in std::mem::take(&mut self.parked) {
            self.forget(place, Cause::Stopped);
        }
    }

    /// Whether a back end that was found for a query has a connection that takes it.
    pub(super) fn has_connected_candidate(&self) -> bool {
        let has_one =
            |number: u16| self.back_ends[usize::from(number)].as_ref().is_some_and(BackEnd::has_connection);
        self.candidates.iter().any(|candidate| has_one(candidate.back_end))
    }
}
