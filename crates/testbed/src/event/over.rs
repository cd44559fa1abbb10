//! The end of a load, for threads that wait: until a moment on the monotonic clock, or until the load is over.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use kqps_kernel::clock::now_ns;

/// How long a command or a transfer may go on after the load.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// Whether a load is over, and since when.
#[derive(Debug, Default)]
pub struct Over {
    since_ns: Mutex<Option<u64>>,
    ended: Condvar,
}

impl Over {
    /// Says that the load is over.
    pub(crate) fn end(&self) {
        self.lock().get_or_insert_with(now_ns);
        self.ended.notify_all();
    }

    /// Whether the load is over.
    pub(crate) fn is_over(&self) -> bool {
        self.lock().is_some()
    }

    /// Whether the load is over for longer than [`GRACE`].
    pub(crate) fn is_long_over(&self) -> bool {
        self.lock().is_some_and(|since_ns| now_ns() > since_ns + GRACE.as_nanos() as u64)
    }

    /// Waits until a moment on the monotonic clock, or until the load is over. Returns whether the moment came.
    pub(crate) fn wait_until(&self, until_ns: u64) -> bool {
        let mut since = self.lock();
        loop {
            let left_ns = until_ns.saturating_sub(now_ns());
            if since.is_some() || left_ns == 0 {
                return since.is_none();
            }
            let waited = self.ended.wait_timeout(since, Duration::from_nanos(left_ns));
            since = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits this long, or until the load is over. Returns whether it goes on.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        self.wait_until(now_ns() + u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 2))
    }

    /// Waits for the end of the load.
    pub(crate) fn wait_for_end(&self) {
        while self.wait(Duration::from_hours(1)) {}
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<u64>> {
        self.since_ns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says that the load is over when it is dropped, also by a panic.
pub(crate) struct EndOnDrop<'a>(pub(crate) &'a Over);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_its_moment_or_with_the_load() {
        let over = Over::default();
        assert!(over.wait_until(now_ns() + 100_000));
        assert!(!over.is_over() && !over.is_long_over());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| over.wait(Duration::from_hours(1)));
            drop(EndOnDrop(&over));
            assert!(!waiting.join().unwrap());
        });
        assert!(over.is_over() && !over.wait_until(0), "it is over");
    }
}
