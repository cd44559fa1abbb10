//! A sending thread, as the loops of every wire use it: its state, its turns, the signals of the trial, and how it
//! drains.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use kqps_kernel::affinity;
use kqps_kernel::interrupts::Interrupts;

use crate::books::Due;
use crate::plan::Plan;
use crate::record::ThreadResult;
use crate::state::ThreadState;
use crate::wait::Wait;
use crate::wait::precedence::Precedence;

/// The interval of ticks, nanoseconds. Each tick handles timeouts and follows the wall clock.
pub(crate) const TICK_NS: u64 = 1_000_000;

/// The longest time between two checks of the stop flag by a thread without work.
pub(crate) const NAP_LONGEST_NS: u64 = 5_000_000;

/// The shortest and the longest nap of a closed loop that waits for several replies.
const NAP_NS: u64 = 5_000;
const NAP_MOST_NS: u64 = 200_000;

/// After this many naps without a reply, a closed loop waits for the next reply instead.
const NAPS_MOST: u32 = 4;

/// How long an overloaded thread sends before it reads replies and checks its stop flag.
const STRETCH_NS: u64 = 200_000;

/// A thread of a trial, which sends and receives over a wire of type `W`.
#[allow(clippy::struct_excessive_bools)] // each answers a question of its own
pub(crate) struct PlayerThread<'a, W> {
    pub(crate) state: ThreadState<'a>,
    pub(crate) wire: W,
    pub(crate) burst_most: usize,
    /// Whether the trial began and was not called off.
    pub(crate) begun: bool,
    /// When the first burst of this turn left.
    stretch_since_ns: Option<u64>,
    drain_ns: u64,
    /// Whether the thread listens for the whole drain, even if every query is settled.
    listens_on: bool,
    has_own_core: bool,
    stays_awake: bool,
    signals: Signals<'a>,
    naps: u32,
    /// How an open loop's thread waits; `None` in a closed loop.
    pub(crate) wait: Option<Wait>,
    pub(crate) precedence: Precedence,
}

/// The signals between a thread and the main thread of the trial.
#[derive(Clone, Copy)]
pub(crate) struct Signals<'a> {
    /// Reports that the thread is ready, and waits for the common start; `None` if the trial is called off.
    pub(crate) ready: &'a dyn Fn() -> Option<u64>,
    /// Ends the trial early, or at once.
    pub(crate) stop: &'a Interrupts,
    /// Whether it wakes before the threads of other classes, with which it shares a core.
    pub(crate) runs_first: bool,
    /// Set when another thread failed. The trial ends at once, and its counts are dropped.
    pub(crate) broken: &'a AtomicBool,
    /// Reports that the thread's load ended: by its time, or, if its queries ended it, when the last one had its reply
    /// or its timeout.
    pub(crate) load_ended: &'a dyn Fn(),
}

impl<'a, W> PlayerThread<'a, W> {
    /// A thread that has not begun. `burst_most` is the most queries in one burst. Fails if the process has no
    /// descriptors left.
    pub(crate) fn new(
        plan: &Plan,
        burst_most: usize,
        wire: W,
        state: ThreadState<'a>,
        signals: Signals<'a>,
    ) -> io::Result<Self> {
        Ok(Self {
            state,
            wire,
            burst_most,
            begun: false,
            stretch_since_ns: None,
            drain_ns: plan.drain.as_nanos() as u64,
            listens_on: plan.listens_on,
            has_own_core: plan.has_own_cores(),
            stays_awake: plan.stays_awake(),
            signals,
            naps: 0,
            wait: if plan.is_open() { Some(Wait::asleep()?) } else { None },
            precedence: Precedence::default(),
        })
    }

    /// Gets ready and waits for the common start. Returns false if the trial is called off. Allocate everything before
    /// this call, since anything slow after it shows as lag.
    pub(crate) fn begin(&mut self) -> io::Result<bool> {
        if self.has_own_core || self.signals.runs_first {
            self.precedence = Precedence::ask(!self.has_own_core);
        }
        if let Some(wait) = self.wait.as_mut().filter(|_| self.stays_awake) {
            wait.stay_awake_at_last()?;
        }
        if let Some(start_ns) = (self.signals.ready)() {
            self.state.clock.begin(start_ns);
            self.begun = true;
        }
        Ok(self.begun)
    }

    /// The current time, and whether there is still something to send. Call it once a turn.
    #[inline]
    pub(crate) fn turn(&mut self) -> (u64, bool) {
        let now_ns = self.state.now_ns();
        if self.is_stopped() {
            self.state.supply.stop(now_ns);
        }
        self.precedence.keep(now_ns);
        self.stretch_since_ns = None;
        (now_ns, !self.state.supply.is_played(now_ns))
    }

    /// Whether the trial should end early.
    #[inline]
    fn is_stopped(&self) -> bool {
        self.signals.stop.is_asked() || self.is_broken()
    }

    /// The signals that end a trial early.
    pub(crate) fn stop_signals(&self) -> (&'a Interrupts, &'a AtomicBool) {
        (self.signals.stop, self.signals.broken)
    }

    #[inline]
    fn is_broken(&self) -> bool {
        self.signals.broken.load(Relaxed)
    }

    /// Whether due queries leave before replies are read. In an open loop they do, since replies carry the kernel's
    /// time of arrival. In a closed loop they do not, since replies make room. So an open loop gives up what fell due
    /// while its window was full, before a reply makes room.
    #[inline]
    pub(crate) fn sends_first(&self) -> bool {
        self.state.supply.is_open()
    }

    /// Takes the next burst of this turn. Returns the number of its flow, if there is a burst. After 200 µs there is
    /// none, however much is due, so that the thread reads replies. A closed loop has one burst in a turn, since it
    /// must read replies next.
    #[inline]
    pub(crate) fn take_burst(&mut self, burst: &mut Vec<Due>) -> Option<(usize, u64)> {
        let now_ns = self.state.now_ns();
        let first = self.stretch_since_ns.is_none();
        let since_ns = *self.stretch_since_ns.get_or_insert(now_ns);
        let more = first || (self.state.supply.is_open() && now_ns - since_ns < STRETCH_NS);
        if !more || !self.state.is_due(now_ns, self.burst_most) {
            return None;
        }
        let flow = self.state.deal(now_ns, self.burst_most, burst);
        (!burst.is_empty()).then_some((flow, now_ns))
    }

    /// How long a closed loop naps until several replies have probably come: a look for each reply costs both sides
    /// more than it gains. `None` if it should wait for the next reply instead. `received` is whether a reply came in
    /// this turn.
    pub(crate) fn nap_ns(&mut self, received: bool) -> Option<u64> {
        self.naps = if received { 0 } else { self.naps + 1 };
        let refill_ns = self.state.refill_ns(self.burst_most).filter(|_| self.naps < NAPS_MOST)?;
        Some(refill_ns.clamp(NAP_NS, NAP_MOST_NS))
    }

    /// Ends the sending. Reads replies through `receive` until the drain is over; unless the plan listens on, until
    /// every query is settled if that is earlier. Reports meanwhile to the main thread that the load ended. Then
    /// `look_everywhere` makes the next look the last one, and the remaining queries are settled. `wait` waits for
    /// replies, for this many nanoseconds at most.
    pub(crate) fn drain_with(
        &mut self,
        mut receive: impl FnMut(&mut Self, u64) -> io::Result<bool>,
        mut wait: impl FnMut(&mut Self, u64) -> io::Result<()>,
        look_everywhere: impl FnOnce(&mut W),
    ) -> io::Result<()> {
        let sent_ns = self.state.now_ns();
        self.state.played(sent_ns);
        let end_ns = sent_ns + self.drain_ns;
        // A load that its queries end goes on until the last of them has its reply or its timeout.
        let mut is_loading = self.state.supply.ran_out();
        if !is_loading {
            (self.signals.load_ended)();
        }
        loop {
            let now_ns = self.state.now_ns();
            receive(self, now_ns)?;
            if is_loading && self.state.books.waiting() == 0 {
                is_loading = false;
                (self.signals.load_ended)();
            }
            let has_all = self.state.books.is_settled() && !self.listens_on;
            let is_over = now_ns >= end_ns || has_all;
            if is_over || self.signals.stop.is_urgent() || self.is_broken() {
                break;
            }
            wait(self, (end_ns - now_ns).min(NAP_LONGEST_NS))?;
        }
        look_everywhere(&mut self.wire);
        receive(self, self.state.now_ns())?;
        if self.signals.stop.is_urgent() {
            self.state.books.interrupted();
        }
        self.state.books.end(self.state.now_ns());
        if is_loading {
            (self.signals.load_ended)();
        }
        Ok(())
    }

    /// The counts of the thread, without what only its wire knows. `None` if the trial was called off.
    pub(crate) fn into_result(self) -> Option<ThreadResult> {
        let Self { state, begun, precedence, wait, .. } = self;
        let (sent_ns, played_ns, drain_ns) =
            (state.supply.sent_for_ns(), state.played_ns(), state.drain_ns());
        let not_played = state.supply.not_played();
        let correct_in_time = state.books.correct_in_time();
        let paths_used = state.books.paths_used();
        begun.then_some(ThreadResult {
            tid: affinity::thread_id(),
            clock: state.clock.steps(),
            tally: state.books.tally,
            sent_ns,
            played_ns,
            drain_ns,
            correct_in_time,
            paths_used,
            drops: 0,
            fallbacks: 0,
            connections: None,
            hostile: None,
            not_played,
            past: None,
            real_time: precedence.is_granted(),
            awake_ns: wait.as_ref().map_or(0, Wait::awake_in_all_ns),
            withheld_ns: wait.map_or(0, |wait| wait.withheld.ns()),
        })
    }
}
