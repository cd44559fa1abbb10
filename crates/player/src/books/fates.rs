//! The fates of outstanding queries: by a reply, by time, and by the breaking of their flow. A query never times out
//! before the player has read its flow. A reply that waited there while the player stalled carries the kernel's time of
//! arrival, and may be in time.

use std::cmp::Reverse;

use kqps_dataset::{Position, Query};
use kqps_message::{header, rcode};

use super::table::{Outstanding, State, Table};
use super::{Books, Due, Standstill};
use crate::clock::STEP_LEAST_NS;
use crate::connections::ConnectionCounts;
use crate::inflight::Inflight;
use crate::loss::Loss;
use crate::reply::{Cause, Checked, Extent, check};
use crate::reports::{Fate, Reports};

/// The flows whose time is advanced in one call. With more of them a call would take longer than a query may be late.
const EXPIRED_AT_ONCE: usize = 4096;

/// The bits of an rcode that a header has.
const OF_HEADER: u8 = 0x0f;

impl Books<'_, Inflight> {
    /// Books a message that arrived from the target at `at_ns`. Its ID says which query it answers.
    #[inline]
    pub fn arrived(&mut self, flow: usize, reply: &[u8], at_ns: u64) {
        self.replied(flow, reply, at_ns);
    }

    /// Like [`Self::arrived`]. Returns the ID and the latency (nanoseconds) of a query that this message answers
    /// correctly, in time or late.
    #[inline]
    pub fn replied(&mut self, flow: usize, reply: &[u8], at_ns: u64) -> Option<(u16, u64)> {
        let Some(id) = header::id(reply) else {
            self.tally.accounts.unsolicited += 1;
            return None;
        };
        Some((id, self.answered(flow, id, reply, at_ns)?))
    }
}

impl<T: Table> Books<'_, T> {
    /// Books a reply that arrived at `at_ns` to the query with this key. Returns the query's latency, nanoseconds, if
    /// the reply is correct, in time or late.
    #[inline]
    pub fn answered(&mut self, flow: usize, key: T::Key, reply: &[u8], at_ns: u64) -> Option<u64> {
        self.settle_checked(flow, key, at_ns, Some(reply), |query, scratch| check(query, reply, scratch))
    }

    /// Books a reply that arrived at `at_ns` to the query with this key, and is wrong by what carried it. Progress and
    /// reports show the query as one without a reply.
    pub fn wrong(&mut self, flow: usize, key: T::Key, cause: Cause, at_ns: u64) {
        self.settle_checked(flow, key, at_ns, None, |_, _| Checked::Wrong(cause));
    }

    /// The query with this key, if it has no fate yet.
    pub fn open_query(&mut self, flow: usize, key: T::Key) -> Option<Outstanding> {
        let found = self.flows[flow].table.find(key)?;
        matches!(found.state, State::Waiting | State::Overdue).then_some(found)
    }

    /// Books a reply, which `checked` checks. It is `None` if it could not be read.
    #[inline]
    fn settle_checked(
        &mut self,
        flow: usize,
        key: T::Key,
        at_ns: u64,
        reply: Option<&[u8]>,
        checked: impl FnOnce(&Query<'_>, &mut Vec<u8>) -> Checked,
    ) -> Option<u64> {
        let flow = &mut self.flows[flow];
        let found = match flow.table.find(key) {
            Some(found) if matches!(found.state, State::Waiting | State::Overdue) => found,
            Some(Outstanding { state: State::Settled, .. }) if !flow.table.misses(key) => {
                self.tally.accounts.duplicate += 1;
                return None;
            }
            _ => {
                self.tally.accounts.unsolicited += 1;
                self.tally.after_loss += u64::from(flow.table.came(key));
                return None;
            }
        };
        let query = self.dataset.query(found.query);
        if at_ns.saturating_add(STEP_LEAST_NS) < found.due_ns {
            self.tally.misdated += 1;
        }
        // No reply comes before its query, whatever a clock that was set back says.
        let at_ns = at_ns.max(found.due_ns);
        let latency_ns = at_ns - found.due_ns;
        let checked = match &self.labels {
            None => checked(&query, &mut self.scratch),
            Some(labels) => {
                let sent = labels.sent(&query, found.due_ns, key.into(), &mut self.asked);
                checked(&sent, &mut self.scratch)
            }
        };
        if checked == Checked::Wrong(Cause::Question) && flow.table.came(key) {
            // It answers an earlier query with this key, which was lost. The query stays open.
            self.tally.accounts.unsolicited += 1;
            self.tally.after_loss += 1;
            return None;
        }
        if latency_ns > self.timeout_ns && matches!(checked, Checked::Wrong(_)) {
            // The reply answers another question, and is too late to count as wrong. The query stays open.
            self.tally.accounts.unsolicited += 1;
            self.tally.wrong_late += 1;
            return None;
        }
        let was_waiting = flow.table.settle(key);
        self.waiting -= u64::from(was_waiting);
        self.unsettled -= 1;
        let (is_in_time, message) = (latency_ns <= self.timeout_ns, reply.unwrap_or_default());
        if is_in_time {
            self.note(checked, found.query, &query, message.len());
            if self.tally.differences.is_on()
                && !matches!(checked, Checked::Correct { extent: Extent::Whole, .. })
            {
                self.tally.differences.replied(found.query, query.expected_answer, checked, message);
            }
        }
        if is_in_time && reply.is_some() {
            self.tally.replies.add(at_ns, latency_ns, message.len());
            let of_header = || message.get(3).map_or(0, |byte| u16::from(byte & OF_HEADER));
            let rcode = checked.rcode().unwrap_or_else(of_header);
            self.live.replied(at_ns, latency_ns, (rcode, message.len()));
            if let Some(reports) = self.reports.as_ref().filter(|reports| reports.replies) {
                let rcode = rcode as u8 & OF_HEADER;
                reports.report(found.query, key.into(), Fate::Replied { rcode, latency_ns });
            }
        } else if was_waiting {
            unanswered(self.reports.as_ref(), Fate::TimedOut)(found.query, key);
            self.live.timed_out(1);
        }
        self.tally.outstanding.add(found.due_ns, at_ns.min(found.due_ns.saturating_add(self.timeout_ns)));
        self.book(checked, at_ns, latency_ns, message.len());
        matches!(checked, Checked::Correct { .. }).then_some(latency_ns)
    }

    /// Books that a connection was made at `at_ns`, for which the query with this key stood.
    pub fn established(&mut self, flow: usize, key: T::Key, at_ns: u64) {
        let flow = &mut self.flows[flow];
        let is_open = |found: &Outstanding| matches!(found.state, State::Waiting | State::Overdue);
        let Some(found) = flow.table.find(key).filter(is_open) else { return };
        let latency_ns = at_ns.saturating_sub(found.due_ns);
        if flow.table.settle(key) {
            self.waiting -= 1;
        }
        self.unsettled -= 1;
        self.tally.outstanding.add(found.due_ns, at_ns.min(found.due_ns.saturating_add(self.timeout_ns)));
        if latency_ns <= self.timeout_ns {
            self.tally.replies.add(at_ns, latency_ns, 0);
            self.tally.in_time(at_ns, latency_ns);
            self.live.latency(latency_ns);
        } else {
            self.tally.late(latency_ns);
        }
    }

    /// Records what a reply in time shows about answers that the subject holds back.
    #[inline]
    fn note(&mut self, checked: Checked, position: Position, query: &Query<'_>, bytes: usize) {
        let held_back = &mut self.tally.held_back;
        match checked {
            Checked::Correct { rcode, extent: Extent::Whole } => {
                held_back.whole(position, query, rcode, bytes);
            }
            Checked::Correct { rcode, extent: Extent::Bare } => held_back.bare(position, rcode),
            Checked::Wrong(Cause::Rcode { got: rcode::REFUSED, .. }) => held_back.refused(position),
            Checked::Correct { extent: Extent::Partial, .. } | Checked::Wrong(_) => {}
        }
    }

    /// Counts a connection that is begun.
    pub(crate) fn connecting(&self) {
        self.live.connecting();
    }

    /// Counts a connection that was made, and how long it took.
    pub(crate) fn connected(&self, took_ns: u64) {
        self.live.connected(took_ns);
    }

    /// Publishes the counts of the thread's connections.
    pub(crate) fn publish_connections(&self, counts: &ConnectionCounts) {
        self.live.connections(counts);
    }

    /// Counts messages that answer nothing: those from another address than the target, and empty ones.
    pub fn answers_nothing(&mut self, count: u64) {
        self.tally.accounts.unsolicited += count;
    }

    #[inline]
    fn book(&mut self, checked: Checked, at_ns: u64, latency_ns: u64, bytes: usize) {
        match checked {
            Checked::Wrong(cause) => self.tally.wrong(cause),
            Checked::Correct { rcode, extent } if latency_ns <= self.timeout_ns => {
                self.tally.correct(at_ns, latency_ns, rcode, extent != Extent::Whole, bytes);
                self.live.latency(latency_ns);
            }
            Checked::Correct { .. } => self.tally.late(latency_ns),
        }
    }

    /// Settles unanswered queries by time. Every flow was read at `read_ns` or later. Of more than 4,096 flows it
    /// advances as many, in turn.
    pub fn expire(&mut self, read_ns: u64) {
        while self.broken_until_ns.peek().is_some_and(|until_ns| until_ns.0 <= read_ns) {
            self.broken_until_ns.pop();
            self.waiting -= 1;
        }
        let count = self.flows.len();
        for _ in 0..count.min(EXPIRED_AT_ONCE) {
            self.expire_flow(self.next_to_expire, read_ns);
            self.next_to_expire = if self.next_to_expire + 1 == count { 0 } else { self.next_to_expire + 1 };
        }
    }

    /// Notes at `now_ns` that the thread stood still for `for_ns`. A query whose time of leaving was taken before may have
    /// left only now. If the standstill was longer than the timeout, such a query is not lost before timeout and drain have
    /// passed once more.
    #[cold]
    pub fn stood_still(&mut self, now_ns: u64, for_ns: u64) {
        if for_ns <= self.timeout_ns {
            return;
        }
        let Standstill { since_ns, until_ns } = self.standstill;
        // A query that was due earlier left later than its timeout, which its flow knows.
        let due_ns = now_ns.saturating_sub(for_ns).saturating_sub(self.timeout_ns);
        self.standstill = Standstill {
            since_ns: if now_ns < until_ns { since_ns.min(due_ns) } else { due_ns },
            until_ns: now_ns.saturating_add(self.settle_ns),
        };
    }

    /// The time before which a query of this flow was due that is lost without a reply, if every flow was read at `read_ns`
    /// or later.
    #[inline]
    pub fn lost_before_ns(&self, flow: usize, read_ns: u64) -> u64 {
        let lost_ns = read_ns.saturating_sub(self.settle_ns);
        if read_ns < self.flows[flow].held_until_ns {
            0
        } else if read_ns < self.standstill.until_ns {
            lost_ns.min(self.standstill.since_ns)
        } else {
            lost_ns
        }
    }

    #[inline]
    fn expire_flow(&mut self, flow: usize, read_ns: u64) {
        let overdue_ns = read_ns.saturating_sub(self.timeout_ns);
        let lost_ns = self.lost_before_ns(flow, read_ns);
        let table = &mut self.flows[flow].table;
        let each_lost = |query, due_ns: u64| {
            self.tally.outstanding.add(due_ns, due_ns.saturating_add(self.timeout_ns));
            self.tally.lost_one(query, self.dataset.expected(query));
        };
        let each_overdue = unanswered(self.reports.as_ref(), Fate::TimedOut);
        let expired = table.expire(overdue_ns, lost_ns, each_overdue, each_lost);
        self.waiting -= expired.overdue;
        self.unsettled -= expired.lost;
        self.live.timed_out(expired.overdue);
        self.tally.lost(Loss::Time, self.timeout_ns, expired.lost);
    }

    /// Books the breaking of a flow at `now_ns`: every unsettled query of it is lost. As with any loss, its latency
    /// counts as the timeout, and until then the query holds its place in the window.
    pub fn broken(&mut self, flow: usize, loss: Loss, now_ns: u64) {
        let (timeout_ns, held_before) = (self.timeout_ns, self.broken_until_ns.len());
        let each_lost = |query, due_ns: u64| {
            self.tally.lost_one(query, self.dataset.expected(query));
            let until_ns = due_ns.saturating_add(timeout_ns);
            self.tally.outstanding.add(due_ns, until_ns);
            if until_ns > now_ns {
                self.broken_until_ns.push(Reverse(until_ns));
            }
        };
        let each_overdue = unanswered(self.reports.as_ref(), self.fate_at_end);
        let expired = self.flows[flow].table.expire(u64::MAX, u64::MAX, each_overdue, each_lost);
        self.flows[flow].table.renew();
        let held = (self.broken_until_ns.len() - held_before) as u64;
        self.waiting -= expired.overdue - held;
        self.unsettled -= expired.lost;
        if self.fate_at_end == Fate::TimedOut {
            self.live.timed_out(expired.overdue);
        }
        self.tally.lost(loss, self.timeout_ns, expired.lost);
    }

    /// Books that one query of a flow is lost at `now_ns`, for another cause than time. Like the queries of a flow that
    /// breaks, it holds its place in the window until its timeout. Does nothing if the query is settled already.
    pub fn lost(&mut self, flow: usize, key: T::Key, loss: Loss, now_ns: u64) {
        let table = &mut self.flows[flow].table;
        let is_open = |found: &Outstanding| matches!(found.state, State::Waiting | State::Overdue);
        let Some(found) = table.find(key).filter(is_open) else { return };
        let until_ns = found.due_ns.saturating_add(self.timeout_ns);
        if table.lose(key) {
            unanswered(self.reports.as_ref(), Fate::TimedOut)(found.query, key);
            self.live.timed_out(1);
            if until_ns > now_ns {
                self.broken_until_ns.push(Reverse(until_ns));
            } else {
                self.waiting -= 1;
            }
        }
        self.unsettled -= 1;
        self.tally.outstanding.add(found.due_ns, until_ns);
        self.tally.lost_one(found.query, self.dataset.expected(found.query));
        self.tally.lost(loss, self.timeout_ns, 1);
    }

    /// Books at `now_ns` that a query never left, although it waited for its device, and why not. Its time may have run
    /// out meanwhile. If it is lost already, it stays so, and counts as sent.
    #[cold]
    pub fn never_sent(&mut self, flow: usize, errno: i32, due: &Due<T::Key>, now_ns: u64) {
        let table = &mut self.flows[flow].table;
        match table.find(due.key).map(|found| found.state) {
            Some(State::Waiting) => self.refused(flow, errno, std::slice::from_ref(due)),
            Some(State::Overdue) => {
                table.lose(due.key);
                self.unsettled -= 1;
                self.tally.refused(errno, 1);
            }
            _ => self.sent(flow, now_ns, std::slice::from_ref(due)),
        }
    }

    /// Queries that may still be answered in time. Those of flows that broke are lost already, though they hold their
    /// places in the window until their timeouts.
    pub(super) fn outstanding(&self) -> u64 {
        self.waiting - self.broken_until_ns.len() as u64
    }

    /// Notes that the user ends the trial at once: a query that still waits is lost for that reason.
    pub fn interrupted(&mut self) {
        self.fate_at_end = Fate::Interrupted;
        self.live.interrupted(self.outstanding());
    }

    /// Ends the trial at `now_ns`: every unsettled query is lost.
    pub fn end(&mut self, now_ns: u64) {
        self.tally.outstanding.end(now_ns, self.broken_until_ns.iter().map(|until_ns| until_ns.0));
        self.waiting -= self.broken_until_ns.len() as u64;
        self.broken_until_ns.clear();
        self.tally.cut_short += self.waiting;
        for flow in 0..self.flows.len() {
            self.broken(flow, Loss::Time, u64::MAX);
        }
        self.live.publish(&self.tally, self.outstanding());
    }
}

/// Returns a callback that reports this fate for a query that has had no reply.
fn unanswered<K: Into<u64>>(reports: Option<&Reports>, fate: Fate) -> impl FnMut(Position, K) + '_ {
    move |query, key| {
        if let Some(reports) = reports {
            reports.report(query, key.into(), fate);
        }
    }
}
