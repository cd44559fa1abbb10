//! The receiving half of the deck. It matches replies to outstanding queries, and settles the rest by time. A query never
//! times out before the player has read its socket. A reply that waited there while the player stalled carries the kernel's
//! time of arrival, and may be in time.

use kqps_dataset::{Position, Query};
use kqps_kernel::clock;
use kqps_message::{header, rcode};

use super::Deck;
use crate::inflight::State;
use crate::reply::{Cause, Checked, Extent, check};

/// The interval of ticks, nanoseconds. Each tick handles timeouts, updates the wall clock's offset, and starts a round of
/// looks at the sockets.
pub(super) const TICK_NS: u64 = 1_000_000;

/// Every 64th round also looks at the sockets without outstanding queries. They may hold a duplicate or a datagram from a
/// stranger.
const ROUNDS_PER_WHOLE: u64 = 64;

/// Sockets that an open loop reads before it sends again. With hundreds of sockets and a slow subject, a whole round takes
/// longer than a query may be late.
const LOOKS_MOST: usize = 4;

/// The player also looks between ticks at a socket that sent within `FRESH_NS`. An open loop does so only every `LOOK_NS`,
/// since each look costs CPU time and a later look finds more replies. Replies carry the kernel's time of arrival, so a
/// later look costs no accuracy.
const FRESH_NS: u64 = 2_000_000;
const LOOK_NS: u64 = 250_000;

/// A round of looks at the sockets, begun at a tick.
pub(super) struct Round {
    next: usize,
    /// The round skips sockets that were looked at after this time.
    since_ns: u64,
    /// Whether the round includes sockets without outstanding queries.
    everywhere: bool,
}

impl Deck<'_> {
    /// When a datagram arrived, since the start: `realtime_ns`, the kernel's timestamp, if there is one; otherwise
    /// `now_ns`.
    #[inline]
    pub fn arrival_ns(&self, realtime_ns: Option<u64>, now_ns: u64) -> u64 {
        let Some(realtime_ns) = realtime_ns else { return now_ns };
        let monotonic_ns = realtime_ns as i64 - self.realtime_offset_ns;
        (monotonic_ns - self.start_ns as i64).max(0) as u64
    }

    /// Books a datagram that arrived from the target at `at_ns`.
    #[inline]
    pub fn arrived(&mut self, socket: usize, reply: &[u8], at_ns: u64) {
        let Some(id) = header::id(reply) else {
            self.tally.accounts.unsolicited += 1;
            return;
        };
        let flow = &mut self.sockets[socket];
        let Some(slot) = flow.inflight.find(id) else {
            self.tally.accounts.unsolicited += 1;
            return;
        };
        match slot.state {
            State::Waiting | State::Overdue => (),
            State::Settled => {
                self.tally.accounts.duplicate += 1;
                return;
            }
            State::Lost | State::Free => {
                self.tally.accounts.unsolicited += 1;
                return;
            }
        }
        let position = slot.query;
        let query = self.dataset.query(position);
        let latency_ns = at_ns.saturating_sub(slot.due_ns);
        let checked = check(&query, reply, &mut self.scratch);
        if latency_ns > self.timeout_ns && matches!(checked, Checked::Wrong(_)) {
            // The reply answers another question, and is too late to count as wrong. The query stays open.
            self.tally.accounts.unsolicited += 1;
            self.tally.wrong_late += 1;
            return;
        }
        if flow.inflight.settle(id) {
            self.waiting -= 1;
        }
        if latency_ns <= self.timeout_ns {
            self.note(checked, position, &query, reply.len());
        }
        self.book(checked, at_ns, latency_ns, reply.len());
    }

    /// Records what a reply in time shows about answers that the subject holds back.
    #[inline]
    fn note(&mut self, checked: Checked, position: Position, query: &Query<'_>, bytes: usize) {
        let cuts = &mut self.tally.cuts;
        match checked {
            Checked::Correct { rcode, extent: Extent::Whole } => cuts.whole(position, query, rcode, bytes),
            Checked::Correct { rcode, extent: Extent::Bare } => cuts.bare(position, rcode),
            Checked::Wrong(Cause::Rcode { got: rcode::REFUSED, .. }) => cuts.refused(position),
            Checked::Correct { extent: Extent::Partial, .. } | Checked::Wrong(_) => {}
        }
    }

    /// Counts datagrams that answer nothing: those from another address than the target, and empty ones.
    pub fn answers_nothing(&mut self, count: u64) {
        self.tally.accounts.unsolicited += count;
    }

    #[inline]
    fn book(&mut self, checked: Checked, at_ns: u64, latency_ns: u64, bytes: usize) {
        self.tally.outstanding_us += latency_ns.min(self.timeout_ns) / 1000;
        match checked {
            Checked::Wrong(cause) => self.tally.wrong(cause),
            Checked::Correct { rcode, extent } if latency_ns <= self.timeout_ns => {
                self.tally.correct(at_ns, latency_ns, rcode, extent != Extent::Whole, bytes);
                self.live.latency(latency_ns);
            }
            Checked::Correct { .. } => {
                self.tally.accounts.late += 1;
                self.tally.latency.record_us(latency_ns / 1000);
            }
        }
    }

    /// Calls `look` for each socket that may hold replies now; `look` must read at least what has arrived so far. Those are
    /// the sockets that sent recently and wait for replies. At a tick, they are all sockets with outstanding queries that
    /// were not just looked at. An open loop reads a few sockets, sends what fell due meanwhile, and continues with the
    /// rest.
    #[inline]
    pub fn for_each_awaited(&mut self, now_ns: u64, mut look: impl FnMut(&mut Self, usize)) {
        // If each reply makes room, no look is too soon.
        let is_open = self.is_open() && !self.is_held_back();
        let looked_since_ns = if is_open { now_ns.saturating_sub(LOOK_NS) } else { now_ns };
        let mut looks_left = if is_open && self.all_sent_ns.is_none() { LOOKS_MOST } else { usize::MAX };
        if self.tick(now_ns) && (self.round.is_none() || self.last_look) {
            self.rounds += 1;
            let everywhere = self.last_look || self.rounds.is_multiple_of(ROUNDS_PER_WHOLE);
            self.round = Some(Round { next: 0, since_ns: looked_since_ns, everywhere });
        }
        if let Some(mut round) = self.round.take() {
            while round.next < self.sockets.len() {
                if looks_left == 0 {
                    self.round = Some(round);
                    return;
                }
                let socket = round.next;
                round.next += 1;
                let flow = &mut self.sockets[socket];
                if round.everywhere || (flow.inflight.unsettled() > 0 && flow.looked_ns <= round.since_ns) {
                    flow.looked_ns = now_ns;
                    looks_left -= 1;
                    look(self, socket);
                }
            }
            // Every socket was read since then.
            self.expire(round.since_ns);
            return;
        }
        let count = self.sockets.len();
        for back in 1..=count {
            let socket = (self.next_socket + count - back) % count;
            let flow = &mut self.sockets[socket];
            if looks_left == 0 || (is_open && now_ns.saturating_sub(flow.last_send_ns) > FRESH_NS) {
                break;
            }
            if flow.inflight.waiting() > 0 && flow.looked_ns <= looked_since_ns {
                flow.looked_ns = now_ns;
                looks_left -= 1;
                look(self, socket);
            }
        }
    }

    /// Whether a polling round is unfinished.
    pub fn is_looking(&self) -> bool {
        self.round.is_some()
    }

    /// Advances to `now_ns`, and returns whether this is a tick. At a tick the caller must read every socket with
    /// outstanding queries, and then call [`Self::expire`] with the time since which all were read.
    #[inline]
    pub fn tick(&mut self, now_ns: u64) -> bool {
        if now_ns < self.next_tick_ns && !self.last_look {
            return false;
        }
        let accounts = &self.tally.accounts;
        let replies = accounts.correct + accounts.wrong + accounts.late;
        let since_ns = (now_ns + TICK_NS).saturating_sub(self.next_tick_ns);
        self.reply_gap_ns = since_ns / (replies - self.replies_at_tick).max(1);
        self.replies_at_tick = replies;
        self.next_tick_ns = now_ns + TICK_NS;
        self.realtime_offset_ns = clock::realtime_offset_ns();
        self.live.publish(&self.tally.accounts, self.waiting);
        true
    }

    /// Settles unanswered queries by time. Every socket was read at `read_ns` or later.
    pub fn expire(&mut self, read_ns: u64) {
        let (overdue, lost) =
            (read_ns.saturating_sub(self.timeout_ns), read_ns.saturating_sub(self.settle_ns));
        for flow in &mut self.sockets {
            let lost = if read_ns < flow.held_until_ns { 0 } else { lost };
            let each_lost = |query| self.tally.lost_one(self.dataset.expected(query));
            let expired = flow.inflight.expire(overdue, lost, each_lost);
            self.waiting -= expired.overdue;
            self.tally.lost(self.timeout_ns, expired.lost);
        }
    }

    /// Whether the fate of every query is settled.
    pub fn is_settled(&self) -> bool {
        self.sockets.iter().all(|flow| flow.inflight.unsettled() == 0)
    }

    /// Makes the next look the last one, at every socket.
    pub fn look_for_the_last_time(&mut self) {
        self.last_look = true;
    }

    /// Ends the trial: every unsettled query is lost.
    pub fn end(&mut self) {
        self.tally.cut_short += self.waiting;
        for flow in &mut self.sockets {
            let each_lost = |query| self.tally.lost_one(self.dataset.expected(query));
            let lost = flow.inflight.end(each_lost);
            self.tally.lost(self.timeout_ns, lost);
        }
        self.waiting = 0;
        self.live.publish(&self.tally.accounts, self.waiting);
    }
}
