//! What a sending thread works on, whatever its I/O: the queries that are due, the sockets' outstanding
//! queries, the counts. A loop of [`crate::io`] asks it what to send and through which socket, tells it what the kernel
//! did and what arrived, and asks it how long it may sleep.
//!
//! All times are nanoseconds since the trial's common start, on the monotonic clock.

use kqps_dataset::{Dataset, Position, Query};
use kqps_kernel::clock;
use kqps_message::header::Header;

use crate::inflight::{Inflight, State};
use crate::live::ThreadLive;
use crate::pace::{Pace, Standing};
use crate::part::Part;
use crate::reply::{Checked, check};
use crate::tally::Tally;

/// How often time is let go by: timeouts, the wall clock's offset, a look at every socket.
const TICK_NS: u64 = 1_000_000;

/// At every so many ticks the sockets without outstanding queries are looked at too: a duplicate or a
/// stranger's reply may lie there.
const TICKS_PER_ROUND: u64 = 64;

/// A socket that sent within this time is looked at in every turn; others at ticks. Replies carry the
/// kernel's time of arrival, so that looking later costs no accuracy.
const FRESH_NS: u64 = 2_000_000;

/// One thread's state.
pub struct Deck<'a> {
    dataset: &'a Dataset,
    /// This thread's part of the dataset, and where it stands in it.
    part: Part,
    pace: Pace,
    /// When to stop sending.
    stop_at_ns: u64,
    /// For how long queries were sent.
    played_ns: u64,
    timeout_ns: u64,
    /// After this, a query that was not answered is lost, and its ID may be used again.
    settle_ns: u64,
    lag_allowed_ns: u64,
    /// Added to the monotonic clock to make times since the start.
    start_ns: u64,
    realtime_offset_ns: i64,
    next_tick_ns: u64,
    ticks: u64,
    /// Replies until the last tick, and the mean time between two of them before it.
    replies_at_tick: u64,
    reply_gap_ns: u64,
    sockets: Box<[Flow]>,
    next_socket: usize,
    last_send_ns: u64,
    /// Queries of all sockets whose timeout has not gone by.
    waiting: u64,
    /// The counts.
    pub tally: Tally,
    live: &'a ThreadLive,
}

/// A socket's outstanding queries, and when it was last used.
struct Flow {
    inflight: Inflight,
    last_send_ns: u64,
}

/// A query to be sent: where it stands, when it is due, and the ID and socket that it was given.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    /// Where it stands in the dataset.
    pub query: Position,
    /// When it is due.
    pub due_ns: u64,
    /// The ID to put into it.
    pub id: u16,
    /// Its length in bytes.
    pub bytes: u16,
}

/// What a thread is given.
pub struct Setting<'a> {
    /// What is played.
    pub dataset: &'a Dataset,
    /// Which part of it.
    pub part: Part,
    /// How fast.
    pub pace: Pace,
    /// When to stop sending, after the start.
    pub stop_at_ns: u64,
    /// A reply is late after this.
    pub timeout_ns: u64,
    /// A query's fate is settled after this.
    pub settle_ns: u64,
    /// A query is given up after this.
    pub lag_allowed_ns: u64,
    /// Outstanding queries that each socket has room for: a power of two.
    pub capacity: usize,
    /// Sockets of this thread.
    pub sockets: usize,
    /// Where progress is published.
    pub live: &'a ThreadLive,
}

impl<'a> Deck<'a> {
    /// A deck before its start.
    pub fn new(setting: Setting<'a>) -> Self {
        let flow = || Flow { inflight: Inflight::new(setting.capacity, fastrand::u16(..)), last_send_ns: 0 };
        Self {
            dataset: setting.dataset,
            part: setting.part,
            pace: setting.pace,
            stop_at_ns: setting.stop_at_ns,
            played_ns: 0,
            timeout_ns: setting.timeout_ns,
            settle_ns: setting.settle_ns,
            lag_allowed_ns: setting.lag_allowed_ns,
            start_ns: 0,
            realtime_offset_ns: clock::realtime_offset_ns(),
            next_tick_ns: 0,
            ticks: 0,
            replies_at_tick: 0,
            reply_gap_ns: TICK_NS,
            sockets: (0..setting.sockets).map(|_| flow()).collect(),
            next_socket: 0,
            last_send_ns: 0,
            waiting: 0,
            tally: Tally::default(),
            live: setting.live,
        }
    }

    /// Begins at the common start, `start_ns` on the monotonic clock, and sleeps until then. Everything that
    /// takes time, memory above all, is to be had before.
    pub fn begin(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
        self.sleep_until_ns(0);
    }

    /// The time now.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        clock::now_ns().saturating_sub(self.start_ns)
    }

    /// Sleeps until a time since the start.
    pub fn sleep_until_ns(&self, at_ns: u64) {
        clock::sleep_until_ns(self.start_ns + at_ns);
    }

    /// The query at a position.
    #[inline]
    pub fn query(&self, position: Position) -> Query<'a> {
        self.dataset.query(position)
    }

    /// Whether nothing more is to be sent.
    #[inline]
    pub fn is_played(&self, now_ns: u64) -> bool {
        self.part.is_over() || self.pace.is_played(now_ns, self.stop_at_ns)
    }

    /// Stops sending: what is due later than `now_ns` is not intended.
    pub fn stop(&mut self, now_ns: u64) {
        self.stop_at_ns = self.stop_at_ns.min(now_ns);
    }

    /// Notes that nothing more is to be sent, at `now_ns`: a schedule that was played to its end was played
    /// for its whole time, even if the last query fell due a little earlier.
    pub fn played(&mut self, now_ns: u64) {
        let by_time = !self.part.is_over() && self.stop_at_ns != u64::MAX;
        self.played_ns = if by_time { self.stop_at_ns } else { now_ns };
    }

    /// For how long queries were sent.
    pub fn played_ns(&self) -> u64 {
        self.played_ns
    }

    /// Whether a burst of at most `most` queries is to leave now.
    #[inline]
    pub fn is_due(&self, now_ns: u64, most: usize) -> bool {
        let standing = Standing { now_ns, waiting: self.waiting, last_send_ns: self.last_send_ns };
        self.pace.is_due(standing, most) && !self.is_played(now_ns)
    }

    /// When an open loop's next burst is to leave; none in a closed loop.
    pub fn wake_at_ns(&self, most: usize) -> Option<u64> {
        self.pace.wake_at_ns(most)
    }

    /// In how long replies will have made room for a closed loop's next burst, at the pace of late; none in
    /// an open loop, and none where any single reply makes room.
    pub fn refill_ns(&self, most: usize) -> Option<u64> {
        let missing = self.pace.missing(self.waiting, most)?;
        Some(missing * self.reply_gap_ns)
    }

    /// The window of a closed loop.
    pub fn window(&self) -> Option<u64> {
        self.pace.window()
    }

    /// Takes what is due, at most `most` queries, all through one socket, whose number it gives. The burst is
    /// emptied first, and is empty when nothing is due.
    #[inline]
    pub fn deal(&mut self, now_ns: u64, most: usize, burst: &mut Vec<Due>) -> usize {
        burst.clear();
        let socket = self.next_socket;
        let room = self.pace.room(self.waiting, most);
        while (burst.len() as u64) < room && !self.is_played(now_ns) {
            let full = self.sockets[socket].inflight.is_full();
            if full && self.window().is_some() {
                break;
            }
            let Some(due_ns) = self.pace.take(now_ns) else { break };
            self.tally.accounts.intended += 1;
            let position = self.part.advance(self.dataset);
            if full || now_ns - due_ns > self.lag_allowed_ns {
                self.tally.accounts.unsent += 1;
                self.tally.unsent_for_ids += u64::from(full);
                continue;
            }
            let id = self.sockets[socket].inflight.issue(due_ns, position);
            self.waiting += 1;
            let bytes = self.dataset.query(position).message.len() as u16;
            burst.push(Due { query: position, due_ns, id, bytes });
        }
        self.next_socket = if socket + 1 == self.sockets.len() { 0 } else { socket + 1 };
        socket
    }

    /// The kernel took these queries, in a send that began at `now_ns`.
    #[inline]
    pub fn sent(&mut self, socket: usize, now_ns: u64, burst: &[Due]) {
        self.sockets[socket].last_send_ns = now_ns;
        self.last_send_ns = now_ns;
        self.tally.sent(now_ns, burst.len() as u64);
        for due in burst {
            self.tally.request_bytes += u64::from(due.bytes);
            self.tally.lag.record_us((now_ns - due.due_ns) / 1000);
        }
    }

    /// The kernel refused these queries.
    pub fn refused(&mut self, socket: usize, errno: i32, burst: &[Due]) {
        for due in burst {
            self.sockets[socket].inflight.take_back(due.id);
        }
        self.waiting -= burst.len() as u64;
        self.tally.refused(errno, burst.len() as u64);
    }

    /// A datagram arrived from the target, at `realtime_ns` by the kernel's stamp or else at `now_ns`.
    #[inline]
    pub fn arrived(&mut self, socket: usize, reply: &[u8], realtime_ns: Option<u64>, now_ns: u64) {
        let at_ns = realtime_ns.map_or(now_ns, |realtime_ns| self.since_start(realtime_ns));
        let Some(header) = Header::of(reply) else {
            self.tally.accounts.unsolicited += 1;
            return;
        };
        let id = header.id();
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
        let query = self.dataset.query(slot.query);
        let latency_ns = at_ns.saturating_sub(slot.due_ns);
        let checked = check(&query, header, reply);
        if flow.inflight.settle(id) {
            self.waiting -= 1;
        }
        self.book(checked, at_ns, latency_ns, reply.len());
    }

    /// Datagrams arrived from an address that was not asked.
    pub fn arrived_from_elsewhere(&mut self, count: u64) {
        self.tally.accounts.unsolicited += count;
    }

    #[inline]
    fn book(&mut self, checked: Checked, at_ns: u64, latency_ns: u64, bytes: usize) {
        let in_time = latency_ns <= self.timeout_ns;
        match checked {
            Checked::Correct { rcode, truncated } if in_time => {
                self.tally.correct(at_ns, latency_ns, rcode, truncated, bytes);
                self.live.latency(latency_ns);
            }
            Checked::Wrong(cause) if in_time => {
                self.tally.accounts.wrong += 1;
                self.tally.wrong_causes[cause as usize] += 1;
            }
            _ => {
                self.tally.accounts.late += 1;
                self.tally.latency.record_us(latency_ns / 1000);
            }
        }
    }

    /// Sockets to look at now, through `look`: those that sent lately and wait for replies; at a tick, all
    /// that have anything outstanding. Tells whether this was a tick.
    #[inline]
    pub fn for_each_awaited(&mut self, now_ns: u64, mut look: impl FnMut(&mut Self, usize)) -> bool {
        let tick = self.tick(now_ns);
        let count = self.sockets.len();
        for back in 1..=count {
            let socket = (self.next_socket + count - back) % count;
            let flow = &self.sockets[socket];
            if tick && (flow.inflight.unsettled() > 0 || self.ticks.is_multiple_of(TICKS_PER_ROUND)) {
                look(self, socket);
            } else if tick {
            } else if now_ns - flow.last_send_ns > FRESH_NS && self.window().is_none() {
                break;
            } else if flow.inflight.waiting() > 0 {
                look(self, socket);
            }
        }
        tick
    }

    /// Lets time go by, once a tick.
    #[inline]
    fn tick(&mut self, now_ns: u64) -> bool {
        if now_ns < self.next_tick_ns {
            return false;
        }
        let accounts = &self.tally.accounts;
        let replies = accounts.correct + accounts.wrong + accounts.late;
        let since_ns = now_ns + TICK_NS - self.next_tick_ns;
        self.reply_gap_ns = since_ns / (replies - self.replies_at_tick).max(1);
        self.replies_at_tick = replies;
        self.next_tick_ns = now_ns + TICK_NS;
        self.ticks += 1;
        self.realtime_offset_ns = clock::realtime_offset_ns();
        self.live.publish(&self.tally.accounts);
        let (overdue, lost) = (now_ns.saturating_sub(self.timeout_ns), now_ns.saturating_sub(self.settle_ns));
        for flow in &mut self.sockets {
            let expired = flow.inflight.expire(overdue, lost);
            self.waiting -= expired.overdue;
            self.tally.lost(self.timeout_ns, expired.lost);
        }
        true
    }

    /// Whether any query's fate is open.
    pub fn is_settled(&self) -> bool {
        self.sockets.iter().all(|flow| flow.inflight.unsettled() == 0)
    }

    /// Ends the trial: what is not settled is lost.
    pub fn end(&mut self) {
        for flow in &mut self.sockets {
            let lost = flow.inflight.end();
            self.tally.lost(self.timeout_ns, lost);
        }
        self.waiting = 0;
        self.live.publish(&self.tally.accounts);
    }

    #[inline]
    fn since_start(&self, realtime_ns: u64) -> u64 {
        let monotonic_ns = realtime_ns as i64 - self.realtime_offset_ns;
        (monotonic_ns - self.start_ns as i64).max(0) as u64
    }
}
