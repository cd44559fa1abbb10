//! The caller's time as quinn-proto wants it.

use std::time::{Duration, Instant};

/// Turns nanoseconds of the caller's clock into instants, and back. Only differences between instants matter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { origin: Instant::now() }
    }

    #[inline]
    pub(crate) fn at(self, ns: u64) -> Instant {
        self.origin + Duration::from_nanos(ns)
    }

    #[inline]
    pub(crate) fn ns(self, at: Instant) -> u64 {
        at.saturating_duration_since(self.origin).as_nanos() as u64
    }
}
