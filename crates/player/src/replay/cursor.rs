//! A thread's way through the window of a capture, past the queries of other threads. The queries of all slices come in
//! the order of their captured times. A due time is computed from its captured time, so nothing adds up over hours.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use kqps_dataset::{Captured, Dataset, Position};

use super::window::Slice;
use super::{Replayed, TRANSPORTS, Whose};
use crate::schedule::Schedule;

/// Queries of others that one call passes at most. A thread without queries of its own must still look at its clock.
const PASSED_MOST: u32 = 1024;

/// Queries that one call of [`Cursor::skip`] passes at most.
const SKIPPED_MOST: u32 = 1 << 16;

/// Nanoseconds of a millisecond.
const MS_NS: u64 = 1_000_000;

/// A query of the thread's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplayQuery {
    pub(crate) query: Position,
    /// When it is due, nanoseconds since the trial's start; 0 in a closed loop.
    pub(crate) due_ns: u64,
    /// The number of its client among those of all slices.
    pub(crate) client: u32,
    /// The flow of the thread that it goes by; [`super::flows::ANY`] for any. If connections begin and end as captured,
    /// the number of its place among those of the thread.
    pub(crate) flow: u32,
    /// The number of its captured connection among those of the thread, from 1 on, each pass counted anew; 0 if
    /// connections do not begin and end as captured.
    pub(crate) connection: u64,
    /// How long its connection stays open after its reply, if it is the last query on it; `u64::MAX` for ever.
    pub(crate) idle_ns: Option<u64>,
}

/// The clock that decides when the queries are due.
#[derive(Debug)]
pub(crate) enum Clock {
    /// The times of the capture.
    Captured,
    /// The schedule of all threads of the trial.
    Scheduled(Box<Schedule>),
    /// The subject's replies.
    None,
}

/// How often the window is played.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passes {
    pub(crate) count: u64,
    /// The time between two passes over the window in captured arrivals, nanoseconds.
    pub(crate) gap_ns: u64,
}

/// A thread's way through the window.
pub(crate) struct Cursor<'a> {
    dataset: &'a Dataset,
    replayed: &'a Replayed,
    thread: usize,
    clock: Clock,
    passes: Passes,
    /// The number of the present pass, and when it began.
    pass: u64,
    pass_ns: u64,
    /// How many times faster than captured; `None` for as fast.
    speed: Option<f64>,
    /// Where each slice stands.
    stands: Box<[Stand]>,
    /// The captured time at which each slice stands, from its beginning, and its number. The earliest comes first.
    order: BinaryHeap<Reverse<(u64, u32)>>,
    /// The next query of the thread's own, if it is known.
    next: Option<ReplayQuery>,
    /// The connection of the last query of each place in this pass; 0 if there was none. Queries that are given up
    /// count, so that those after them never go by an earlier connection.
    connections: Box<[u64]>,
    /// Connections so far.
    begun: u64,
    /// Nothing is left in the slices of the last pass.
    has_ended: bool,
    /// Queries that no thread plays, by the numbers of their transports.
    not_played: [u64; TRANSPORTS.len()],
}

/// A query at which a slice stands.
#[derive(Clone, Copy, Debug)]
struct Stand {
    at: Position,
    captured: Captured,
    whose: Whose,
}

impl<'a> Cursor<'a> {
    /// The queries of a thread, by its number among those that share the wire.
    pub(super) fn new(
        dataset: &'a Dataset,
        replayed: &'a Replayed,
        thread: usize,
        clock: Clock,
        passes: Passes,
    ) -> Self {
        let speed = Some(replayed.plan.speed).filter(|speed| (speed - 1.0).abs() > 0.0);
        let stand =
            Stand { at: dataset.first(), captured: dataset.captured(dataset.first()), whose: Whose::Others };
        let slices = replayed.window.slices.len();
        let places = if replayed.follows { replayed.flows.places_of(thread) } else { 0 };
        let mut cursor = Self {
            dataset,
            replayed,
            thread,
            clock,
            passes,
            pass: 0,
            pass_ns: 0,
            speed,
            stands: vec![stand; slices].into(),
            order: BinaryHeap::with_capacity(slices),
            next: None,
            connections: vec![0; places].into(),
            begun: 0,
            has_ended: false,
            not_played: [0; TRANSPORTS.len()],
        };
        cursor.begin_pass();
        cursor.look_ahead();
        cursor
    }

    /// When the next query of the thread's own is due, or an earlier time if that is not known yet; `u64::MAX` if none
    /// is left. 0 in a closed loop.
    #[inline]
    pub(crate) fn next_due_ns(&self) -> u64 {
        match (&self.next, self.order.peek()) {
            (Some(next), _) => next.due_ns,
            (None, Some(&Reverse((offset_ns, _)))) => match &self.clock {
                Clock::Captured => self.due_ns(offset_ns),
                Clock::Scheduled(schedule) => schedule.next_due_ns(),
                Clock::None => 0,
            },
            (None, None) => u64::MAX,
        }
    }

    /// Whether no query of the thread's own is left.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.has_ended && self.next.is_none()
    }

    /// Whether it is not known yet which query is next.
    #[inline]
    pub(crate) fn is_seeking(&self) -> bool {
        self.next.is_none() && !self.has_ended
    }

    /// The next query of the thread's own; `None` if none is left, or if it is behind many queries of others.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<ReplayQuery> {
        if self.next.is_none() {
            self.look_ahead();
        }
        self.next
    }

    /// Takes the query that [`Self::next`] returned.
    #[inline]
    pub(crate) fn take(&mut self) {
        self.next = None;
        self.look_ahead();
    }

    /// Takes the queries of the thread's own that are due before `before_ns`, and returns their number. May leave some
    /// for another call.
    pub(crate) fn skip(&mut self, before_ns: u64) -> u64 {
        let (mut count, mut left) = (0, SKIPPED_MOST);
        loop {
            if self.next.is_none() {
                self.seek(&mut left);
            }
            if left == 0 || self.next.is_none_or(|next| next.due_ns >= before_ns) {
                return count;
            }
            self.next = None;
            count += 1;
        }
    }

    /// When a load that ends with the queries is over; `None` if that is when the last one left.
    pub(crate) fn end_ns(&self) -> Option<u64> {
        match &self.clock {
            Clock::Captured => Some(self.due_ns(self.replayed.window.slice_ns)),
            Clock::Scheduled(schedule) => schedule.is_even().then(|| schedule.next_due_ns()),
            Clock::None => None,
        }
    }

    /// Queries so far that no thread plays, by the numbers of their transports.
    pub(crate) fn not_played(&self) -> [u64; TRANSPORTS.len()] {
        self.not_played
    }

    #[inline]
    fn look_ahead(&mut self) {
        let mut left = PASSED_MOST;
        self.seek(&mut left);
    }

    /// Looks for the next query of the thread's own. Passes as many queries of others as `left` says, and deducts them.
    fn seek(&mut self, left: &mut u32) {
        while self.next.is_none() {
            let Some(&Reverse((offset_ns, slice))) = self.order.peek() else {
                if self.has_ended {
                    return;
                }
                self.end_pass();
                continue;
            };
            let stand = self.stands[slice as usize];
            if stand.whose != Whose::Own && *left == 0 {
                return;
            }
            // In the order of a schedule, each query that is played takes one of its times.
            let due_ns = match &mut self.clock {
                Clock::Captured => self.pass_ns.saturating_add(scaled_ns(self.speed, offset_ns)),
                Clock::Scheduled(schedule) if stand.whose != Whose::NoOnes => schedule.take(),
                Clock::Scheduled(_) | Clock::None => 0,
            };
            if stand.whose == Whose::Own {
                self.next = Some(self.asked(&stand, slice, due_ns));
            }
            self.step(slice, left);
        }
    }

    /// Moves a slice, which is the first in order, to its next query. If only own queries matter, passes those of
    /// others, as many as `left` says.
    #[inline]
    fn step(&mut self, slice: u32, left: &mut u32) {
        let Slice { end, from_ns, .. } = self.replayed.window.slices[slice as usize];
        let stops_at_others = matches!(self.clock, Clock::Scheduled(_));
        let mut at = self.stands[slice as usize].at;
        loop {
            at = self.dataset.after(at);
            *left = left.saturating_sub(1);
            if at >= end {
                self.order.pop();
                return;
            }
            let stand = self.stand(at, slice);
            let stops = match stand.whose {
                Whose::Own => true,
                Whose::Others => stops_at_others,
                Whose::NoOnes => false,
            };
            if stops || *left == 0 {
                let offset_ns = stand.captured.due_ns.saturating_sub(from_ns);
                self.stands[slice as usize] = stand;
                if let Some(mut first) = self.order.peek_mut() {
                    *first = Reverse((offset_ns, slice));
                }
                return;
            }
        }
    }

    /// A query at which a slice stands. Counts it if no thread plays it.
    #[inline]
    fn stand(&mut self, at: Position, slice: u32) -> Stand {
        let captured = self.dataset.captured(at);
        let whose = self.replayed.whose(&captured, slice, self.thread);
        if whose == Whose::NoOnes && self.replayed.counts_unplayed && self.thread == 0 {
            self.not_played[captured.carried.number()] += 1;
        }
        Stand { at, captured, whose }
    }

    fn begin_pass(&mut self) {
        let replayed = self.replayed;
        self.connections.fill(0);
        for (slice, number) in replayed.window.slices.iter().zip(0..) {
            if slice.first >= slice.end {
                continue;
            }
            let stand = self.stand(slice.first, number);
            self.stands[number as usize] = stand;
            let offset_ns = stand.captured.due_ns.saturating_sub(slice.from_ns);
            self.order.push(Reverse((offset_ns, number)));
        }
        // A window without queries is not played again and again.
        self.has_ended = self.order.is_empty();
    }

    #[cold]
    fn end_pass(&mut self) {
        if self.pass + 1 >= self.passes.count {
            self.has_ended = true;
            return;
        }
        self.pass += 1;
        let each_ns = self.scaled_ns(self.replayed.window.slice_ns).saturating_add(self.passes.gap_ns);
        self.pass_ns = each_ns.saturating_mul(self.pass);
        self.begin_pass();
    }

    fn asked(&mut self, stand: &Stand, slice: u32, due_ns: u64) -> ReplayQuery {
        let replayed = self.replayed;
        let Replayed { crowd, flows, follows, .. } = replayed;
        let Captured { client, begins, ends, idle_ms, .. } = stand.captured;
        let flow = flows.flow(flows.number(&stand.captured, slice));
        let connection = if *follows { self.connection(flow, begins) } else { 0 };
        let idle_ns = || match idle_ms {
            u32::MAX => u64::MAX,
            idle_ms => self.scaled_ns(u64::from(idle_ms) * MS_NS),
        };
        ReplayQuery {
            query: stand.at,
            due_ns,
            client: crowd.number(slice, client),
            flow,
            connection,
            idle_ns: (*follows && ends).then(idle_ns),
        }
    }

    /// The connection of the next query of a place. One that was open when the window or slice began is another one,
    /// too.
    #[inline]
    fn connection(&mut self, place: u32, begins: bool) -> u64 {
        let connection = &mut self.connections[place as usize];
        if begins || *connection == 0 {
            self.begun += 1;
            *connection = self.begun;
        }
        *connection
    }

    /// When something is due that the capture has `offset_ns` after the beginning of its slice.
    #[inline]
    fn due_ns(&self, offset_ns: u64) -> u64 {
        self.pass_ns.saturating_add(self.scaled_ns(offset_ns))
    }

    #[inline]
    fn scaled_ns(&self, captured_ns: u64) -> u64 {
        scaled_ns(self.speed, captured_ns)
    }
}

/// How long a captured time is as it is played. Without a speed it is exact.
#[inline]
fn scaled_ns(speed: Option<f64>, captured_ns: u64) -> u64 {
    speed.map_or(captured_ns, |speed| (captured_ns as f64 / speed) as u64)
}

#[cfg(test)]
mod tests;
