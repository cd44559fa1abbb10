//! The first reading on a host without a player. Players begin at a moment of their own clocks, however late this host
//! is. So it has a reading before that moment is chosen, and puts later ones in its place as long as they are in time.

use kqps_kernel::clock;
use kqps_kernel::interrupts::Interrupts;

use super::ahead::{wait_until, with_quarter};

/// The time by which a reading is over before the moment that is given for it, beyond what it usually takes,
/// nanoseconds: enough for one that takes longer, and short beside a trial.
pub const SPARE_NS: u64 = 2_000_000;

/// A reading, with its times on this host's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct TimedReading<W> {
    /// The reading itself.
    pub reading: W,
    /// When it was over, nanoseconds.
    pub over_ns: u64,
    /// How long it took, nanoseconds.
    took_ns: u64,
}

impl<W> TimedReading<W> {
    /// Takes a reading at once.
    pub fn now(take: impl FnOnce() -> W) -> Self {
        Self::by(&Monotonic(&Interrupts::default()), take)
    }

    /// The last of several readings that was over by `by_ns`: this one, if no other was. Each of the others begins when
    /// half of the time that is left has passed, and the last of them [`SPARE_NS`] earlier than it must. If the host is
    /// so busy that one is late, the reading before it is not much older than that delay. An interrupt ends the wait.
    #[must_use]
    pub fn again_before(self, by_ns: u64, interrupts: &Interrupts, take: impl Fn() -> W) -> Self {
        self.again(by_ns, &Monotonic(interrupts), take)
    }

    fn again(self, by_ns: u64, time: &impl Time, take: impl Fn() -> W) -> Self {
        let (mut longest_ns, mut last) = (self.took_ns, self);
        loop {
            let needed_ns = with_quarter(longest_ns) + SPARE_NS;
            let left_ns = by_ns.saturating_sub(time.now_ns());
            let ahead_ns = if left_ns < 4 * needed_ns { needed_ns } else { left_ns / 2 };
            if left_ns < needed_ns || !time.wait_until(by_ns - ahead_ns) {
                return last;
            }
            let next = Self::by(time, &take);
            longest_ns = longest_ns.max(next.took_ns);
            if next.over_ns <= by_ns {
                last = next;
            }
        }
    }

    fn by(time: &impl Time, take: impl FnOnce() -> W) -> Self {
        let began_ns = time.now_ns();
        let reading = take();
        let over_ns = time.now_ns();
        Self { reading, over_ns, took_ns: over_ns - began_ns }
    }
}

/// A clock, and the waits by it.
trait Time {
    /// Nanoseconds.
    fn now_ns(&self) -> u64;

    /// Waits until then; `false` if an interrupt came.
    fn wait_until(&self, end_ns: u64) -> bool;
}

/// The monotonic clock of this host.
struct Monotonic<'a>(&'a Interrupts);

impl Time for Monotonic<'_> {
    fn now_ns(&self) -> u64 {
        clock::now_ns()
    }

    fn wait_until(&self, end_ns: u64) -> bool {
        wait_until(end_ns, self.0);
        !self.0.is_asked()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    const MS: u64 = 1_000_000;

    /// A clock that goes on only while something waits or reads.
    #[derive(Default)]
    struct MadeUp(Cell<u64>);

    impl Time for MadeUp {
        fn now_ns(&self) -> u64 {
            self.0.get()
        }

        fn wait_until(&self, end_ns: u64) -> bool {
            self.0.set(end_ns.max(self.0.get()));
            true
        }
    }

    /// Readings by a moment 400 ms ahead, each of which takes as many milliseconds as its number says; the first has
    /// number 0. Returns the number of the one that counts, and when each began, milliseconds.
    fn readings(each_ms: impl Fn(usize) -> u64) -> (usize, Vec<u64>) {
        let (time, began_ms) = (MadeUp::default(), RefCell::new(Vec::new()));
        let take = || {
            let number = began_ms.borrow().len();
            began_ms.borrow_mut().push(time.now_ns() / MS);
            time.0.set(time.now_ns() + each_ms(number) * MS);
            number
        };
        let last = TimedReading::by(&time, take).again(400 * MS, &time, take);
        assert!(last.over_ns <= 400 * MS);
        (last.reading, began_ms.into_inner())
    }

    #[test]
    fn the_last_reading_counts_and_is_over_shortly_before() {
        // The last one has 4 ms, a quarter of that, and 2 ms to spare.
        let (last, began_ms) = readings(|_| 4);
        assert_eq!((last, began_ms), (5, vec![0, 202, 303, 353, 378, 393]));
    }

    #[test]
    fn a_late_reading_does_not_count_and_the_one_before_it_does() {
        let (last, began_ms) = readings(|number| if number == 3 { 60 } else { 4 });
        assert_eq!((last, began_ms), (2, vec![0, 202, 303, 353]));
    }

    #[test]
    fn if_all_are_late_the_first_one_counts() {
        let (last, began_ms) = readings(|number| if number == 1 { 300 } else { 4 });
        assert_eq!((last, began_ms), (0, vec![0, 202]));
    }

    #[test]
    fn there_is_no_other_reading_if_there_is_no_time_for_it() {
        assert_eq!(readings(|_| 300), (0, vec![0]));
    }

    #[test]
    fn an_interrupt_ends_the_wait() {
        let interrupts = Interrupts::default();
        interrupts.ask();
        let in_an_hour = clock::now_ns() + 3_600_000 * MS;
        assert_eq!(TimedReading::now(|| 0).again_before(in_an_hour, &interrupts, || 1).reading, 0);
    }
}
