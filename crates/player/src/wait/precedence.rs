//! Running before all other threads of a core, without being throttled for it. The kernel stops a thread that runs
//! first and takes more than 95 % of a second for the rest of the second, up to 50 ms at once. So a busy thread becomes
//! an ordinary one: with the highest priority if it has its core for itself, and as any other if classes of clients share
//! the core. A thread that seldom sleeps gains nothing from waking before others.
//!
//! All times are nanoseconds since the trial's common start.

use kqps_kernel::{clock, priority};

/// How often a thread that runs first checks whether it is busy.
const LOOK_NS: u64 = 20_000_000;

/// A thread is busy if it used more than this share of the time since the last check.
const BUSY: f64 = 0.8;

/// The share for a thread whose core other classes use as well: it may not hold them up for longer.
const BUSY_AMONG_OTHERS: f64 = 0.3;

#[derive(Debug, Default)]
pub(crate) struct Precedence {
    /// Whether the host permitted the thread to run first.
    granted: bool,
    runs_first: bool,
    /// Whether threads of other classes use its core as well.
    is_among_others: bool,
    looked_at_ns: u64,
    /// The thread's CPU time at the last check.
    cpu_ns: u64,
}

impl Precedence {
    /// Makes the calling thread run first, if the host permits it.
    pub(crate) fn ask(is_among_others: bool) -> Self {
        let granted = priority::run_first().is_ok();
        let cpu_ns = clock::thread_cpu_ns();
        Self { granted, runs_first: granted, is_among_others, looked_at_ns: 0, cpu_ns }
    }

    /// Whether the host permitted it.
    pub(crate) fn is_granted(&self) -> bool {
        self.granted
    }

    pub(crate) fn runs_first(&self) -> bool {
        self.runs_first
    }

    /// Checks the thread, if the time for it has come. Call it often.
    #[inline]
    pub(crate) fn keep(&mut self, now_ns: u64) {
        if self.runs_first && now_ns >= self.looked_at_ns + LOOK_NS {
            self.look(now_ns);
        }
    }

    #[cold]
    fn look(&mut self, now_ns: u64) {
        let cpu_ns = clock::thread_cpu_ns();
        let used_ns = cpu_ns - self.cpu_ns;
        let most = if self.is_among_others { BUSY_AMONG_OTHERS } else { BUSY };
        if used_ns as f64 > (now_ns - self.looked_at_ns) as f64 * most {
            let gave_way =
                if self.is_among_others { priority::run_as_usual() } else { priority::yield_least() };
            self.runs_first = gave_way.is_err();
        }
        (self.looked_at_ns, self.cpu_ns) = (now_ns, cpu_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_thread_does_not_run_first_for_long() {
        let runs_first_after = |used_ns: u64, is_among_others: bool| {
            let run = move || {
                let mut precedence = Precedence::ask(is_among_others);
                while clock::thread_cpu_ns() < LOOK_NS {}
                precedence.cpu_ns = clock::thread_cpu_ns() - used_ns;
                precedence.keep(LOOK_NS - 1);
                assert_eq!(precedence.runs_first, precedence.is_granted(), "it is too early to know");
                precedence.keep(LOOK_NS);
                precedence.runs_first
            };
            std::thread::spawn(run).join().unwrap()
        };
        let granted = std::thread::spawn(|| Precedence::ask(false).is_granted()).join().unwrap();
        assert!(!runs_first_after(LOOK_NS * 9 / 10, false));
        assert_eq!(runs_first_after(LOOK_NS / 2, false), granted);
        assert!(!runs_first_after(LOOK_NS / 2, true), "others want the core");
        assert_eq!(runs_first_after(0, true), granted);
    }
}
