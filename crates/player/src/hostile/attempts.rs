//! The loop of a thread of attackers: when attempts are begun, and how long what they began is followed.

use std::io;

use kqps_kernel::affinity;
use kqps_kernel::epoll::{Epoll, Ready};

use super::Own;
use super::counts::HostileCounts;
use crate::clock::TrialClock;
use crate::live::ThreadLive;
use crate::plan::LoadPlan;
use crate::record::ThreadResult;
use crate::schedule::Schedule;
use crate::tally::Tally;
use crate::thread::{NAP_LONGEST_NS, Signals};

/// How long a thread begins attempts before it handles events, nanoseconds.
const STRETCH_NS: u64 = 200_000;

/// The attempts of one kind. Times are nanoseconds of the monotonic clock.
pub(super) trait Attack {
    /// Begins an attempt. Returns whether there was room for it.
    fn begin(&mut self, now_ns: u64) -> bool;

    /// The descriptors that are watched, and room for those that are ready.
    fn watched(&mut self) -> (&mut Epoll, &mut Vec<Ready>);

    /// Handles an event.
    fn happened(&mut self, event: Ready);

    /// Waits for events, for this many nanoseconds at most, and handles them.
    fn look(&mut self, most_ns: u64) -> io::Result<()> {
        let (epoll, ready) = self.watched();
        let mut ready = std::mem::take(ready);
        ready.clear();
        ready.extend(epoll.wait_for(Some(most_ns))?);
        for event in &ready {
            self.happened(*event);
        }
        *self.watched().1 = ready;
        Ok(())
    }

    /// Fires the timers that are due at `now_ns`.
    fn expire(&mut self, now_ns: u64);

    /// When something may be due; `None` if nothing is.
    fn next_ns(&self) -> Option<u64>;

    /// Whether every attempt has its outcome, and no bytes of it wait for the kernel.
    fn is_settled(&self) -> bool;

    /// Ends all that is held, and returns the counts of all but the attempts themselves.
    fn finish(self) -> HostileCounts;
}

/// A thread before its trial begins.
pub(super) struct Thread<'a> {
    schedule: Schedule,
    clock: TrialClock,
    /// When attempts are not due any more, since the start.
    stop_at_ns: u64,
    lag_allowed_ns: u64,
    drain_ns: u64,
    begun: u64,
    late: u64,
    no_room: u64,
    live: &'a ThreadLive,
    signals: Signals<'a>,
}

impl<'a> Thread<'a> {
    /// The thread of a plan that was checked.
    pub(super) fn new(own: &Own<'_>, live: &'a ThreadLive, signals: Signals<'a>) -> Self {
        let Own { plan, number, .. } = *own;
        let LoadPlan::Open { rate_qps, arrivals, .. } = plan.load else {
            unreachable!("the plan was checked")
        };
        let schedule = Schedule::new(rate_qps, plan.threads, number, arrivals, plan.seed);
        Self {
            schedule: schedule.along(plan.course.as_ref()).later_by(plan.part.phase()),
            clock: TrialClock::unstarted(),
            stop_at_ns: plan.stop.after.map_or(0, |after| after.as_nanos() as u64),
            lag_allowed_ns: plan.lag_allowed.as_nanos() as u64,
            drain_ns: plan.drain.as_nanos() as u64,
            begun: 0,
            late: 0,
            no_room: 0,
            live,
            signals,
        }
    }

    /// Plays the attempts. Returns `None` if the trial was called off.
    pub(super) fn play(mut self, mut attack: impl Attack) -> io::Result<Option<ThreadResult>> {
        let Some(start_ns) = (self.signals.ready)() else { return Ok(None) };
        self.clock.begin(start_ns);
        let played_ns = loop {
            let now_ns = self.clock.now_ns();
            if self.is_stopped() {
                self.stop_at_ns = self.stop_at_ns.min(now_ns);
            }
            self.begin_due(&mut attack);
            self.live.attempted(self.begun);
            let now_ns = self.clock.now_ns();
            attack.expire(self.clock.clock_ns(now_ns));
            if self.is_over(now_ns) {
                break self.stop_at_ns.min(now_ns);
            }
            let until_ns = self.schedule.next_due_ns().min(self.stop_at_ns);
            attack.look(self.wait_ns(&attack, until_ns.saturating_sub(now_ns)))?;
        };
        self.live.sent_all();
        (self.signals.load_ended)();
        let drain_ns = self.drain(&mut attack)?;
        let mut counts = attack.finish();
        counts.attempts(self.begun, self.late, self.no_room);
        Ok(Some(self.result(counts, played_ns, drain_ns)))
    }

    /// Begins what is due, for a while at most.
    fn begin_due(&mut self, attack: &mut impl Attack) {
        let since_ns = self.clock.now_ns();
        if let Some(before_ns) = since_ns.checked_sub(self.lag_allowed_ns) {
            self.late += self.schedule.skip(before_ns.min(self.stop_at_ns), u64::MAX);
        }
        loop {
            let (now_ns, due_ns) = (self.clock.now_ns(), self.schedule.next_due_ns());
            let is_due = due_ns <= now_ns && due_ns < self.stop_at_ns;
            if !is_due || now_ns - since_ns > STRETCH_NS {
                return;
            }
            self.schedule.take();
            if now_ns - due_ns > self.lag_allowed_ns {
                self.late += 1;
            } else if attack.begin(self.clock.clock_ns(now_ns)) {
                self.begun += 1;
            } else {
                self.no_room += 1;
            }
        }
    }

    /// Whether nothing is due any more. The load lasts for its time, unless its course ends earlier.
    fn is_over(&self, now_ns: u64) -> bool {
        let has_more = self.schedule.next_due_ns() < self.stop_at_ns;
        !has_more && (now_ns >= self.stop_at_ns || self.schedule.is_over())
    }

    /// How long to wait for events at most, if something else is due in `other_ns`.
    fn wait_ns(&self, attack: &impl Attack, other_ns: u64) -> u64 {
        let clock_ns = self.clock.clock_ns(self.clock.now_ns());
        let timer_ns = attack.next_ns().map_or(u64::MAX, |at_ns| at_ns.saturating_sub(clock_ns));
        timer_ns.min(other_ns).min(NAP_LONGEST_NS)
    }

    /// Follows what was begun until it has its outcome, for the time of the drain at most. Returns how long it took.
    fn drain(&self, attack: &mut impl Attack) -> io::Result<u64> {
        let began_ns = self.clock.now_ns();
        loop {
            let now_ns = self.clock.now_ns();
            attack.expire(self.clock.clock_ns(now_ns));
            let took_ns = now_ns - began_ns;
            let is_cut_short = self.signals.stop.is_urgent() || self.is_broken();
            if took_ns >= self.drain_ns || is_cut_short || attack.is_settled() {
                // Everything that has arrived by now counts.
                attack.look(0)?;
                return Ok(took_ns);
            }
            attack.look(self.wait_ns(attack, self.drain_ns - took_ns))?;
        }
    }

    fn is_broken(&self) -> bool {
        self.signals.broken.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn is_stopped(&self) -> bool {
        self.signals.stop.is_asked() || self.is_broken()
    }

    fn result(self, counts: HostileCounts, played_ns: u64, drain_ns: u64) -> ThreadResult {
        ThreadResult {
            tid: affinity::thread_id(),
            tally: Tally::default(),
            clock: self.clock.steps(),
            sent_ns: played_ns,
            played_ns,
            drain_ns,
            correct_in_time: 0,
            paths_used: 0,
            drops: 0,
            fallbacks: 0,
            connections: None,
            hostile: Some(counts),
            not_played: Default::default(),
            past: None,
            real_time: false,
            awake_ns: 0,
            withheld_ns: 0,
        }
    }
}
