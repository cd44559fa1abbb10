//! A sending thread over connections, whatever carries these: how it hands queries over, what it does at a tick, and
//! how long it waits.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use super::attempts::Attempts;
use crate::books::Due;
use crate::state::ThreadState;
use crate::thread::{NAP_LONGEST_NS, PlayerThread, TICK_NS};

/// An open loop sleeps through a wait that is no longer than this. If two replies of one connection arrive meanwhile,
/// both have the time of the second, unless replies have the kernel's time of arrival.
const SOON_NS: u64 = 100_000;

/// A thread's places for connections, one for each flow of its books.
pub(crate) trait OverConnections {
    /// The attempts to make the connections.
    fn attempts(&self) -> &Attempts;

    /// Opens the connections that are kept, before the load begins. `is_stopped` ends it early.
    fn open_kept(&mut self, state: &mut ThreadState<'_>, is_stopped: impl Fn() -> bool) -> io::Result<()>;

    /// Hands queries to a place.
    fn hand(
        &mut self,
        state: &mut ThreadState<'_>,
        flow: usize,
        burst: &[Due],
        now_ns: u64,
    ) -> io::Result<()>;

    /// Checks places in turn, for what no event says. `is_loading` is whether the load runs. Everything that arrived
    /// until `now_ns` has been read.
    fn tend(&mut self, state: &mut ThreadState<'_>, now_ns: u64, is_loading: bool) -> io::Result<()>;

    /// How long a thread waits at most for what is due at a place, nanoseconds.
    fn timer_wait_ns(&self, state: &ThreadState<'_>, now_ns: u64) -> u64;
}

/// The pause of a thread until there is something to do.
pub(super) enum Pause {
    /// It waits for something to read, for this many nanoseconds at most.
    WaitFor(u64),
    /// It sleeps until this time, nanoseconds since the start. Replies have the kernel's time of arrival, and a look
    /// for each of them costs more.
    SleepUntil(u64),
}

impl<W: OverConnections> PlayerThread<'_, W> {
    pub(super) fn open_kept(&mut self) -> io::Result<()> {
        let (stop, broken) = self.stop_signals();
        self.wire.open_kept(&mut self.state, || stop.is_asked() || broken.load(Relaxed))
    }

    /// Hands the due queries to connections. Returns whether there were any.
    #[inline]
    pub(super) fn send_due(&mut self, burst: &mut Vec<Due>) -> io::Result<bool> {
        let mut sent = false;
        while let Some((flow, now_ns)) = self.take_burst(burst) {
            self.state.books.tally.send_began(now_ns);
            // The time at which a connection has the query: what follows is its latency.
            self.state.sent(flow, now_ns, burst);
            self.state.books.tally.messages_sent += 1;
            self.wire.hand(&mut self.state, flow, burst, now_ns)?;
            sent = true;
        }
        Ok(sent)
    }

    /// Settles queries by time, if a tick is due. All that had arrived at `read_ns` has been read.
    pub(super) fn tick(&mut self, next_tick_ns: &mut u64, now_ns: u64, read_ns: u64) -> io::Result<()> {
        if now_ns < *next_tick_ns {
            return Ok(());
        }
        let since_ns = (now_ns + TICK_NS).saturating_sub(*next_tick_ns);
        *next_tick_ns = now_ns + TICK_NS;
        self.state.tick(now_ns, since_ns);
        self.state.books.expire(read_ns);
        let is_loading = self.is_loading();
        self.wire.tend(&mut self.state, now_ns, is_loading)
    }

    /// Whether the load runs.
    pub(super) fn is_loading(&self) -> bool {
        self.state.supply.all_sent_ns().is_none()
    }

    /// How long to wait for something to read, nanoseconds. Sleeps first, if that is better. `received` is whether a
    /// reply came in the last turn.
    pub(super) fn rest_ns(&mut self, next_tick_ns: u64, received: bool) -> u64 {
        match self.pause(next_tick_ns, received) {
            Pause::WaitFor(most_ns) => most_ns,
            Pause::SleepUntil(at_ns) => {
                self.state.clock.sleep_until_ns(at_ns);
                0
            }
        }
    }

    /// How to pause until a burst is due, or a query or a connection times out. `received` is whether a reply came in
    /// the last turn.
    pub(super) fn pause(&mut self, next_tick_ns: u64, received: bool) -> Pause {
        // Reading took a while since the turn began, and what follows is a length of time.
        let now_ns = self.state.now_ns();
        let tick_ns = next_tick_ns.saturating_sub(now_ns);
        let mut most_ns = NAP_LONGEST_NS.min(self.wire.timer_wait_ns(&self.state, now_ns));
        if self.state.books.waiting() > 0 {
            most_ns = most_ns.min(tick_ns.max(1));
        }
        if self.state.is_held_back() {
            return Pause::WaitFor(most_ns.min(self.state.supply.nap_most_ns()));
        }
        if self.state.is_seeking() {
            return Pause::WaitFor(0);
        }
        let soon_ns = match self.state.supply.leaves_ns(self.burst_most) {
            Some(leaves) => {
                most_ns = most_ns.min(leaves.end().saturating_sub(now_ns));
                (most_ns <= SOON_NS && self.wire.attempts().unfinished() == 0).then_some(most_ns)
            }
            None => match self.state.supply.not_before_ns(self.state.books.waiting()) {
                Some(at_ns) => return Pause::WaitFor(most_ns.min(at_ns.saturating_sub(now_ns))),
                None => self.nap_ns(received),
            },
        };
        match soon_ns.filter(|soon_ns| *soon_ns > 0) {
            Some(soon_ns) => Pause::SleepUntil(now_ns + soon_ns),
            None => Pause::WaitFor(most_ns),
        }
    }
}
