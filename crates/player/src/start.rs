//! The common start of a trial's threads: as soon as they are ready, or at the time that the plan gives.

use std::time::{SystemTime, UNIX_EPOCH};

use kqps_kernel::clock;
use kqps_kernel::interrupts::Interrupts;

/// The least time between opening the gate and the common start, nanoseconds. The threads wake up in it.
const LEAD_NS: u64 = 2_000_000;

/// Nanoseconds before a given start at which the first reading of the watch is over: [`LEAD_NS`], and 2 ms for a
/// reading that takes longer than those by which its duration was found. A longer time would count more of the wait as
/// time of the trial.
pub(crate) const WATCHED_NS: u64 = LEAD_NS + 2_000_000;

/// The start of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    /// Milliseconds since 1970.
    pub(crate) unix_ms: u64,
    /// Nanoseconds on the monotonic clock.
    pub(crate) monotonic_ns: u64,
    /// How much later than asked it is, nanoseconds; `None` without a given time.
    pub(crate) late_ns: Option<u64>,
}

impl Start {
    /// The start of threads that are ready now: at `at_ns`, or at once if that is over or an interrupt came.
    pub(crate) fn new(at_ns: Option<u64>, interrupts: &Interrupts) -> Self {
        let now_ns = clock::now_ns();
        let unix_ms =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let at_ns = at_ns.filter(|_| !interrupts.is_asked());
        Self::at(at_ns, now_ns, unix_ms)
    }

    fn at(at_ns: Option<u64>, now_ns: u64, now_unix_ms: u64) -> Self {
        let earliest_ns = now_ns + LEAD_NS;
        let monotonic_ns = at_ns.map_or(earliest_ns, |at_ns| at_ns.max(earliest_ns));
        Self {
            unix_ms: now_unix_ms + (monotonic_ns - now_ns) / 1_000_000,
            monotonic_ns,
            late_ns: at_ns.map(|at_ns| monotonic_ns - at_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_start_is_kept_if_the_threads_are_ready_before_it() {
        let in_time = Start::at(Some(50_000_000), 20_000_000, 1000);
        assert_eq!(in_time, Start { unix_ms: 1030, monotonic_ns: 50_000_000, late_ns: Some(0) });
        let late = Start::at(Some(50_000_000), 49_000_000, 1000);
        assert_eq!(late, Start { unix_ms: 1002, monotonic_ns: 51_000_000, late_ns: Some(1_000_000) });
        let over = Start::at(Some(50_000_000), 1_050_000_000, 2000);
        assert_eq!(over.late_ns, Some(1_002_000_000));
        assert_eq!(Start::at(None, 7, 1000), Start { unix_ms: 1002, monotonic_ns: 2_000_007, late_ns: None });
    }

    #[test]
    fn after_an_interrupt_no_start_is_waited_for() {
        let interrupts = Interrupts::default();
        interrupts.ask();
        let in_an_hour = clock::now_ns() + 3_600_000_000_000;
        assert_eq!(Start::new(Some(in_an_hour), &interrupts).late_ns, None);
    }
}
