//! A task beside another one, which ends with it.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets a stop flag when it is dropped, also in a panic. A thread that waits for the others would otherwise
/// wait for ever.
pub(super) struct Ending<'a>(&'a AtomicBool);

impl<'a> Ending<'a> {
    /// Sets `stop` when the result is dropped.
    pub(super) fn with(stop: &'a AtomicBool) -> Self {
        Self(stop)
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
