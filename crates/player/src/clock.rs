//! The clock of a trial: nanoseconds since the common start of all threads, on the monotonic clock.

use std::cell::Cell;

use kqps_kernel::clock;

/// A wall clock that was set by less than this counts as slewed, if it was slewed by [`SLEW_MOST`] at most. A time of
/// arrival may be wrong by as much.
pub const STEP_LEAST_NS: u64 = 100_000;

/// A program that corrects the clock gradually changes it by at most this share of the time that passes (chronyd, by
/// default: 83,333 ppm).
const SLEW_MOST: f64 = 0.1;

/// The clock of one thread. Before [`Self::begin`] the start is the boot of the host.
#[derive(Debug)]
pub struct TrialClock {
    /// The start on the monotonic clock.
    start_ns: u64,
    /// The wall clock at the last reading.
    wall: WallReading,
    steps: ClockSteps,
    /// Datagrams whose time of arrival is yet to come.
    early: Cell<u64>,
}

/// A reading of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WallReading {
    /// When, on the monotonic clock.
    at_ns: u64,
    /// The wall clock minus the monotonic clock.
    offset_ns: i64,
}

/// How the wall clock was set while a thread played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockSteps {
    /// How often.
    pub count: u32,
    /// By how much at most, nanoseconds; negative if it was set back.
    pub largest_ns: i64,
    /// Datagrams and reads whose time of arrival was still to come, by more than [`STEP_LEAST_NS`].
    pub early: u64,
}

impl WallReading {
    fn take() -> Self {
        Self { at_ns: clock::now_ns(), offset_ns: clock::realtime_offset_ns() }
    }

    /// By how much the wall clock was set between this reading and a later one; `None` if it was not.
    fn step_until(&self, later: &Self) -> Option<i64> {
        let step_ns = later.offset_ns - self.offset_ns;
        let slewed_most_ns = later.at_ns.saturating_sub(self.at_ns) as f64 * SLEW_MOST;
        (step_ns.unsigned_abs() > STEP_LEAST_NS + slewed_most_ns as u64).then_some(step_ns)
    }
}

impl ClockSteps {
    fn add(&mut self, step_ns: i64) {
        self.count += 1;
        if step_ns.unsigned_abs() > self.largest_ns.unsigned_abs() {
            self.largest_ns = step_ns;
        }
    }
}

impl TrialClock {
    /// A clock that has not started.
    pub fn unstarted() -> Self {
        let (steps, early) = (ClockSteps::default(), Cell::default());
        Self { start_ns: 0, wall: WallReading::take(), steps, early }
    }

    /// Begins at the common start, `start_ns` on the monotonic clock, and sleeps until then. Allocate everything before
    /// this call.
    pub fn begin(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
        self.sleep_until_ns(0);
        self.wall = WallReading::take();
    }

    /// Follows the wall clock, which may be set during a trial.
    pub fn follow(&mut self) {
        self.read(WallReading::take());
    }

    fn read(&mut self, wall: WallReading) {
        if let Some(step_ns) = self.wall.step_until(&wall) {
            self.steps.add(step_ns);
        }
        self.wall = wall;
    }

    /// How the wall clock was set since the start.
    pub fn steps(&self) -> ClockSteps {
        ClockSteps { early: self.early.get(), ..self.steps }
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
    /// `now_ns`, a recent reading. A timestamp that is still to come, because the wall clock was set, counts as now.
    #[inline]
    pub fn arrival_ns(&self, realtime_ns: Option<u64>, now_ns: u64) -> u64 {
        let Some(realtime_ns) = realtime_ns else { return now_ns };
        let arrival_ns = self.stamped_ns(realtime_ns);
        if arrival_ns > now_ns { self.not_later_than(arrival_ns, self.now_ns()) } else { arrival_ns }
    }

    /// A time on the wall clock as a time since the start; 0 if it was before the start.
    #[inline]
    fn stamped_ns(&self, realtime_ns: u64) -> u64 {
        let monotonic_ns = (realtime_ns as i64).wrapping_sub(self.wall.offset_ns);
        monotonic_ns.wrapping_sub(self.start_ns as i64).max(0) as u64
    }

    /// A time of arrival, or now if it is still to come.
    fn not_later_than(&self, arrival_ns: u64, now_ns: u64) -> u64 {
        if arrival_ns > now_ns.saturating_add(STEP_LEAST_NS) {
            self.early.set(self.early.get() + 1);
        }
        arrival_ns.min(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: i64 = 1_000_000_000;

    /// A clock whose thread began 10 s after the boot, at 1,000 s on the wall clock.
    fn clock() -> TrialClock {
        let wall = WallReading { at_ns: 10_000_000_000, offset_ns: 990 * SECOND_NS };
        TrialClock { start_ns: wall.at_ns, wall, ..TrialClock::unstarted() }
    }

    #[test]
    fn a_stamp_of_the_kernel_is_a_time_since_the_start() {
        let clock = clock();
        let stamp = 1_000_005_000_000;
        assert_eq!(clock.arrival_ns(Some(stamp), 7_000_000), 5_000_000);
        assert_eq!(clock.arrival_ns(Some(stamp - 5_000_001), 7_000_000), 0, "before it");
        assert_eq!(clock.arrival_ns(None, 7_000_000), 7_000_000, "as it is read");
        assert_eq!(clock.steps(), ClockSteps::default());
    }

    #[test]
    fn a_stamp_of_a_clock_that_was_set_is_not_later_than_now() {
        let clock = clock();
        // A stamp that the kernel made after the clock was set forward by an hour.
        let arrival_ns = clock.stamped_ns(4_600_005_000_000);
        assert_eq!(arrival_ns, 3_600_005_000_000);
        assert_eq!(clock.not_later_than(arrival_ns, 8_000_000), 8_000_000);
        assert_eq!(clock.steps().early, 1);
        // Two readings of clocks differ a little.
        assert_eq!(clock.not_later_than(8_050_000, 8_000_000), 8_000_000);
        assert_eq!(clock.not_later_than(7_999_999, 8_000_000), 7_999_999);
        assert_eq!(clock.steps().early, 1);
        assert_eq!(clock.stamped_ns(0), 0, "set back by more than the clock shows");
    }

    #[test]
    fn a_step_differs_from_a_slew_by_the_time_that_passed() {
        let mut clock = clock();
        let mut at = |after_ms: u64, offset_ns: i64| {
            let (wall, before) = (clock.wall, clock.steps().count);
            clock.read(WallReading { at_ns: wall.at_ns + after_ms * 1_000_000, offset_ns });
            clock.steps().count > before
        };
        let offset_ns = 990 * SECOND_NS;
        assert!(!at(1, offset_ns + 1_000), "two readings differ");
        assert!(!at(1, offset_ns + 150_000), "slewed");
        assert!(at(1, offset_ns - 150_000), "set back by 300 us in 1 ms");
        assert!(at(1, offset_ns + 3_600 * SECOND_NS) && at(1, offset_ns - SECOND_NS));
        assert!(!at(1_000, offset_ns - SECOND_NS + 80_000_000), "slewed for a second");
        assert_eq!(clock.steps(), ClockSteps { count: 3, largest_ns: -3_601 * SECOND_NS, early: 0 });
    }
}
