//! The clock of a trial: nanoseconds since the common start of all threads, on the monotonic clock.

use kqps_kernel::clock;

/// The clock of one thread. Before [`Self::begin`] the start is the boot of the host.
#[derive(Debug)]
pub struct TrialClock {
    /// The start on the monotonic clock.
    start_ns: u64,
    /// The wall clock minus the monotonic clock.
    realtime_offset_ns: i64,
}

impl TrialClock {
    /// A clock that has not started.
    pub fn unstarted() -> Self {
        Self { start_ns: 0, realtime_offset_ns: clock::realtime_offset_ns() }
    }

    /// Begins at the common start, `start_ns` on the monotonic clock, and sleeps until then. Allocate everything before
    /// this call.
    pub fn begin(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
        self.sleep_until_ns(0);
    }

    /// Follows the wall clock, which may be set during a trial.
    pub fn follow(&mut self) {
        self.realtime_offset_ns = clock::realtime_offset_ns();
    }

    /// The current time.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.since_start_ns(clock::now_ns())
    }

    /// Converts a time since the start to the monotonic clock.
    #[inline]
    pub fn clock_ns(&self, at_ns: u64) -> u64 {
        self.start_ns + at_ns
    }

    /// Converts a time on the monotonic clock to a time since the start; 0 if it was before the start.
    #[inline]
    pub fn since_start_ns(&self, clock_ns: u64) -> u64 {
        clock_ns.saturating_sub(self.start_ns)
    }

    /// Sleeps until `at_ns` since the start.
    pub fn sleep_until_ns(&self, at_ns: u64) {
        clock::sleep_until_ns(self.clock_ns(at_ns));
    }

    /// When a datagram arrived, since the start: `realtime_ns`, the kernel's timestamp, if there is one; otherwise
    /// `now_ns`.
    #[inline]
    pub fn arrival_ns(&self, realtime_ns: Option<u64>, now_ns: u64) -> u64 {
        let Some(realtime_ns) = realtime_ns else { return now_ns };
        let monotonic_ns = realtime_ns as i64 - self.realtime_offset_ns;
        (monotonic_ns - self.start_ns as i64).max(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_of_the_kernel_is_a_time_since_the_start() {
        let clock = TrialClock::unstarted();
        let stamp = (5_000_000 + clock.realtime_offset_ns) as u64;
        assert_eq!(clock.arrival_ns(Some(stamp), 7_000_000), 5_000_000);
        assert_eq!(clock.arrival_ns(Some(stamp - 5_000_001), 7_000_000), 0, "before it");
        assert_eq!(clock.arrival_ns(None, 7_000_000), 7_000_000, "as it is read");
    }
}
