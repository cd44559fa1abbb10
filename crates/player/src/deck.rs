//! The state of a sending thread, for all I/O models: the queries that are due, the outstanding queries of its sockets, and
//! the counts. A loop of [`crate::io`] asks the deck what to send and through which socket. It passes on what the kernel
//! sent and received, and asks how long it may sleep.
//!
//! All times are nanoseconds since the trial's common start, on the monotonic clock.

use std::ops::RangeInclusive;

use kqps_dataset::{Dataset, Position, Query};
use kqps_kernel::clock;

use crate::inflight::Inflight;
use crate::live::ThreadLive;
use crate::pace::{Pace, Standing};
use crate::part::Part;
use crate::tally::Tally;

mod hearing;
#[cfg(test)]
pub(crate) mod tests;

use hearing::{Round, TICK_NS};

/// Room for the longest record of a reply in canonical form, in bytes: owner, type, class and data, with all compressed
/// names expanded.
const SCRATCH_BYTES: usize = 1 << 17;

/// The state of one sending thread: queries, outstanding queries and counts.
pub struct Deck<'a> {
    dataset: &'a Dataset,
    /// This thread's walk through the dataset.
    part: Part,
    pace: Pace,
    stop_at_ns: u64,
    /// A signal came: the thread sends nothing more.
    stopped: bool,
    /// For how long the thread sent, how many correct replies came in that time, and when it finished sending.
    played_ns: u64,
    correct_in_time: Option<u64>,
    all_sent_ns: Option<u64>,
    timeout_ns: u64,
    /// A query without a reply is lost this long after it was due. Its ID may then be used again.
    settle_ns: u64,
    lag_allowed_ns: u64,
    /// The start on the monotonic clock. Subtracted from its readings to get times since the start.
    start_ns: u64,
    realtime_offset_ns: i64,
    next_tick_ns: u64,
    /// The round of looks under way, and the number of rounds begun.
    round: Option<Round>,
    rounds: u64,
    /// The next look is the last, and covers every socket.
    last_look: bool,
    /// The number of replies at the last tick, and the mean time between two replies in the tick before it.
    replies_at_tick: u64,
    reply_gap_ns: u64,
    sockets: Box<[Flow]>,
    next_socket: usize,
    last_send_ns: u64,
    /// Queries of all sockets whose timeout has not passed.
    waiting: u64,
    /// A buffer for checking replies, so that a check allocates nothing.
    scratch: Vec<u8>,
    /// The thread's counts. See [`Tally`].
    pub tally: Tally,
    live: &'a ThreadLive,
}

/// The outstanding queries of a socket, and when it was last used.
struct Flow {
    inflight: Inflight,
    last_send_ns: u64,
    /// The last time at which the socket was known to hold no reply: it was read, or had no outstanding query.
    looked_ns: u64,
    /// Until this time no query of this socket is lost. A query left later than its timeout, and the player waits for its
    /// reply as long as for any other.
    held_until_ns: u64,
}

/// A query to be sent, with its ID.
#[derive(Clone, Copy, Debug)]
pub struct Due {
    /// Its position in the dataset.
    pub query: Position,
    /// When it is due, nanoseconds since the start.
    pub due_ns: u64,
    /// The ID to write into it.
    pub id: u16,
    /// Its length in bytes.
    pub bytes: u16,
}

/// What a thread needs to play its part.
pub struct Setting<'a> {
    /// The queries to play.
    pub dataset: &'a Dataset,
    /// This thread's walk through the dataset.
    pub part: Part,
    /// The schedule or window of this thread.
    pub pace: Pace,
    /// When to stop sending, nanoseconds since the start.
    pub stop_at_ns: u64,
    /// A reply that comes more than this after its query was due is late.
    pub timeout_ns: u64,
    /// A query without a reply is lost after this time.
    pub settle_ns: u64,
    /// The thread gives up a query that is late by more than this.
    pub lag_allowed_ns: u64,
    /// Outstanding queries that each socket has room for; a power of two, up to 65,536.
    pub capacity: usize,
    /// The number of this thread's sockets.
    pub sockets: usize,
    /// The counters in which the thread publishes its progress.
    pub live: &'a ThreadLive,
}

impl<'a> Deck<'a> {
    /// A deck that has not started.
    pub fn new(setting: Setting<'a>) -> Self {
        let flow = || Flow {
            inflight: Inflight::new(setting.capacity, fastrand::u16(..)),
            last_send_ns: 0,
            looked_ns: 0,
            held_until_ns: 0,
        };
        Self {
            dataset: setting.dataset,
            part: setting.part,
            pace: setting.pace,
            stop_at_ns: setting.stop_at_ns,
            stopped: false,
            played_ns: 0,
            correct_in_time: None,
            all_sent_ns: None,
            timeout_ns: setting.timeout_ns,
            settle_ns: setting.settle_ns,
            lag_allowed_ns: setting.lag_allowed_ns,
            start_ns: 0,
            realtime_offset_ns: clock::realtime_offset_ns(),
            next_tick_ns: 0,
            round: None,
            rounds: 0,
            last_look: false,
            replies_at_tick: 0,
            reply_gap_ns: TICK_NS,
            sockets: (0..setting.sockets).map(|_| flow()).collect(),
            next_socket: 0,
            last_send_ns: 0,
            waiting: 0,
            scratch: Vec::with_capacity(SCRATCH_BYTES),
            tally: Tally::of(setting.dataset),
            live: setting.live,
        }
    }

    /// Begins at the common start, `start_ns` on the monotonic clock, and sleeps until then. Allocate everything before
    /// this call.
    pub fn begin(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
        self.sleep_until_ns(0);
    }

    /// The current time.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.since_start_ns(clock::now_ns())
    }

    /// Converts a time since the start to the monotonic clock.
    #[inline]
    pub fn clock_ns(&self, at_ns: u64) -> u64 {
        self.start_ns + at_ns
    }

    /// Converts a time on the monotonic clock to a time since the start; 0 if it was before the start.
    #[inline]
    pub fn since_start_ns(&self, clock_ns: u64) -> u64 {
        clock_ns.saturating_sub(self.start_ns)
    }

    /// Sleeps until `at_ns` since the start.
    pub fn sleep_until_ns(&self, at_ns: u64) {
        clock::sleep_until_ns(self.clock_ns(at_ns));
    }

    /// The query at `position`.
    #[inline]
    pub fn query(&self, position: Position) -> Query<'a> {
        self.dataset.query(position)
    }

    /// Whether nothing more will be sent.
    #[inline]
    pub fn is_played(&self, now_ns: u64) -> bool {
        self.stopped || self.part.is_over() || self.pace.is_played(now_ns, self.stop_at_ns)
    }

    /// Stops sending at once, on a signal. Queries that the thread has not reached by `now_ns` are not intended.
    pub fn stop(&mut self, now_ns: u64) {
        self.stop_at_ns = self.stop_at_ns.min(now_ns);
        self.stopped = true;
    }

    /// Records that nothing more will be sent, at `now_ns`. A schedule that ran to its end lasted for its whole time, even
    /// if the last query was due a little earlier. A schedule that ended with the queries lasted until the next query would
    /// have been due.
    pub fn played(&mut self, now_ns: u64) {
        self.all_sent_ns = Some(now_ns);
        self.correct_in_time = (!self.part.is_over()).then_some(self.tally.accounts.correct);
        self.played_ns = if !self.part.is_over() && self.stop_at_ns != u64::MAX {
            self.stop_at_ns
        } else {
            self.pace.end_ns().map_or(now_ns, |end_ns| end_ns.max(self.last_send_ns))
        };
    }

    /// For how long the thread sent queries, nanoseconds.
    pub fn played_ns(&self) -> u64 {
        self.played_ns
    }

    /// Correct replies that came while the thread sent; all of them if the queries ended before the time did.
    pub fn correct_in_time(&self) -> u64 {
        self.correct_in_time.unwrap_or(self.tally.accounts.correct)
    }

    /// For how long the thread has waited for replies after sending, nanoseconds.
    pub fn drain_ns(&self) -> u64 {
        self.all_sent_ns.map_or(0, |all_sent_ns| self.now_ns().saturating_sub(all_sent_ns))
    }

    /// Whether a burst of at most `most` queries should leave now.
    #[inline]
    pub fn is_due(&self, now_ns: u64, most: usize) -> bool {
        if self.is_held_back() {
            // Nothing may leave, but the thread gives up what is due.
            return self.pace.is_due_before(now_ns + 1) && !self.is_played(now_ns);
        }
        let standing = Standing { now_ns, waiting: self.waiting, last_send_ns: self.last_send_ns };
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

    /// How long a thread may sleep while the window is full. A query that falls due in that time must not count as late.
    pub fn nap_most_ns(&self) -> u64 {
        self.lag_allowed_ns / 2
    }

    /// Decides when an open loop's next burst will leave, once its first query is due.
    pub fn leave_at(&mut self, at_ns: u64) {
        self.pace.leave_at(at_ns);
    }

    /// How long replies will take, at their recent rate, to make room for a closed loop's next burst. `None` in an open
    /// loop, and if any single reply makes room.
    pub fn refill_ns(&self, most: usize) -> Option<u64> {
        let missing = self.pace.missing(self.waiting, most)?;
        Some(missing * self.reply_gap_ns)
    }

    /// Whether a schedule decides when queries leave, rather than the subject's replies.
    pub fn is_open(&self) -> bool {
        self.pace.is_open()
    }

    /// Whether an open loop's window is full. Nothing then leaves before a reply or a timeout makes room, and the thread
    /// gives up what falls due until then.
    #[inline]
    pub fn is_held_back(&self) -> bool {
        self.pace.is_held_back(self.waiting)
    }

    /// Takes at most `most` due queries for one socket, and returns the number of the socket. Clears `burst` first, and
    /// leaves it empty if nothing is due.
    #[inline]
    pub fn deal(&mut self, now_ns: u64, most: usize, burst: &mut Vec<Due>) -> usize {
        burst.clear();
        // First the queries that the thread reaches too late. They are the player's fault, whatever the window allowed.
        let too_late_ns = now_ns.saturating_sub(self.lag_allowed_ns);
        if self.pace.is_due_before(too_late_ns) {
            self.give_up(too_late_ns);
        }
        if self.is_held_back() {
            self.tally.unsent_for_window += self.give_up(now_ns + 1);
            return self.next_socket;
        }
        let socket = self.socket_with_room();
        if self.sockets[socket].inflight.is_full() {
            // In a closed loop replies will make room. An open loop does not wait for them.
            self.tally.unsent_for_ids += self.give_up(now_ns + 1);
            return socket;
        }
        let flow = &mut self.sockets[socket];
        if flow.inflight.unsettled() == 0 {
            flow.looked_ns = now_ns;
        }
        let room = self.pace.room(self.waiting, most);
        while (burst.len() as u64) < room
            && !self.is_played(now_ns)
            && !self.sockets[socket].inflight.is_full()
            && !self.pace.is_due_before(too_late_ns)
        {
            let Some(due_ns) = self.pace.take(now_ns) else { break };
            self.tally.accounts.intended += 1;
            self.tally.course.intended(due_ns, 1);
            let position = self.part.advance(self.dataset);
            let id = self.sockets[socket].inflight.issue(due_ns, position);
            self.waiting += 1;
            let bytes = self.dataset.query(position).message.len() as u16;
            burst.push(Due { query: position, due_ns, id, bytes });
        }
        socket
    }

    /// The next socket that has a free ID; a full socket if none has one.
    #[inline]
    fn socket_with_room(&mut self) -> usize {
        let count = self.sockets.len();
        let mut socket = self.next_socket;
        for _ in 1..count {
            if !self.sockets[socket].inflight.is_full() {
                break;
            }
            socket = (socket + 1) % count;
        }
        self.next_socket = if socket + 1 == count { 0 } else { socket + 1 };
        socket
    }

    /// Gives up what was due before this time, and returns the number of queries. It does so all at once, since a stall can
    /// leave millions. With random arrivals it may leave some for the next call.
    #[cold]
    fn give_up(&mut self, before_ns: u64) -> u64 {
        let count = self.pace.skip(before_ns.min(self.stop_at_ns), self.part.left());
        if count > 0 {
            self.part.skip(self.dataset, count);
            self.tally.accounts.intended += count;
            self.tally.accounts.unsent += count;
            self.tally.course.intended(before_ns.saturating_sub(1), count);
        }
        count
    }

    /// Records that the kernel accepted these queries at `now_ns`.
    #[inline]
    pub fn sent(&mut self, socket: usize, now_ns: u64, burst: &[Due]) {
        self.sockets[socket].last_send_ns = now_ns;
        self.last_send_ns = now_ns;
        self.tally.sent(now_ns, burst.len() as u64);
        for due in burst {
            self.tally.request_bytes += u64::from(due.bytes);
            let lag_ns = now_ns - due.due_ns;
            self.tally.lag.record_us(lag_ns / 1000);
            self.tally.course.sent(due.due_ns, lag_ns / 1000);
            if lag_ns > self.timeout_ns {
                self.sockets[socket].held_until_ns = now_ns + self.settle_ns;
            }
        }
    }

    /// Records that the kernel refused these queries.
    pub fn refused(&mut self, socket: usize, errno: i32, burst: &[Due]) {
        for due in burst {
            self.sockets[socket].inflight.take_back(due.id);
        }
        self.waiting -= burst.len() as u64;
        self.tally.refused(errno, burst.len() as u64);
    }
}
