//! What goes on beside something else, and ends with it.

use std::sync::atomic::{AtomicBool, Ordering};

/// Tells others to stop when it is dropped, also by a panic: whoever waits for them would wait for ever otherwise.
pub(super) struct Ending<'a>(&'a AtomicBool);

impl<'a> Ending<'a> {
    /// Sets `stop` in the end.
    pub(super) fn with(stop: &'a AtomicBool) -> Self {
        Self(stop)
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
