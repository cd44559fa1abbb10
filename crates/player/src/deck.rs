//! What a sending thread works on, whatever its I/O: the queries that are due, the sockets' outstanding
//! queries, the counts. A loop of [`crate::io`] asks it what to send and through which socket, tells it what the kernel
//! did and what arrived, and asks it how long it may sleep.
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

/// Room for the longest record of a reply in canonical form: its owner, type and class, and its data, in which
/// names may have been compressed.
const SCRATCH_BYTES: usize = 1 << 17;

/// One thread's state.
pub struct Deck<'a> {
    dataset: &'a Dataset,
    /// This thread's part of the dataset, and where it stands in it.
    part: Part,
    pace: Pace,
    /// When to stop sending.
    stop_at_ns: u64,
    /// A signal came: nothing more is sent.
    stopped: bool,
    /// For how long queries were sent, and when the last of them was done with.
    played_ns: u64,
    correct_in_time: Option<u64>,
    all_sent_ns: Option<u64>,
    timeout_ns: u64,
    /// After this, a query that was not answered is lost, and its ID may be used again.
    settle_ns: u64,
    lag_allowed_ns: u64,
    /// Added to the monotonic clock to make times since the start.
    start_ns: u64,
    realtime_offset_ns: i64,
    next_tick_ns: u64,
    /// The round of looks that is under way, and how many were begun.
    round: Option<Round>,
    rounds: u64,
    /// Nothing more is heard after the next look: every socket is to be looked at.
    last_look: bool,
    /// Replies until the last tick, and the mean time between two of them before it.
    replies_at_tick: u64,
    reply_gap_ns: u64,
    sockets: Box<[Flow]>,
    next_socket: usize,
    last_send_ns: u64,
    /// Queries of all sockets whose timeout has not gone by.
    waiting: u64,
    /// What checking a reply needs, so that none needs an allocation.
    scratch: Vec<u8>,
    /// The counts.
    pub tally: Tally,
    live: &'a ThreadLive,
}

/// A socket's outstanding queries, and when it was last used.
struct Flow {
    inflight: Inflight,
    last_send_ns: u64,
    /// When it was last known that no reply was there: that was looked for, or nothing was asked.
    looked_ns: u64,
    /// Until then nothing is lost here: a query left after its timeout, and its reply, late as it is, is waited for as long
    /// as that of any other.
    held_until_ns: u64,
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

    /// Begins at the common start, `start_ns` on the monotonic clock, and sleeps until then. Everything that
    /// takes time, memory above all, is to be had before.
    pub fn begin(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
        self.sleep_until_ns(0);
    }

    /// The time now.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.since_start_ns(clock::now_ns())
    }

    /// A time since the start on the host's monotonic clock.
    #[inline]
    pub fn clock_ns(&self, at_ns: u64) -> u64 {
        self.start_ns + at_ns
    }

    /// A time on the host's monotonic clock since the start; 0 for one before it.
    #[inline]
    pub fn since_start_ns(&self, clock_ns: u64) -> u64 {
        clock_ns.saturating_sub(self.start_ns)
    }

    /// Sleeps until a time since the start.
    pub fn sleep_until_ns(&self, at_ns: u64) {
        clock::sleep_until_ns(self.clock_ns(at_ns));
    }

    /// The query at a position.
    #[inline]
    pub fn query(&self, position: Position) -> Query<'a> {
        self.dataset.query(position)
    }

    /// Whether nothing more is to be sent.
    #[inline]
    pub fn is_played(&self, now_ns: u64) -> bool {
        self.stopped || self.part.is_over() || self.pace.is_played(now_ns, self.stop_at_ns)
    }

    /// Stops sending at once, on a signal: what the thread has not come to by `now_ns` is not intended.
    pub fn stop(&mut self, now_ns: u64) {
        self.stop_at_ns = self.stop_at_ns.min(now_ns);
        self.stopped = true;
    }

    /// Notes that nothing more is to be sent, at `now_ns`. A schedule that was played to its end was played
    /// for its whole time, even if the last query fell due a little earlier; one that ended with the queries
    /// lasted until the next would have been due.
    pub fn played(&mut self, now_ns: u64) {
        self.all_sent_ns = Some(now_ns);
        self.correct_in_time = (!self.part.is_over()).then_some(self.tally.accounts.correct);
        self.played_ns = if !self.part.is_over() && self.stop_at_ns != u64::MAX {
            self.stop_at_ns
        } else {
            self.pace.end_ns().map_or(now_ns, |end_ns| end_ns.max(self.last_send_ns))
        };
    }

    /// For how long queries were sent.
    pub fn played_ns(&self) -> u64 {
        self.played_ns
    }

    /// Correct replies that came while queries were sent; all of them where the queries ended before the time did.
    pub fn correct_in_time(&self) -> u64 {
        self.correct_in_time.unwrap_or(self.tally.accounts.correct)
    }

    /// For how long replies were listened to since then.
    pub fn drain_ns(&self) -> u64 {
        self.all_sent_ns.map_or(0, |all_sent_ns| self.now_ns().saturating_sub(all_sent_ns))
    }

    /// Whether a burst of at most `most` queries is to leave now.
    #[inline]
    pub fn is_due(&self, now_ns: u64, most: usize) -> bool {
        if self.is_held_back() {
            // Nothing may leave, but what is due is given up.
            return self.pace.is_due_before(now_ns + 1) && !self.is_played(now_ns);
        }
        let standing = Standing { now_ns, waiting: self.waiting, last_send_ns: self.last_send_ns };
        self.pace.is_due(standing, most) && !self.is_played(now_ns)
    }

    /// When an open loop's next burst may leave, and when it is to; none in a closed loop.
    pub fn leaves_ns(&self, most: usize) -> Option<RangeInclusive<u64>> {
        self.pace.leaves_ns(most)
    }

    /// When an open loop's burst after that is likely to leave, if the next one takes all that is due by `ns`.
    pub fn leaves_after_ns(&self, ns: u64, most: usize) -> Option<u64> {
        self.pace.leaves_after_ns(ns, most)
    }

    /// For how long a thread may sleep while the window is full: what falls due meanwhile must not seem late.
    pub fn nap_most_ns(&self) -> u64 {
        self.lag_allowed_ns / 2
    }

    /// Decides when an open loop's next burst is to leave: once its first query is due.
    pub fn leave_at(&mut self, at_ns: u64) {
        self.pace.leave_at(at_ns);
    }

    /// In how long replies will have made room for a closed loop's next burst, at the pace of late; none in
    /// an open loop, and none where any single reply makes room.
    pub fn refill_ns(&self, most: usize) -> Option<u64> {
        let missing = self.pace.missing(self.waiting, most)?;
        Some(missing * self.reply_gap_ns)
    }

    /// Whether a schedule decides when queries leave, and not the subject's replies.
    pub fn is_open(&self) -> bool {
        self.pace.is_open()
    }

    /// Whether an open loop's window is full: nothing leaves before a reply or a timeout makes room, and what falls due
    /// until then is given up.
    #[inline]
    pub fn is_held_back(&self) -> bool {
        self.pace.is_held_back(self.waiting)
    }

    /// Takes what is due, at most `most` queries, all through one socket, whose number it gives. The burst is
    /// emptied first, and is empty when nothing is due.
    #[inline]
    pub fn deal(&mut self, now_ns: u64, most: usize, burst: &mut Vec<Due>) -> usize {
        burst.clear();
        // First what this thread comes to too late: that is its own fault, whatever the window would have said.
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
            // In a closed loop replies will make room; an open one does not wait for them.
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

    /// The socket whose turn it is, or the next one that has an ID left; one without when none has.
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

    /// Gives up what was due before this time, all at once, since there can be millions of it after a stall;
    /// how many. Of random arrivals it may leave some for the next time.
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

    /// The kernel took these queries up at `now_ns`.
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

    /// The kernel refused these queries.
    pub fn refused(&mut self, socket: usize, errno: i32, burst: &[Due]) {
        for due in burst {
            self.sockets[socket].inflight.take_back(due.id);
        }
        self.waiting -= burst.len() as u64;
        self.tally.refused(errno, burst.len() as u64);
    }
}
