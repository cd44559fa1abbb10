//! Performs the events of a load while it is played: each on a thread of its own, which sleeps until its moment on the
//! monotonic clock. The threads of the player wait for none of them.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{Builder, ScopedJoinHandle};
use std::time::{Duration, Instant};

use kqps_kernel::clock::now_ns;
use kqps_kernel::interrupts::Interrupts;
use kqps_observation::EventFacts;

use super::Event;
use super::over::{EndOnDrop, Over};
use super::performer::{Performed, Prepared};
use super::stage::Stage;

/// The most events of a load, each of which has a thread.
pub const EVENTS_MOST: usize = 1000;

/// The interval at which the start of the load is looked for.
const LOOK: Duration = Duration::from_millis(1);

/// The time before an event in which the subject's CPU time and memory are read, nanoseconds.
const READING_NS: u64 = 5_000_000;

/// Prepares events, runs `play`, and performs the events meanwhile. `began` is the start of the trial on the monotonic
/// clock, nanoseconds, once it is known. Returns the facts of the events in the order in which they were due. An event
/// that was still under way at the end of the load is waited for, for some seconds.
pub fn beside<T>(
    events: &[Event],
    stage: &Stage<'_>,
    began: &(dyn Fn() -> Option<u64> + Sync),
    play: impl FnOnce() -> T,
) -> (T, Vec<EventFacts>) {
    let over = Over::default();
    std::thread::scope(|scope| {
        let (preparing, all_prepared) = mpsc::channel::<()>();
        let run = |event: &Event| {
            let (event, over, preparing) = (event.clone(), &over, preparing.clone());
            let thread = Builder::new().name("event".into());
            let due_s = event.at.as_secs_f64();
            let name = event.to_string();
            let started = thread.spawn_scoped(scope, move || one((&event, preparing), stage, began, over));
            (EventFacts { name, due_s, ..EventFacts::default() }, started)
        };
        let mut threads: Vec<_> = events.iter().map(run).collect();
        let outcome = {
            let _end = EndOnDrop(&over);
            drop(preparing);
            // It fails when every thread has dropped its sender.
            let _ = all_prepared.recv();
            play()
        };
        threads.sort_by(|(one, _), (other, _)| one.due_s.total_cmp(&other.due_s));
        let facts = threads.into_iter().map(|(facts, thread)| match thread {
            Ok(thread) => with(facts, joined(thread)),
            Err(error) => EventFacts { failure: Some(format!("no thread for it: {error}")), ..facts },
        });
        (outcome, facts.collect())
    })
}

/// Performs an event now, and waits until it is done, for some time at most, or until an interrupt.
pub fn now(event: &Event, stage: &Stage<'_>, within: Duration, interrupts: &Interrupts) -> Performed {
    let over = Over::default();
    let (sender, ended) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let end = EndOnDrop(&over);
        let perform = || {
            let _sender = sender;
            let mut prepared = Prepared::new(event, stage);
            prepared.look(now_ns() + prepared.ahead_ns(), &over);
            prepared.perform(&over)
        };
        let thread = scope.spawn(perform);
        let began = Instant::now();
        // The sender is dropped at the end.
        while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout)
            && began.elapsed() < within
            && !interrupts.is_asked()
        {}
        drop(end);
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The start of the trial, and the outcome of the event on the same clock.
type Outcome = Option<(u64, Performed)>;

fn joined(thread: ScopedJoinHandle<'_, Outcome>) -> Outcome {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn with(facts: EventFacts, outcome: Outcome) -> EventFacts {
    let Some((began_ns, performed)) = outcome else { return facts };
    let since = |at_ns: u64| at_ns.saturating_sub(began_ns) as f64 / 1e9;
    let Performed { begun_ns, done_ns, failure, counts, usage } = performed;
    EventFacts { begun_s: begun_ns.map(since), done_s: done_ns.map(since), failure, counts, usage, ..facts }
}

/// Prepares an event, waits for its moment and performs it. `preparing` is dropped when the load may begin. `None` if the
/// load was over before.
fn one(
    (event, preparing): (&Event, mpsc::Sender<()>),
    stage: &Stage<'_>,
    began: &(dyn Fn() -> Option<u64> + Sync),
    over: &Over,
) -> Outcome {
    let mut prepared = Prepared::new(event, stage);
    let (ahead_ns, at_ns) = (prepared.ahead_ns(), u64::try_from(event.at.as_nanos()).unwrap_or(u64::MAX));
    if at_ns < ahead_ns {
        // During the load its time may be too short for that.
        prepared.look(now_ns() + ahead_ns, over);
    }
    drop(preparing);
    let began_ns = loop {
        if let Some(began_ns) = began() {
            break began_ns;
        }
        if !over.wait(LOOK) {
            return None;
        }
    };
    let due_ns = began_ns.saturating_add(at_ns);
    if !over.wait_until(due_ns.saturating_sub(ahead_ns)) {
        return None;
    }
    prepared.look(due_ns.saturating_sub(READING_NS), over);
    if !over.wait_until(due_ns.saturating_sub(READING_NS)) {
        return None;
    }
    prepared.read_usage();
    over.wait_until(due_ns).then(|| (began_ns, prepared.perform(over)))
}
