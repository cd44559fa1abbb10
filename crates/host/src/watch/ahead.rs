//! The first reading of a trial that begins at a given moment. A reading takes a while. It must be over by then, so that
//! it misses no packet of the load; and not long before, so that the wait does not count as time of the trial. A player
//! begins when its reading is over, and not before.

use kqps_kernel::clock;
use kqps_kernel::interrupts::Interrupts;

/// The interval at which a wait looks for interrupts, nanoseconds.
const LOOK_NS: u64 = 10_000_000;

/// The readings by which the duration of one is found. The first one also fills caches.
const TRIED: usize = 2;

/// Takes a reading that is over at `ready_ns` on this host's monotonic clock, or somewhat before. Other readings before
/// it, which are dropped, show how long it takes. If the moment is near or over, or an interrupt comes, the reading
/// begins at once.
pub fn begin_at<W>(ready_ns: u64, interrupts: &Interrupts, take: impl Fn() -> W) -> W {
    wait_until(ready_ns.saturating_sub(with_quarter(longest_ns(ready_ns, &take))), interrupts);
    take()
}

/// The time for a reading that may take a quarter longer than all before it.
pub(super) fn with_quarter(longest_ns: u64) -> u64 {
    longest_ns + longest_ns / 4
}

/// How long the longest of some readings takes, nanoseconds; 0 if there is no time before `ready_ns` to find out.
fn longest_ns<W>(ready_ns: u64, take: &impl Fn() -> W) -> u64 {
    let mut longest_ns = 0;
    for _ in 0..TRIED {
        let began_ns = clock::now_ns();
        // There must be time for this one and for the one that counts.
        if began_ns + 2 * longest_ns >= ready_ns {
            break;
        }
        drop(take());
        longest_ns = longest_ns.max(clock::now_ns() - began_ns);
    }
    longest_ns
}

/// Waits until this time of the monotonic clock, or until an interrupt.
pub(super) fn wait_until(end_ns: u64, interrupts: &Interrupts) {
    loop {
        let now_ns = clock::now_ns();
        if now_ns >= end_ns || interrupts.is_asked() {
            return;
        }
        clock::sleep_until_ns(end_ns.min(now_ns + LOOK_NS));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::time::{Duration, Instant};

    use super::*;

    const MS: u64 = 1_000_000;

    /// When each of the readings began that were taken for a moment so far ahead, and the moment itself, nanoseconds on
    /// the monotonic clock.
    fn begun(ahead_ns: u64, each: Duration) -> (Vec<u64>, u64) {
        begun_taking(ahead_ns, |_| each)
    }

    /// As [`begun`], where each reading takes as long as its number says.
    fn begun_taking(ahead_ns: u64, each: impl Fn(usize) -> Duration) -> (Vec<u64>, u64) {
        let begun = RefCell::new(Vec::new());
        let ready_ns = clock::now_ns() + ahead_ns;
        begin_at(ready_ns, &Interrupts::default(), || {
            begun.borrow_mut().push(clock::now_ns());
            let number = begun.borrow().len() - 1;
            std::thread::sleep(each(number));
        });
        (begun.into_inner(), ready_ns)
    }

    #[test]
    fn the_reading_that_counts_begins_as_long_before_as_it_takes() {
        let (begun, ready_ns) = begun(600 * MS, Duration::from_millis(60));
        assert_eq!(begun.len(), 3, "two to find out");
        let before_ns = ready_ns.saturating_sub(begun[2]);
        assert!((70 * MS..300 * MS).contains(&before_ns), "it began {before_ns} ns before");
    }

    #[test]
    fn the_longest_reading_counts_and_not_the_last() {
        let each = |number| Duration::from_millis(if number == 0 { 80 } else { 5 });
        let (begun, ready_ns) = begun_taking(600 * MS, each);
        let before_ns = ready_ns.saturating_sub(begun[2]);
        assert!(before_ns >= 95 * MS, "it began {before_ns} ns before");
    }

    #[test]
    fn a_moment_that_is_near_is_not_spent_on_readings_that_do_not_count() {
        // A first reading was tried, and there was no time for another.
        let (near, _) = begun(100 * MS, Duration::from_millis(90));
        assert_eq!(near.len(), 2);
        let (over, _) = begun(0, Duration::ZERO);
        assert_eq!(over.len(), 1);
    }

    #[test]
    fn nothing_waits_for_a_moment_that_is_over_or_after_an_interrupt() {
        let interrupts = Interrupts::default();
        let began = Instant::now();
        begin_at(0, &interrupts, || ());
        interrupts.ask();
        begin_at(clock::now_ns() + 3_600_000 * MS, &interrupts, || ());
        assert!(began.elapsed() < Duration::from_mins(1));
    }
}
