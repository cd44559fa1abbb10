//! The state of a sending thread, for every wire: the clock, the queries that are due, and the books of those that were
//! sent. A loop of [`crate::wire`] asks what to send and on which flow, passes on what the kernel sent and received,
//! and asks how long it may sleep.

use crate::books::{Books, Due, Table};
use crate::clock::TrialClock;
use crate::inflight::Inflight;
use crate::supply::Supply;

#[cfg(test)]
pub(crate) mod tests;

/// A longer time between two ticks is a standstill of the thread, nanoseconds. Ticks of a thread that runs are 1 to 5 ms
/// apart, and a timeout may be shorter than that.
const TICK_LONGEST_NS: u64 = 20_000_000;

/// The state of one sending thread, whose flows keep their queries in tables of type `T`.
pub struct ThreadState<'a, T = Inflight> {
    /// The time since the common start.
    pub clock: TrialClock,
    /// The queries to send, and when.
    pub supply: Supply<'a>,
    /// The queries sent, and what became of them.
    pub books: Books<'a, T>,
}

impl<T: Table> ThreadState<'_, T> {
    /// The current time.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Whether a burst of at most `most` queries should leave now.
    #[inline]
    pub fn is_due(&self, now_ns: u64, most: usize) -> bool {
        self.supply.is_due(now_ns, most, self.books.waiting())
    }

    /// Whether an open loop's window is full.
    #[inline]
    pub fn is_held_back(&self) -> bool {
        self.supply.is_held_back(self.books.waiting())
    }

    /// Whether the thread looks for its next query in a closed loop, and must not sleep meanwhile. In an open loop it
    /// sleeps until the next query of any thread.
    pub(crate) fn is_seeking(&self) -> bool {
        self.supply.is_seeking() && !self.supply.is_open()
    }

    /// Takes at most `most` due queries for one flow, and returns the number of the flow. `burst` is empty if nothing
    /// is due.
    #[inline]
    pub fn deal(&mut self, now_ns: u64, most: usize, burst: &mut Vec<Due<T::Key>>) -> usize {
        self.books.deal(&mut self.supply, now_ns, most, burst)
    }

    /// Records that the kernel accepted these queries at `now_ns`.
    #[inline]
    pub fn sent(&mut self, flow: usize, now_ns: u64, burst: &[Due<T::Key>]) {
        self.supply.sent(now_ns);
        self.books.sent(flow, now_ns, burst);
    }

    /// How long replies will take, at their recent rate, to make room for a closed loop's next burst, nanoseconds.
    /// `None` in an open loop, and if any single reply makes room.
    pub fn refill_ns(&self, most: usize) -> Option<u64> {
        let missing = self.supply.missing(self.books.waiting(), most)?;
        Some(missing * self.books.reply_gap_ns())
    }

    /// Follows the wall clock and publishes the counts at `now_ns`, `since_ns` nanoseconds after the last time. Notes if the
    /// thread stood still meanwhile.
    pub fn tick(&mut self, now_ns: u64, since_ns: u64) {
        self.books.publish(since_ns);
        self.clock.follow();
        if since_ns > TICK_LONGEST_NS {
            self.books.stood_still(now_ns, since_ns);
        }
    }

    /// Records that nothing more will be sent, at `now_ns`.
    pub fn played(&mut self, now_ns: u64) {
        self.supply.played(now_ns);
        let end_ns = self.supply.sent_for_ns();
        self.books.sending_ended((!self.supply.ran_out()).then_some(end_ns));
    }

    /// How long the load lasted, nanoseconds: its time, or, if its queries ended it, until the last of them had its
    /// reply or its timeout.
    pub fn played_ns(&self) -> u64 {
        let sent_ns = self.supply.sent_for_ns();
        if self.supply.ran_out() { sent_ns.max(self.books.tally.outstanding.last_end_ns()) } else { sent_ns }
    }

    /// For how long the thread has waited for replies after sending, nanoseconds.
    pub fn drain_ns(&self) -> u64 {
        self.supply.all_sent_ns().map_or(0, |all_sent_ns| self.now_ns().saturating_sub(all_sent_ns))
    }
}
