//! A thread beside a proof, such as one that makes faults and counts them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result, anyhow};
use kqps_kernel::affinity;

/// A thread that works until it is stopped, and then returns what it counted or noted. Dropping it stops it.
pub struct Background<T> {
    /// Its work, as messages name it: `the relay`.
    what: &'static str,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<T>>>,
}

impl<T: Send + 'static> Background<T> {
    /// Starts a thread of this name, which is pinned to a core if one is given. `work` ends soon after its flag is set.
    pub fn start(
        (what, name): (&'static str, &str),
        cpu: Option<u32>,
        work: impl FnOnce(&AtomicBool) -> Result<T> + Send + 'static,
    ) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let is_stopped = Arc::clone(&stop);
        let pinned = move || {
            if let Some(cpu) = cpu {
                affinity::pin_thread(cpu).with_context(|| format!("cannot pin {what} to core {cpu}"))?;
            }
            work(&is_stopped).with_context(|| format!("{what} failed"))
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(pinned)?;
        Ok(Self { what, stop, thread: Some(thread) })
    }

    /// Stops it, and returns what it counted. An error if it failed meanwhile.
    pub fn stop(mut self) -> Result<T> {
        self.stop.store(true, Ordering::Relaxed);
        let what = self.what;
        let thread = self.thread.take().with_context(|| format!("{what} was stopped before"))?;
        thread.join().map_err(|_| anyhow!("{what} panicked"))?
    }

    /// Whether it still works. An error ends it early.
    pub fn is_at_work(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl<T> Drop for Background<T> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The caller dropped it instead of asking for the result.
            let _ = thread.join();
        }
    }
}

/// Why counts are not exact: the events that happened although they must not, in words; `None` if none did.
pub(crate) fn doubt_of(events: &[(u64, &str)]) -> Option<String> {
    let happened = events.iter().filter(|(count, _)| *count > 0);
    let words: Vec<String> = happened.map(|(count, what)| format!("{count} {what}")).collect();
    (!words.is_empty()).then(|| words.join("; "))
}
