//! The queries that a thread has to send, and when: its walk through the dataset at its pace.
//!
//! All times are nanoseconds since the trial's common start.

use std::ops::RangeInclusive;

use kqps_dataset::{Dataset, Position, Query};
use kqps_message::header;

use crate::pace::{Pace, Standing};
use crate::per_query::PerQuery;
use crate::replay::TRANSPORTS;
use crate::replay::cursor::{Cursor, ReplayQuery};
use crate::walk::Walk;

/// A thread's queries, and the state of its sending.
pub struct Supply<'a> {
    dataset: &'a Dataset,
    source: Source<'a>,
    pace: Pace,
    stop_at_ns: u64,
    /// A signal came: the thread sends nothing more.
    stopped: bool,
    lag_allowed_ns: u64,
    /// For how long the thread sent, and when it finished sending.
    sent_for_ns: u64,
    all_sent_ns: Option<u64>,
    last_send_ns: u64,
    /// Changes to each query as it is sent.
    per_query: Option<Box<PerQuery>>,
}

/// Where a thread's queries come from.
enum Source<'a> {
    /// Its walk through the dataset. Any flow can take them.
    Walk(Walk),
    /// Its way through a capture, which says when each is due, and the flow that takes it.
    Capture(Box<Cursor<'a>>),
}

impl<'a> Supply<'a> {
    /// The queries on `walk`, which leave at `pace` until `stop_at_ns`. The thread gives up a query that is late by
    /// more than `lag_allowed_ns`.
    pub fn new(dataset: &'a Dataset, walk: Walk, pace: Pace, stop_at_ns: u64, lag_allowed_ns: u64) -> Self {
        Self::from_source(Source::Walk(walk), dataset, pace, stop_at_ns, lag_allowed_ns)
    }

    /// The queries of a capture that are the thread's own. A schedule of `pace` gets the times at which they are due.
    pub(crate) fn captured(
        dataset: &'a Dataset,
        cursor: Cursor<'a>,
        pace: Pace,
        stop_at_ns: u64,
        lag_allowed_ns: u64,
    ) -> Self {
        Self::from_source(Source::Capture(Box::new(cursor)), dataset, pace, stop_at_ns, lag_allowed_ns)
    }

    fn from_source(
        source: Source<'a>,
        dataset: &'a Dataset,
        pace: Pace,
        stop_at_ns: u64,
        lag_allowed_ns: u64,
    ) -> Self {
        Self {
            dataset,
            source,
            pace,
            stop_at_ns,
            stopped: false,
            lag_allowed_ns,
            sent_for_ns: 0,
            all_sent_ns: None,
            last_send_ns: 0,
            per_query: None,
        }
    }

    /// Does this to each query as it is sent.
    pub(crate) fn finish_each(&mut self, per_query: Option<Box<PerQuery>>) {
        self.per_query = per_query;
    }

    /// Copies a query that was due at `due_ns` into a buffer of its length, with its ID, and finishes it.
    #[inline]
    pub(crate) fn write(&self, query: Position, due_ns: u64, id: u16, buffer: &mut [u8]) {
        buffer.copy_from_slice(self.dataset.query(query).message);
        header::set_id(buffer, id);
        self.finish(due_ns, id, buffer);
    }

    /// Finishes a query that was copied.
    #[inline]
    pub(crate) fn finish(&self, due_ns: u64, id: u16, query: &mut [u8]) {
        if let Some(per_query) = &self.per_query {
            per_query.finish(due_ns, id.into(), id, query);
        }
    }

    /// The message of a query that was due at `due_ns` and has this key. Its ID is 0 in it, and is sent as `id`. Unless
    /// the query is sent as the dataset has it, it is made in `room`.
    #[inline]
    pub(crate) fn message<'m>(
        &'m self,
        query: Position,
        (due_ns, key, id): (u64, u16, u16),
        room: &'m mut Vec<u8>,
    ) -> &'m [u8] {
        let message = self.dataset.query(query).message;
        let Some(per_query) = &self.per_query else { return message };
        room.clear();
        room.extend_from_slice(message);
        per_query.finish(due_ns, key.into(), id, room);
        room
    }

    /// The query at `position`.
    #[inline]
    pub fn query(&self, position: Position) -> Query<'a> {
        self.dataset.query(position)
    }

    /// Whether nothing more will be sent.
    #[inline]
    pub fn is_played(&self, now_ns: u64) -> bool {
        self.stopped || self.ran_out() || self.pace.is_played(now_ns, self.stop_at_ns)
    }

    /// Stops sending at once, on a signal. Queries that the thread has not reached by `now_ns` are not intended.
    pub fn stop(&mut self, now_ns: u64) {
        self.stop_at_ns = self.stop_at_ns.min(now_ns);
        self.stopped = true;
    }

    /// Records that nothing more will be sent, at `now_ns`. A schedule that ran to its end lasted for its whole time,
    /// even if the last query was due a little earlier. A schedule that ended with the queries lasted until the next
    /// query would have been due.
    pub fn played(&mut self, now_ns: u64) {
        self.all_sent_ns = Some(now_ns);
        self.sent_for_ns = if !self.ran_out() && self.stop_at_ns != u64::MAX {
            self.stop_at_ns
        } else {
            let end_ns = match &self.source {
                Source::Walk(_) => self.pace.end_ns(),
                Source::Capture(cursor) => cursor.end_ns(),
            };
            end_ns.map_or(now_ns, |end_ns| end_ns.max(self.last_send_ns))
        };
    }

    /// Whether the queries ended, rather than the time.
    #[inline]
    pub fn ran_out(&self) -> bool {
        match &self.source {
            Source::Walk(walk) => walk.is_over(),
            Source::Capture(cursor) => cursor.is_over(),
        }
    }

    /// Whether queries come from a capture, and each has a flow of its own.
    #[inline]
    pub(crate) fn is_captured(&self) -> bool {
        matches!(self.source, Source::Capture(_))
    }

    /// Whether the thread still looks for its next query among those of other threads.
    #[inline]
    pub(crate) fn is_seeking(&self) -> bool {
        match &self.source {
            Source::Walk(_) => false,
            Source::Capture(cursor) => cursor.is_seeking(),
        }
    }

    /// Queries of a capture that no thread plays, by their transports.
    pub(crate) fn not_played(&self) -> [u64; TRANSPORTS.len()] {
        match &self.source {
            Source::Walk(_) => [0; TRANSPORTS.len()],
            Source::Capture(cursor) => cursor.not_played(),
        }
    }

    /// For how long the thread sent queries, nanoseconds.
    pub fn sent_for_ns(&self) -> u64 {
        self.sent_for_ns
    }

    /// When the thread finished sending; `None` while it sends.
    #[inline]
    pub fn all_sent_ns(&self) -> Option<u64> {
        self.all_sent_ns
    }

    /// Records that a burst left at `now_ns`.
    #[inline]
    pub fn sent(&mut self, now_ns: u64) {
        self.last_send_ns = now_ns;
    }

    /// Whether a burst of at most `most` queries should leave now, while `waiting` are outstanding.
    #[inline]
    pub fn is_due(&self, now_ns: u64, most: usize, waiting: u64) -> bool {
        if self.is_held_back(waiting) {
            // Nothing may leave, but the thread gives up the due queries.
            return self.pace.due_before_ns(now_ns + 1).is_some() && !self.is_played(now_ns);
        }
        let standing = Standing { now_ns, waiting, last_send_ns: self.last_send_ns };
        self.pace.is_due(standing, most) && !self.is_played(now_ns)
    }

    /// The earliest and the intended time at which an open loop's next burst leaves; `None` in a closed loop.
    pub fn leaves_ns(&self, most: usize) -> Option<RangeInclusive<u64>> {
        self.pace.leaves_ns(most)
    }

    /// When an open loop's second burst from now will probably leave, if the next burst takes all queries due by `ns`.
    pub fn leaves_after_ns(&self, ns: u64, most: usize) -> Option<u64> {
        self.pace.leaves_after_ns(ns, most)
    }

    /// How long a thread may sleep while the window is full. A query that falls due in that time must not count as
    /// late.
    pub fn nap_most_ns(&self) -> u64 {
        self.lag_allowed_ns / 2
    }

    /// Decides when an open loop's next burst will leave, once its first query is due.
    pub fn leave_at(&mut self, at_ns: u64) {
        self.pace.leave_at(at_ns);
    }

    /// The replies that a closed loop with `waiting` outstanding queries lacks for its next burst. `None` in an open
    /// loop, and if any single reply makes room.
    pub fn missing(&self, waiting: u64, most: usize) -> Option<u64> {
        self.pace.missing(waiting, most)
    }

    /// The time before which the highest rate of a closed loop lets no query leave; `None` without one, or while its
    /// window is full.
    pub fn not_before_ns(&self, waiting: u64) -> Option<u64> {
        self.pace.not_before_ns(waiting)
    }

    /// Whether a schedule decides when queries leave, rather than the subject's replies.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.pace.is_open()
    }

    /// Whether an open loop's window is full. Nothing then leaves before a reply or a timeout makes room, and the
    /// thread gives up the queries that fall due until then.
    #[inline]
    pub fn is_held_back(&self, waiting: u64) -> bool {
        self.pace.is_held_back(waiting)
    }

    /// The queries that may leave now in one burst of at most `most`.
    #[inline]
    pub(crate) fn room(&self, waiting: u64, most: usize) -> u64 {
        self.pace.room(waiting, most)
    }

    /// Whether a query is due before this time.
    #[inline]
    pub(crate) fn is_due_before(&self, before_ns: u64) -> bool {
        self.due_before_ns(before_ns).is_some()
    }

    /// When the next query of an open loop is due, if that is before this time.
    #[inline]
    pub(crate) fn due_before_ns(&self, before_ns: u64) -> Option<u64> {
        self.pace.due_before_ns(before_ns)
    }

    /// The time before which a query that is still due is given up.
    #[inline]
    pub(crate) fn too_late_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.lag_allowed_ns)
    }

    /// Takes the next query that is due at `now_ns`, and the time at which it is due.
    #[inline]
    pub(crate) fn take(&mut self, now_ns: u64) -> Option<(Position, u64)> {
        let Source::Walk(walk) = &mut self.source else { return None };
        let due_ns = self.pace.take(now_ns)?;
        Some((walk.advance(self.dataset), due_ns))
    }

    /// The next query of a capture, if it is due at `now_ns`, with the time at which it is due.
    #[inline]
    pub(crate) fn next_captured(&mut self, now_ns: u64) -> Option<ReplayQuery> {
        let Source::Capture(cursor) = &mut self.source else { return None };
        let next = cursor.next();
        self.pace.follow(cursor.next_due_ns());
        let due_ns = next.and_then(|_| self.pace.take(now_ns))?;
        next.map(|next| ReplayQuery { due_ns, ..next })
    }

    /// Takes the query that [`Self::next_captured`] returned.
    #[inline]
    pub(crate) fn take_captured(&mut self) {
        let Source::Capture(cursor) = &mut self.source else { return };
        cursor.take();
        self.pace.follow(cursor.next_due_ns());
    }

    /// Skips the queries that were due before this time, and returns their number. It does so all at once, since a
    /// stall can leave millions. With random arrivals, and of a capture, it may leave some for the next call.
    #[cold]
    pub(crate) fn skip(&mut self, before_ns: u64) -> u64 {
        let before_ns = before_ns.min(self.stop_at_ns);
        match &mut self.source {
            Source::Walk(walk) => {
                let count = self.pace.skip(before_ns, walk.left());
                if count > 0 {
                    walk.skip(self.dataset, count);
                }
                count
            }
            Source::Capture(cursor) => {
                let count = cursor.skip(before_ns);
                self.pace.follow(cursor.next_due_ns());
                count
            }
        }
    }
}
