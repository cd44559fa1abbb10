//! Clients that wait too long get a stale answer, if there is one, while the question goes on (RFC 8767, section 5): a
//! server that is slow is no better for them than one that is down.

use kqps_cache::{Answered as Lookup, Purpose};

use super::Resolver;
use crate::asks::Waiter;
use crate::tally::Count;

/// The client response timer in nanoseconds (RFC 8767, section 5, recommends 1.8 s).
const PATIENCE_NS: u64 = 1_800_000_000;

/// When the clients of a question get stale answers.
pub(super) struct Late {
    due_ns: u64,
    number: u32,
    /// The number of questions before it, by which a later one with its number is told apart.
    serial: u64,
}

impl Resolver {
    /// Notes a question that was just asked.
    pub(super) fn note_late(&mut self, number: u32) {
        if !self.parts.has_stale {
            return;
        }
        let Some(serial) = self.asks.get_mut(number).map(|ask| ask.serial) else { return };
        self.late.push_back(Late { due_ns: self.upstream.now_ns() + PATIENCE_NS, number, serial });
    }

    /// Gives stale answers to clients that have waited too long. Clients for whom there is none wait on.
    pub(super) fn answer_late(&mut self) {
        let now_ns = self.upstream.now_ns();
        while let Some(&Late { number, serial, .. }) = self.late.front().filter(|late| late.due_ns <= now_ns)
        {
            self.late.pop_front();
            let Some(ask) = self.asks.get_mut(number).filter(|ask| ask.serial == serial) else { continue };
            ask.is_late = true;
            for waiter in self.asks.take_waiters(number) {
                if !self.answer_stale(&waiter) {
                    self.asks.wait(number, waiter);
                }
            }
        }
    }

    /// Whether the clients of a question have waited too long. Those that ask now need not wait as long.
    pub(super) fn is_late(&mut self, number: u32) -> bool {
        self.asks.get_mut(number).is_some_and(|ask| ask.is_late)
    }

    /// Answers a client with what is stale. Returns whether there is something.
    pub(super) fn answer_stale(&mut self, waiter: &Waiter) -> bool {
        let (Lookup::Hit { bytes, .. } | Lookup::Stale { bytes }) = self.find(waiter, Purpose::Late) else {
            return false;
        };
        self.tally.add(Count::StaleAfterFailure);
        self.send(&waiter.asker, bytes);
        true
    }
}
