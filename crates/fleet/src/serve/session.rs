//! Shared state of an agent's threads: the jobs that wait, the job that runs, and whether the conversation is over.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kqps_kernel::clock;
use kqps_kernel::interrupts::Interrupts;
use serde_json::value::RawValue;

use crate::outbox::Outbox;

/// The time from the end of the conversation to the second interrupt of the running job.
const URGENT_AFTER: Duration = Duration::from_millis(500);

/// The time from the end of the conversation within which the running job must end.
const WORK_WITHIN: Duration = Duration::from_secs(1);

/// The time from the end of the conversation within which the agent must end.
pub(super) const END_WITHIN: Duration = Duration::from_secs(2);

/// Why the conversation is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// The controller asked for the end.
    Asked,
    /// Nothing more can come or go.
    Closed,
    /// Nothing came for the lease.
    Silent,
    /// Something came that is no message.
    Nonsense(String),
}

/// How far the agent is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// It does jobs.
    #[default]
    Working,
    /// It ends what it started.
    Ending,
    /// All is ended.
    Over,
}

/// A job that was asked for.
#[derive(Debug)]
pub(super) struct JobRequest {
    pub(super) id: u64,
    pub(super) job: Box<RawValue>,
    pub(super) interrupts: Interrupts,
}

/// The conversation.
#[derive(Debug)]
pub(super) struct Session {
    /// The queue of lines to the controller.
    pub(super) outbox: Outbox,
    /// When bytes came last (`CLOCK_MONOTONIC`, nanoseconds).
    pub(super) heard_ns: Arc<AtomicU64>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_greeted: bool,
    hello: Option<Box<RawValue>>,
    jobs: VecDeque<JobRequest>,
    running: Option<(u64, Interrupts)>,
    /// Why the conversation is over, and since when.
    over: Option<(Over, Instant)>,
    phase: Phase,
}

/// The next step of the watching thread.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Sleep(Duration),
    GiveUp,
    End,
}

impl Session {
    pub(super) fn new(outbox: Outbox) -> Self {
        let heard_ns = Arc::new(AtomicU64::new(clock::now_ns()));
        Self { outbox, heard_ns, state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let changed = change(&mut self.lock());
        self.changed.notify_all();
        changed
    }

    /// Waits until `look` finds something. `None` once the conversation is over.
    fn wait_for<R>(&self, mut look: impl FnMut(&mut State) -> Option<R>) -> Option<R> {
        let mut state = self.lock();
        loop {
            if state.over.is_some() {
                return None;
            }
            if let Some(found) = look(&mut state) {
                return Some(found);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Keeps the hello. Returns whether it was the first.
    pub(super) fn greet(&self, hello: Box<RawValue>) -> bool {
        self.change(|state| {
            let is_first = !state.is_greeted;
            state.is_greeted = true;
            state.hello = Some(hello);
            is_first
        })
    }

    /// Whether a hello came.
    pub(super) fn is_greeted(&self) -> bool {
        self.lock().is_greeted
    }

    /// Waits for the hello. `None` once the conversation is over.
    pub(super) fn hello(&self) -> Option<Box<RawValue>> {
        self.wait_for(|state| state.hello.take())
    }

    /// Adds a job.
    pub(super) fn ask(&self, id: u64, job: Box<RawValue>) {
        self.change(|state| state.jobs.push_back(JobRequest { id, job, interrupts: Interrupts::default() }));
    }

    /// Interrupts a job, whether it runs or waits.
    pub(super) fn stop(&self, id: u64, urgent: bool) {
        let state = self.lock();
        let waiting = state.jobs.iter().find(|asked| asked.id == id).map(|asked| &asked.interrupts);
        let running =
            state.running.iter().find(|(running, _)| *running == id).map(|(_, interrupts)| interrupts);
        if let Some(interrupts) = waiting.or(running) {
            raise(interrupts, urgent);
        }
    }

    /// Waits for the next job, which runs from now on. `None` once the conversation is over.
    pub(super) fn next(&self) -> Option<JobRequest> {
        self.wait_for(|state| {
            let asked = state.jobs.pop_front()?;
            state.running = Some((asked.id, asked.interrupts.clone()));
            Some(asked)
        })
    }

    /// The running job is done.
    pub(super) fn finish_job(&self) {
        self.lock().running = None;
    }

    /// The conversation is over. The running job is interrupted. Only the first reason counts.
    pub(super) fn end(&self, over: Over) {
        self.change(|state| state.end(over, Instant::now()));
    }

    /// Why the conversation is over; `None` while it goes on.
    pub(super) fn over(&self) -> Option<Over> {
        self.lock().over.as_ref().map(|(over, _)| over.clone())
    }

    /// Enters a phase. From its end on, an agent has a limit of time, however the end came.
    pub(super) fn enter(&self, phase: Phase) {
        self.change(|state| {
            state.end(Over::Asked, Instant::now());
            state.phase = phase;
        });
    }

    /// Watches the lease, and after the end of the conversation that the agent ends in time; otherwise calls `give_up`.
    /// Returns when all is ended.
    pub(super) fn watch(&self, lease: Duration, give_up: impl FnOnce()) {
        let mut state = self.lock();
        loop {
            let silence = clock::now_ns().saturating_sub(self.heard_ns.load(Relaxed));
            if self.outbox.is_broken() {
                state.end(Over::Closed, Instant::now());
            }
            match state.next(Duration::from_nanos(silence), lease, Instant::now()) {
                Next::Sleep(time) => {
                    // The main thread may wait for what has just changed.
                    self.changed.notify_all();
                    let waited = self.changed.wait_timeout(state, time);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                Next::GiveUp => {
                    drop(state);
                    return give_up();
                }
                Next::End => return,
            }
        }
    }
}

impl State {
    fn end(&mut self, over: Over, now: Instant) {
        if self.over.is_some() {
            return;
        }
        self.over = Some((over, now));
        if let Some((_, interrupts)) = &self.running {
            raise(interrupts, false);
        }
    }

    /// Decides what to do after `silence`, and when to look again.
    fn next(&mut self, silence: Duration, lease: Duration, now: Instant) -> Next {
        if self.phase == Phase::Over {
            return Next::End;
        }
        if self.over.is_none() && silence >= lease {
            self.end(Over::Silent, now);
        }
        let Some((_, since)) = &self.over else {
            return Next::Sleep(lease.checked_sub(silence).unwrap());
        };
        let past = now.saturating_duration_since(*since);
        let limit = if self.phase == Phase::Working { WORK_WITHIN } else { END_WITHIN };
        if past >= limit {
            return Next::GiveUp;
        }
        if past < URGENT_AFTER {
            return Next::Sleep(URGENT_AFTER.checked_sub(past).unwrap());
        }
        if let Some((_, interrupts)) = &self.running {
            raise(interrupts, true);
        }
        Next::Sleep(limit.checked_sub(past).unwrap())
    }
}

/// Asks for the end of a job, unless that was done.
fn raise(interrupts: &Interrupts, urgent: bool) {
    if !interrupts.is_asked() {
        interrupts.ask();
    }
    if urgent && !interrupts.is_urgent() {
        interrupts.ask();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(5);

    fn after(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_lease_ends_and_the_job_with_it() {
        let interrupts = Interrupts::default();
        let mut state = State { running: Some((1, interrupts.clone())), ..State::default() };
        let now = Instant::now();
        assert_eq!(state.next(after(1.0), LEASE, now), Next::Sleep(after(4.0)));
        assert!(state.over.is_none());
        assert_eq!(state.next(after(5.0), LEASE, now), Next::Sleep(URGENT_AFTER));
        assert_eq!(state.over, Some((Over::Silent, now)));
        assert!(interrupts.is_asked() && !interrupts.is_urgent());
        // A line that comes now is too late.
        assert_eq!(state.next(after(0.0), LEASE, now + after(0.5)), Next::Sleep(after(0.5)));
        assert!(interrupts.is_urgent());
        assert_eq!(state.next(after(0.0), LEASE, now + after(1.0)), Next::GiveUp);
    }

    #[test]
    fn ending_has_a_limit_too() {
        let now = Instant::now();
        let mut state = State::default();
        state.end(Over::Asked, now);
        state.end(Over::Silent, now + after(0.5));
        assert_eq!(state.over, Some((Over::Asked, now)));
        state.phase = Phase::Ending;
        assert_eq!(state.next(after(0.0), LEASE, now + after(1.5)), Next::Sleep(after(0.5)));
        assert_eq!(state.next(after(0.0), LEASE, now + after(2.0)), Next::GiveUp);
        state.phase = Phase::Over;
        assert_eq!(state.next(after(0.0), LEASE, now + after(9.0)), Next::End);
    }

    #[test]
    fn a_job_is_stopped_whether_it_runs_or_waits() {
        let (outbox, _) = Outbox::start(std::io::sink(), None).unwrap();
        let session = Session::new(outbox);
        let job = || serde_json::value::to_raw_value(&1).unwrap();
        session.ask(1, job());
        session.ask(2, job());
        let running = session.next().unwrap();
        session.stop(2, false);
        session.stop(1, true);
        session.stop(7, true);
        assert!(running.interrupts.is_urgent());
        session.finish_job();
        let waited = session.next().unwrap();
        assert!(waited.interrupts.is_asked() && !waited.interrupts.is_urgent());
        session.end(Over::Closed);
        assert!(session.next().is_none());
    }
}
