//! Attempts to make connections, whatever carries these: how a thread's connections are used, the pauses between
//! attempts that fail, and the end of opening kept connections at a target that lets most attempts fail.

use super::Timers;
use super::tickets::TicketWaits;
use crate::connections::{ConnectionCounts, Ending};
use crate::loss::Loss;
use crate::plan::ConnectionUse;
use crate::state::ThreadState;

/// The attempts at all places of a thread, and how their connections are used.
pub(crate) struct Attempts {
    /// When something is due at a place, by the clock of its wire.
    pub(super) timers: Timers,
    /// How many queries use a connection, or stand for it, before it is closed.
    pub(super) uses_of_connection: Option<u32>,
    /// Whether connections alone are the load.
    pub(super) has_connections_alone: bool,
    pub(super) ticket_waits: TicketWaits,
    pub(super) connect_timeout_ns: u64,
    /// How long failed attempts took, all together.
    failed_ns: u64,
    /// The place where the next check begins.
    next_to_check: usize,
    pub(super) counts: ConnectionCounts,
}

/// The attempts at one place.
#[derive(Default)]
pub(super) struct Tries {
    /// Failed attempts in a row.
    pub(super) failures: u32,
    /// When the next attempt may begin; `None` if it may at once.
    pub(super) paused_until_ns: Option<u64>,
}

/// Limits the flows of a thread's books to this use of their connections.
pub(super) fn limit_flows(of: &ConnectionUse<'_>, state: &mut ThreadState<'_>, flows: usize) {
    state.books.limit_unsettled(of.outstanding);
    if let Some(uses) = of.uses_of_connection() {
        (0..flows).for_each(|flow| state.books.allow(flow, uses));
    }
}

impl Attempts {
    /// No attempts yet at places with this use, and these first counts.
    pub(super) fn new(of: &ConnectionUse<'_>, counts: ConnectionCounts) -> Self {
        let alone = of.has_connections_alone();
        Self {
            timers: Timers::default(),
            uses_of_connection: of.uses_of_connection(),
            has_connections_alone: alone,
            ticket_waits: of.tls.map_or_else(TicketWaits::none, |tls| TicketWaits::new(&tls.client, alone)),
            connect_timeout_ns: of.connect_timeout.as_nanos() as u64,
            failed_ns: 0,
            next_to_check: 0,
            counts,
        }
    }

    /// Attempts without an outcome.
    pub(super) fn unfinished(&self) -> u64 {
        self.counts.attempts - self.counts.established - self.counts.failed.iter().sum::<u64>()
    }

    /// Whether opening further connections before the load is in vain.
    pub(super) fn are_vain(&self) -> bool {
        is_vain(&self.counts, self.failed_ns, self.connect_timeout_ns)
    }

    /// Forgets when something is due.
    pub(super) fn forget_times(&mut self) {
        self.timers = Timers::default();
    }

    /// The place that is checked next, of so many in turn.
    pub(super) fn next_to_check(&mut self, places: usize) -> usize {
        let flow = self.next_to_check;
        self.next_to_check = if flow + 1 == places { 0 } else { flow + 1 };
        flow
    }

    /// Notes that an attempt failed after `took_ns`. The next one at its place waits for a while. If connections alone
    /// are the load, it does not wait: the load bounds the attempts, and each is made when it is due.
    pub(super) fn failed(&mut self, flow: usize, tries: &mut Tries, loss: Loss, took_ns: u64, now_ns: u64) {
        self.counts.failed[loss.number()] += 1;
        self.failed_ns = self.failed_ns.saturating_add(took_ns);
        if !self.has_connections_alone {
            tries.failures += 1;
            self.pause(flow, tries, now_ns + pause_ns(tries.failures - 1));
        }
    }

    /// Notes that an open connection ended. The next one at its place may begin at once, unless the last ones gave no
    /// reply.
    pub(super) fn ended(&mut self, flow: usize, tries: &mut Tries, ending: Ending, now_ns: u64) {
        self.counts.closed[ending.number()] += 1;
        if ending != Ending::Player && !self.has_connections_alone {
            tries.failures += 1;
            if tries.failures > 1 {
                self.pause(flow, tries, now_ns + pause_ns(tries.failures - 2));
            }
        }
    }

    fn pause(&mut self, flow: usize, tries: &mut Tries, until_ns: u64) {
        tries.paused_until_ns = Some(until_ns);
        self.timers.set(flow, until_ns);
    }
}

/// Connections that are being made at once before the load begins: fewer than a server's queue or socket buffer takes.
pub(super) const OPENING_AT_ONCE: u64 = 128;

/// Opening ends when failed attempts have held it up for this many timeouts of an attempt.
const HELD_UP_TIMEOUTS: u64 = 4;

/// The pause after the first failed attempt in a row. Each further one doubles it, up to the longest.
const PAUSE_NS: u64 = 10_000_000;
const PAUSE_LONGEST_NS: u64 = 1_000_000_000;

/// The pause after an attempt that follows this many failed ones.
fn pause_ns(failures: u32) -> u64 {
    (PAUSE_NS << failures.min(7)).min(PAUSE_LONGEST_NS)
}

/// Whether so many attempts have failed that further ones are in vain. A target that answers none of the first attempts
/// will not answer thousands. One that takes some and drops the others would hold the load up, each time for the
/// timeout of an attempt; `failed_ns` is how long all failed attempts took together.
fn is_vain(counts: &ConnectionCounts, failed_ns: u64, timeout_ns: u64) -> bool {
    let failed: u64 = counts.failed.iter().sum();
    let none_is_made = counts.established == 0 && failed >= OPENING_AT_ONCE;
    none_is_made || failed_ns > timeout_ns.saturating_mul(HELD_UP_TIMEOUTS * OPENING_AT_ONCE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::Loss;

    #[test]
    fn opening_ends_at_a_target_that_takes_none_and_at_one_that_drops_too_many() {
        let mut counts = ConnectionCounts::default();
        counts.failed[Loss::Refused.number()] = 127;
        assert!(!is_vain(&counts, 0, 1_000));
        counts.failed[Loss::Refused.number()] = 128;
        assert!(is_vain(&counts, 0, 1_000));
        counts.established = 1;
        assert!(!is_vain(&counts, 512 * 1_000, 1_000), "attempts that fail at once hold nothing up");
        assert!(is_vain(&counts, 512 * 1_000 + 1, 1_000));
        assert!(!is_vain(&counts, u64::MAX, u64::MAX));
    }

    #[test]
    fn pauses_grow_to_a_second() {
        assert_eq!([0, 1, 6, 7, 99].map(pause_ns), [10, 20, 640, 1000, 1000].map(|ms| ms * 1_000_000));
    }
}
