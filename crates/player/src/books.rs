//! The books of a sending thread: the outstanding queries of its flows, and the fate of each query. A flow is what
//! queries share on their way: a UDP socket, a connection, or a set of streams. The books do not know the wire. They
//! match a reply by the key that the flow's table gave the query, such as its ID.
//!
//! A query has one of three fates. A reply settles it, its time runs out, or its flow breaks.
//!
//! All times are nanoseconds since the trial's common start.

mod fates;
mod flow;
mod given_up;
mod seats;
mod table;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use kqps_dataset::{Dataset, Position};

use crate::live::ThreadLive;
use crate::per_query::Labels;
use crate::plan::{BURST_MOST, MomentsPlan};
use crate::replay::cursor::ReplayQuery;
use crate::replay::flows::ANY;
use crate::reports::{Fate, Reports};
use crate::supply::Supply;
use crate::tally::Tally;
use flow::Flow;
use seats::Seats;

pub(crate) use seats::Start;
pub use table::{Expired, Outstanding, State, Table};

/// Room for the longest record of a reply in canonical form, in bytes: owner, type, class and data, with all compressed
/// names expanded.
const SCRATCH_BYTES: usize = 1 << 17;

/// The outstanding queries of one thread, and its counts.
pub struct Books<'a, T> {
    /// Queries of all flows whose timeout has not passed.
    waiting: u64,
    /// Queries of all flows whose fate is open.
    unsettled: u64,
    timeout_ns: u64,
    /// A query without a reply is lost this long after it was due. Its key may then be used again.
    settle_ns: u64,
    flows: Box<[Flow<T>]>,
    standstill: Standstill,
    /// A flow takes no more queries while it has this many whose fate is open.
    unsettled_most: u32,
    /// The timeouts of queries that were lost before them. Until then they count as waiting, so that a subject which
    /// breaks its flows does not make a closed loop faster.
    broken_until_ns: BinaryHeap<Reverse<u64>>,
    /// Flows whose numbers differ in so many lower bits share a path, such as a socket. A burst of a capture's queries
    /// may be of all of them.
    path_bits: u32,
    /// The origins of the queries in the last burst, if they are those of a capture.
    origins: Vec<Origin>,
    /// The flows of the places of a capture; `None` unless connections begin and end as captured.
    seats: Option<Seats>,
    /// The flow whose turn is next, to send and to expire.
    next_flow: usize,
    next_to_expire: usize,
    dataset: &'a Dataset,
    /// A buffer for checking replies, so that a check allocates nothing.
    scratch: Vec<u8>,
    /// The random labels of each query, and room for a query with them.
    labels: Option<Labels>,
    asked: Vec<u8>,
    /// Where fates are reported, and what becomes of a query that is still open at the end.
    reports: Option<Reports>,
    fate_at_end: Fate,
    /// The thread's counts. See [`Tally`].
    pub tally: Tally,
    live: &'a ThreadLive,
    /// Correct replies that came while the thread sent, if the time ended before the queries.
    correct_in_time: Option<u64>,
    /// The number of replies when they were last published, and the mean time between two replies before that.
    replies_published: u64,
    reply_gap_ns: u64,
}

/// The thread's last standstill, during which queries may have left later than the time taken for them.
#[derive(Clone, Copy, Debug, Default)]
struct Standstill {
    /// Queries due before this time had left.
    since_ns: u64,
    /// The others are not lost before this time.
    until_ns: u64,
}

/// Where a query of a capture comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Its flow.
    pub(crate) flow: usize,
    /// The number of its client.
    pub(crate) client: u32,
    /// How it stands to the connection there.
    pub(crate) start: Start,
    /// How long its connection stays open after its reply, if it is the last query on it; `u64::MAX` for ever.
    pub(crate) idle_ns: Option<u64>,
}

/// A query to be sent, with its key.
#[derive(Clone, Copy, Debug)]
pub struct Due<K = u16> {
    /// Its position in the dataset.
    pub query: Position,
    /// When it is due, nanoseconds since the start.
    pub due_ns: u64,
    /// The key by which the reply will be known. Over UDP it is the ID, which is written into the query.
    pub key: K,
    /// Its length in bytes.
    pub bytes: u16,
}

// Bursts of these pass through the caches at every rate.
const _: () = assert!(size_of::<Due>() == 16);

/// The times of the books, nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// A reply that comes more than this after its query was due is late.
    pub timeout_ns: u64,
    /// A query without a reply is lost after this time.
    pub settle_ns: u64,
    /// The interval at which the thread publishes its counts.
    pub tick_ns: u64,
}

impl<'a, T: Table> Books<'a, T> {
    /// Books without queries, with a table for each flow.
    pub fn new(
        dataset: &'a Dataset,
        tables: impl Iterator<Item = T>,
        times: Times,
        live: &'a ThreadLive,
    ) -> Self {
        Self {
            waiting: 0,
            unsettled: 0,
            timeout_ns: times.timeout_ns,
            settle_ns: times.settle_ns,
            flows: tables.map(Flow::new).collect(),
            standstill: Standstill::default(),
            unsettled_most: u32::MAX,
            broken_until_ns: BinaryHeap::new(),
            path_bits: 0,
            origins: Vec::with_capacity(BURST_MOST),
            seats: None,
            next_flow: 0,
            next_to_expire: 0,
            dataset,
            scratch: Vec::with_capacity(SCRATCH_BYTES),
            labels: None,
            asked: Vec::new(),
            reports: None,
            fate_at_end: Fate::TimedOut,
            tally: Tally::new(dataset),
            live,
            correct_in_time: None,
            replies_published: 0,
            reply_gap_ns: times.tick_ns,
        }
    }

    /// Queries of all flows whose timeout has not passed.
    #[inline]
    pub fn waiting(&self) -> u64 {
        self.waiting
    }

    /// The number of flows.
    #[inline]
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Queries of a flow whose timeout has not passed.
    #[inline]
    pub fn waiting_of(&self, flow: usize) -> u32 {
        self.flows[flow].table.waiting()
    }

    /// Queries of a flow whose fate is open.
    #[inline]
    pub fn unsettled_of(&self, flow: usize) -> u32 {
        self.flows[flow].table.unsettled()
    }

    /// How many places the table of a flow has, a power of two. In a replay it may become more.
    #[inline]
    pub fn slots_of(&self, flow: usize) -> usize {
        self.flows[flow].table.slots()
    }

    /// Limits how many queries of a flow may be unsettled.
    pub fn limit_unsettled(&mut self, most: u32) {
        self.unsettled_most = most;
    }

    /// Sets how many flows share a path, a power of two.
    pub(crate) fn share_paths(&mut self, together: usize) {
        self.path_bits = together.trailing_zeros();
    }

    /// Lets the connections of this many places of a capture begin as they did. The flows beyond are spare.
    pub(crate) fn seat(&mut self, places: usize) {
        self.seats = Some(Seats::new(places, self.flows.len()));
    }

    /// Checks replies by the random labels that each query has.
    pub(crate) fn expect_labels(&mut self, labels: Option<Labels>) {
        self.labels = labels;
    }

    /// Keeps the moments of the load, which lasts for so long if that is known.
    pub(crate) fn keep_moments(&mut self, plan: MomentsPlan, lasts: Option<Duration>) {
        self.tally.timeline.keep_moments(plan, lasts);
    }

    /// Reports the fates of queries.
    pub(crate) fn report_to(&mut self, reports: Option<Reports>) {
        self.reports = reports;
    }

    /// Notes that a flow has neither a connection nor an open query.
    pub(crate) fn emptied(&mut self, flow: usize) {
        if let Some(seats) = &mut self.seats {
            seats.emptied(flow);
        }
    }

    /// Where each query of the last burst comes from; empty unless the queries are a capture.
    #[inline]
    pub(crate) fn origins(&self) -> &[Origin] {
        &self.origins
    }

    /// Notes that the next query of a flow without open ones begins a connection: no reply to an earlier query can
    /// come.
    pub(crate) fn renew(&mut self, flow: usize) {
        self.flows[flow].table.renew();
    }

    /// Sets how many more queries a flow takes; `u32::MAX` for any number.
    pub fn allow(&mut self, flow: usize, left: u32) {
        self.flows[flow].left = left;
    }

    /// How many more queries a flow takes.
    #[inline]
    pub fn left_of(&self, flow: usize) -> u32 {
        self.flows[flow].left
    }

    /// Sets whether a flow takes no queries for now, whatever room it has.
    #[inline]
    pub fn block(&mut self, flow: usize, is_blocked: bool) {
        self.flows[flow].is_blocked = is_blocked;
    }

    #[inline]
    fn has_room(&self, flow: usize) -> bool {
        let Flow { table, left, is_blocked, .. } = &self.flows[flow];
        !is_blocked && !table.is_full() && *left > 0 && table.unsettled() < self.unsettled_most
    }

    /// The flow whose turn it is to send.
    #[inline]
    pub fn next_flow(&self) -> usize {
        self.next_flow
    }

    /// Whether the fate of every query is settled.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.unsettled == 0
    }

    /// Takes at most `most` due queries for one flow, and returns the number of the flow. Clears `burst` first, and
    /// leaves it empty if nothing is due.
    #[inline]
    pub fn deal(
        &mut self,
        supply: &mut Supply<'_>,
        now_ns: u64,
        most: usize,
        burst: &mut Vec<Due<T::Key>>,
    ) -> usize {
        burst.clear();
        // First the queries that the thread reaches too late. They are the player's fault, whatever the window allowed.
        let too_late_ns = supply.too_late_ns(now_ns);
        if supply.is_due_before(too_late_ns) {
            self.give_up(supply, too_late_ns);
        }
        if supply.is_held_back(self.waiting) {
            self.tally.unsent_for_window += self.give_up(supply, now_ns + 1);
            return self.next_flow;
        }
        if supply.is_captured() {
            return self.deal_captured(supply, now_ns, most, burst);
        }
        let flow = self.flow_with_room();
        if !self.has_room(flow) {
            // In a closed loop replies will make room. An open loop does not wait for them.
            self.tally.unsent_for_ids += self.give_up(supply, now_ns + 1);
            return flow;
        }
        let room = supply.room(self.waiting, most);
        while (burst.len() as u64) < room
            && !supply.is_played(now_ns)
            && self.has_room(flow)
            && !supply.is_due_before(too_late_ns)
        {
            let Some((query, due_ns)) = supply.take(now_ns) else { break };
            burst.push(self.issue(flow, query, due_ns));
        }
        flow
    }

    /// Takes at most `most` due queries of a capture, whose flows share a path, and returns the first of the flows. A
    /// query that begins a connection is the first of its burst, and one that ends it the last. In an open loop a query
    /// whose flow has no room is given up, since it can go nowhere else.
    #[inline]
    fn deal_captured(
        &mut self,
        supply: &mut Supply<'_>,
        now_ns: u64,
        most: usize,
        burst: &mut Vec<Due<T::Key>>,
    ) -> usize {
        self.origins.clear();
        let (room, too_late_ns) = (supply.room(self.waiting, most), supply.too_late_ns(now_ns));
        let mut first = self.next_flow;
        while (burst.len() as u64) < room && !supply.is_played(now_ns) && !supply.is_due_before(too_late_ns) {
            let Some(asked) = supply.next_captured(now_ns) else { break };
            let (flow, start) = self.flow_for(&asked);
            let is_apart = start != Start::Follows || flow >> self.path_bits != first >> self.path_bits;
            if !burst.is_empty() && is_apart {
                break;
            }
            let has_room = self.has_room(flow) || (asked.flow != ANY && self.make_room(flow));
            if !has_room && !supply.is_open() {
                break;
            }
            if !has_room && asked.flow == ANY {
                // No other flow has room either, and a look at each of them for each query would take too long.
                if burst.is_empty() {
                    self.tally.unsent_for_ids += self.give_up(supply, now_ns + 1);
                }
                break;
            }
            supply.take_captured();
            if !has_room {
                self.no_room(asked.due_ns);
                continue;
            }
            first = if burst.is_empty() { flow } else { first };
            burst.push(self.issue(flow, asked.query, asked.due_ns));
            self.flows[flow].was_used = true;
            let ReplayQuery { client, connection, idle_ns, .. } = asked;
            if let Some(seats) = &mut self.seats {
                seats.take(asked.flow as usize, connection, (flow, start));
            }
            self.origins.push(Origin { flow, client, start, idle_ns });
            if idle_ns.is_some() {
                break;
            }
        }
        self.next_flow = if first + 1 >= self.flows.len() { 0 } else { first + 1 };
        first
    }

    /// The flow for a query of a capture, and how the query stands to the connection there.
    #[inline]
    fn flow_for(&mut self, asked: &ReplayQuery) -> (usize, Start) {
        if asked.flow == ANY {
            return (self.flow_with_room(), Start::Follows);
        }
        let flow = asked.flow as usize;
        let is_busy = |flow: usize| self.flows[flow].table.unsettled() > 0;
        self.seats
            .as_ref()
            .map_or((flow, Start::Follows), |seats| seats.find(flow, asked.connection, is_busy))
    }

    /// Makes room at a flow whose table is full, if there are more keys: a query of a capture can go nowhere else, and
    /// few clients send most queries. Returns whether there is room.
    #[cold]
    fn make_room(&mut self, flow: usize) -> bool {
        let Flow { table, left, is_blocked, .. } = &mut self.flows[flow];
        let takes_more = !*is_blocked && *left > 0 && table.unsettled() < self.unsettled_most;
        takes_more && table.is_full() && table.grow()
    }

    /// Books an intended query as outstanding.
    #[inline]
    fn issue(&mut self, flow: usize, query: Position, due_ns: u64) -> Due<T::Key> {
        self.tally.accounts.intended += 1;
        self.tally.timeline.intended(due_ns, 1);
        let of_query = &mut self.flows[flow];
        let key = of_query.table.issue(due_ns, query);
        of_query.left -= u32::from(of_query.left != u32::MAX);
        self.waiting += 1;
        self.unsettled += 1;
        let bytes = self.dataset.query(query).message.len() as u16;
        Due { query, due_ns, key, bytes }
    }

    /// The next flow that has room; a full flow if none has any.
    #[inline]
    fn flow_with_room(&mut self) -> usize {
        let count = self.flows.len();
        let mut flow = self.next_flow;
        for _ in 1..count {
            if self.has_room(flow) {
                break;
            }
            flow = (flow + 1) % count;
        }
        self.next_flow = if flow + 1 == count { 0 } else { flow + 1 };
        flow
    }

    /// Records that the kernel accepted these queries at `now_ns`.
    #[inline]
    pub fn sent(&mut self, flow: usize, now_ns: u64, burst: &[Due<T::Key>]) {
        self.tally.sent(now_ns, burst.len() as u64);
        for due in burst {
            self.tally.request_bytes += u64::from(due.bytes);
            let lag_ns = now_ns - due.due_ns;
            self.tally.lag.record_us(lag_ns / 1000);
            self.tally.timeline.sent(due.due_ns, lag_ns / 1000);
            if lag_ns > self.timeout_ns {
                self.flows[flow].held_until_ns = now_ns + self.settle_ns;
            }
        }
        self.live.sent(&self.tally);
    }

    /// Records that the kernel refused these queries.
    pub fn refused(&mut self, flow: usize, errno: i32, burst: &[Due<T::Key>]) {
        for due in burst {
            self.flows[flow].table.take_back(due.key);
        }
        self.waiting -= burst.len() as u64;
        self.unsettled -= burst.len() as u64;
        self.tally.refused(errno, burst.len() as u64);
    }

    /// Records that the thread sends nothing more. The load ends at `end_ns`; it is `None` if the queries end it.
    pub fn sending_ended(&mut self, end_ns: Option<u64>) {
        self.live.sent_all();
        self.correct_in_time = end_ns.map(|_| self.tally.accounts.correct);
        if let Some(end_ns) = end_ns {
            self.tally.outstanding.end(end_ns, self.broken_until_ns.iter().map(|until_ns| until_ns.0));
        }
    }

    /// Correct replies that came while the thread sent; all of them if the queries ended before the time did.
    pub fn correct_in_time(&self) -> u64 {
        self.correct_in_time.unwrap_or(self.tally.accounts.correct)
    }

    /// Publishes the counts, `since_ns` nanoseconds after the last time.
    pub fn publish(&mut self, since_ns: u64) {
        let accounts = &self.tally.accounts;
        let replies = accounts.correct + accounts.wrong + accounts.late;
        self.reply_gap_ns = since_ns / (replies - self.replies_published).max(1);
        self.replies_published = replies;
        self.live.publish(&self.tally, self.outstanding());
    }

    /// The mean time between two replies lately, nanoseconds.
    pub fn reply_gap_ns(&self) -> u64 {
        self.reply_gap_ns
    }
}
