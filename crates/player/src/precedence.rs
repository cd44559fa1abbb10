//! Running before all others of a core, without being stopped for it. The kernel stops a thread that runs first and
//! takes 95 % of a second for the other 5 %, which would be 50 ms in one piece. So one that is busy becomes an ordinary
//! thread, if the one that yields least; whoever seldom sleeps need not be woken before others.
//!
//! All times are nanoseconds since the trial's common start.

use kqps_kernel::{clock, priority};

/// How often a thread that runs first is asked whether it is busy.
const LOOK_NS: u64 = 20_000_000;

/// Busy is who took this share of the time since the last look.
const BUSY: f64 = 0.8;

/// A thread's precedence.
#[derive(Debug, Default)]
pub(crate) struct Precedence {
    /// Whether the host permitted it.
    granted: bool,
    runs_first: bool,
    looked_at_ns: u64,
    /// The thread's CPU time by then.
    cpu_ns: u64,
}

impl Precedence {
    /// Has the calling thread run first, if the host permits it.
    pub(crate) fn ask() -> Self {
        let granted = priority::run_first().is_ok();
        Self { granted, runs_first: granted, looked_at_ns: 0, cpu_ns: clock::thread_cpu_ns() }
    }

    /// Whether the host permitted it.
    pub(crate) fn is_granted(&self) -> bool {
        self.granted
    }

    /// Whether it runs first now.
    pub(crate) fn runs_first(&self) -> bool {
        self.runs_first
    }

    /// Lets time go by.
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
        if used_ns as f64 > (now_ns - self.looked_at_ns) as f64 * BUSY {
            self.runs_first = priority::yield_least().is_err();
        }
        (self.looked_at_ns, self.cpu_ns) = (now_ns, cpu_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_thread_does_not_run_first_for_long() {
        let runs_first_after = |used_ns: u64| {
            let run = move || {
                let mut precedence = Precedence::ask();
                while clock::thread_cpu_ns() < LOOK_NS {}
                precedence.cpu_ns = clock::thread_cpu_ns() - used_ns;
                precedence.keep(LOOK_NS - 1);
                assert_eq!(precedence.runs_first, precedence.is_granted(), "it is too early to tell");
                precedence.keep(LOOK_NS);
                precedence.runs_first
            };
            std::thread::spawn(run).join().unwrap()
        };
        let granted = std::thread::spawn(|| Precedence::ask().is_granted()).join().unwrap();
        assert!(!runs_first_after(LOOK_NS * 9 / 10));
        assert_eq!(runs_first_after(0), granted);
    }
}
