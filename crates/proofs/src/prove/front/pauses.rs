//! Pauses of cores. A virtual machine's host may take cores away, which not all of them report. Meanwhile
//! packets fill the buffers of the processes on these cores.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Result, anyhow};
use kqps_kernel::affinity::pin_thread;
use kqps_kernel::clock::{now_ns, sleep_until_ns};
use kqps_kernel::priority::run_first;

use super::ending::Ending;

/// Interval between two checks of a core, nanoseconds.
const LOOK_NS: u64 = 1_000_000;

/// Runs `done`. Returns its result and the longest pause of these cores meanwhile.
pub(super) fn longest_during<T>(cpus: &[u32], done: impl FnOnce() -> T) -> Result<(T, Duration)> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = |&cpu: &u32| {
            scope.spawn({
                let stop = &stop;
                move || longest(cpu, stop)
            })
        };
        let watches: Vec<_> = cpus.iter().map(watch).collect();
        let done = {
            let _end = Ending::with(&stop);
            done()
        };
        let mut most = Duration::ZERO;
        for watch in watches {
            most = most.max(watch.join().map_err(|_| anyhow!("a thread that watches a core panicked"))??);
        }
        Ok((done, most))
    })
}

/// How late a thread wakes at most that runs before all others on a core. If it may not, the result includes
/// waiting for other threads.
fn longest(cpu: u32, stop: &AtomicBool) -> Result<Duration> {
    pin_thread(cpu)?;
    let _ = run_first();
    let mut most_ns = 0;
    while !stop.load(Ordering::Relaxed) {
        let due_ns = now_ns() + LOOK_NS;
        sleep_until_ns(due_ns);
        most_ns = most_ns.max(now_ns().saturating_sub(due_ns));
    }
    Ok(Duration::from_nanos(most_ns))
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
