//! How long a core does not run a thread that wants to run. A player over connections cannot know when a reply came, so
//! this shows whether it may have read one late since it had no CPU.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use kqps_faults::thread::Background;

/// How often the thread wakes.
const PERIOD: Duration = Duration::from_millis(5);

/// Watches a core by a thread that wakes again and again, at the priority of all others. Once stopped, it returns the longest
/// pause.
pub(super) fn watch(cpu: u32) -> Result<Background<Duration>> {
    Background::start(("the thread that watches a core", "pauses"), Some(cpu), |stop| {
        let mut longest = Duration::ZERO;
        while !stop.load(Ordering::Relaxed) {
            let slept = Instant::now();
            thread::sleep(PERIOD);
            longest = longest.max(slept.elapsed().saturating_sub(PERIOD));
        }
        Ok(longest)
    })
}
