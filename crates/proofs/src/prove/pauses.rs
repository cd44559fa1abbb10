//! How long a core does not run a thread that wants to run. A player over connections cannot know when a reply came, so
//! this shows whether it may have read one late since it had no CPU.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use kqps_kernel::affinity::pin_thread;

/// How often the thread wakes.
const PERIOD: Duration = Duration::from_millis(5);

/// A thread on a core that wakes again and again, at the priority of all others.
pub(super) struct Pauses {
    /// The thread ends when this is gone.
    watched: Arc<()>,
    thread: JoinHandle<std::io::Result<Duration>>,
}

impl Pauses {
    /// Watches a core.
    pub(super) fn watch(cpu: u32) -> Self {
        let watched = Arc::new(());
        let while_watched = Arc::downgrade(&watched);
        let thread = thread::spawn(move || {
            pin_thread(cpu)?;
            let mut longest = Duration::ZERO;
            while while_watched.strong_count() > 0 {
                let slept = Instant::now();
                thread::sleep(PERIOD);
                longest = longest.max(slept.elapsed().saturating_sub(PERIOD));
            }
            Ok(longest)
        });
        Self { watched, thread }
    }

    /// Ends the watch. Returns the longest pause.
    ///
    /// # Errors
    ///
    /// If the thread could not be pinned to the core.
    pub(super) fn longest(self) -> Result<Duration> {
        drop(self.watched);
        Ok(self.thread.join().map_err(|_| anyhow!("the thread that watches a core panicked"))??)
    }
}
