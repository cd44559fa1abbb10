//! How long a core does not run a thread that wants to run. A player over connections cannot know when a reply came, so
//! this shows whether it may have read one late since it had no CPU. A virtual machine's host may take cores away, which not
//! all of them report. Meanwhile packets fill the buffers of the processes on these cores.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use kqps_faults::thread::Background;
use kqps_kernel::priority;

/// How often a thread wakes that has the priority of all others, and how often one that runs before them.
const PERIOD: Duration = Duration::from_millis(5);
const PERIOD_FIRST: Duration = Duration::from_millis(1);

/// Watches a core by a thread that wakes again and again, at the priority of all others. Once stopped, it returns the longest
/// pause.
pub(super) fn watch(cpu: u32) -> Result<Background<Duration>> {
    watch_every(PERIOD, cpu, || ())
}

/// Runs `done`. Returns its result and the longest pause of these cores meanwhile, of threads that run before all others. If
/// they may not, the pause includes waiting for other threads.
pub(super) fn longest_during<T>(cpus: &[u32], done: impl FnOnce() -> T) -> Result<(T, Duration)> {
    let run_first = || drop(priority::run_first());
    let watched = cpus.iter().map(|cpu| watch_every(PERIOD_FIRST, *cpu, run_first));
    let watched = watched.collect::<Result<Vec<_>>>()?;
    let done = done();
    let pauses = watched.into_iter().map(Background::stop).collect::<Result<Vec<Duration>>>()?;
    Ok((done, pauses.into_iter().max().unwrap_or_default()))
}

fn watch_every(
    period: Duration,
    cpu: u32,
    begin: impl FnOnce() + Send + 'static,
) -> Result<Background<Duration>> {
    Background::start(("the thread that watches a core", "pauses"), Some(cpu), move |stop| {
        begin();
        let mut longest = Duration::ZERO;
        while !stop.load(Ordering::Relaxed) {
            let slept = Instant::now();
            thread::sleep(period);
            longest = longest.max(slept.elapsed().saturating_sub(period));
        }
        Ok(longest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_ends_with_what_it_watches_also_by_a_panic() {
        let cpus = kqps_kernel::affinity::allowed().unwrap();
        let (done, _) = longest_during(&cpus[..1], || 7).unwrap();
        assert_eq!(done, 7);
        let panics = || longest_during(&cpus[..1], || -> u32 { panic!("what is done panics") });
        assert!(std::panic::catch_unwind(panics).is_err());
    }
}
