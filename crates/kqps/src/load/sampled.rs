//! Passes on the counts of a trial while it is played, for what shows them. A thread reads what the player publishes in
//! any case.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kqps_host::usage::Usage;
use kqps_kernel::priority;
use kqps_observation::LiveCounts;
use kqps_player::Live;

/// The receiver of the counts, and how often it gets them.
#[derive(Clone, Copy)]
pub(crate) struct Sampled<'a> {
    /// The time between two readings.
    pub(crate) every: Duration,
    /// The receiver. Another thread calls it.
    pub(crate) receive: &'a (dyn Fn(LiveCounts) + Sync),
}

/// Runs `trial`, and passes on its counts meanwhile, and those of its end. `subject` are the subject's processes.
pub(super) fn beside<T>(
    live: &Live,
    subject: &[u32],
    sampled: Option<Sampled<'_>>,
    trial: impl FnOnce() -> T,
) -> T {
    let Some(Sampled { every, receive }) = sampled else { return trial() };
    let usage = Mutex::new(Usage::new(subject));
    let read = || {
        let mut usage = usage.lock().unwrap_or_else(PoisonError::into_inner);
        receive(LiveCounts { subject_cpu_s: usage.cpu_s(), ..live.counts() });
    };
    let (over, is_over) = mpsc::channel::<()>();
    let outcome = std::thread::scope(|scope| {
        scope.spawn(move || {
            // The measured trial comes first.
            let _ = priority::run_last();
            read();
            while is_over.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                read();
            }
        });
        let outcome = trial();
        drop(over);
        outcome
    });
    read();
    outcome
}
