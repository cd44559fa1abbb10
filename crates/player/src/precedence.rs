//! Running before all others of a core, without being stopped for it. The kernel stops a thread that runs first and
//! takes 95 % of a second for the other 5 %, which would be 50 ms in one piece. So one that took most of the last second
//! becomes an ordinary thread, if the one that yields least; and so does one that never sleeps, which would keep the kernel's
//! own threads from the core.
//!
//! All times are nanoseconds since the trial's common start.

use std::collections::VecDeque;

use kqps_kernel::{clock, priority};

/// How often a thread that runs first is asked whether it is busy.
const LOOK_NS: u64 = 20_000_000;

/// Who took this share of the time since the last look never sleeps.
const SLEEPLESS: f64 = 0.97;

/// The kernel counts by this long a time.
const WINDOW_NS: u64 = 1_000_000_000;

/// In that a thread may take this share, which leaves room for what it takes until the next look.
const BUSY: f64 = 0.85;

/// A thread's precedence.
#[derive(Debug, Default)]
pub(crate) struct Precedence {
    /// Whether the host permitted it.
    granted: bool,
    runs_first: bool,
    /// When it was looked at in the last second, and the thread's CPU time by then; the newest last.
    looks: VecDeque<(u64, u64)>,
}

impl Precedence {
    /// Has the calling thread run first, if the host permits it.
    pub(crate) fn ask() -> Self {
        let granted = priority::run_first().is_ok();
        let mut looks = VecDeque::with_capacity((WINDOW_NS / LOOK_NS) as usize + 2);
        looks.push_back((0, clock::thread_cpu_ns()));
        Self { granted, runs_first: granted, looks }
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
        if self.runs_first && self.looks.back().is_some_and(|(looked_ns, _)| now_ns >= looked_ns + LOOK_NS) {
            self.look(now_ns, clock::thread_cpu_ns());
        }
    }

    #[cold]
    fn look(&mut self, now_ns: u64, cpu_ns: u64) {
        let last = self.looks.back().copied().unwrap_or_default();
        self.looks.push_back((now_ns, cpu_ns));
        while self.looks.get(1).is_some_and(|(looked_ns, _)| looked_ns + WINDOW_NS <= now_ns) {
            self.looks.pop_front();
        }
        let used_ns = |(_, earlier_ns): (u64, u64)| cpu_ns.saturating_sub(earlier_ns) as f64;
        let of_second_ns = self.looks.front().map_or(0.0, |&oldest| used_ns(oldest));
        let never_sleeps = used_ns(last) > (now_ns - last.0) as f64 * SLEEPLESS;
        if never_sleeps || of_second_ns > WINDOW_NS as f64 * BUSY {
            self.runs_first = priority::yield_least().is_err();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For how many looks a thread runs first that takes such a share of the time.
    fn looks_of(share: f64) -> Option<u64> {
        let run = move || {
            let mut precedence = Precedence::ask();
            if !precedence.is_granted() {
                return None;
            }
            precedence.looks = [(0, 0)].into();
            let look = |number: u64| (number * LOOK_NS, (number as f64 * share * LOOK_NS as f64) as u64);
            Some(
                (1..=200)
                    .take_while(|&number| {
                        let (now_ns, cpu_ns) = look(number);
                        precedence.look(now_ns, cpu_ns);
                        precedence.runs_first()
                    })
                    .count() as u64,
            )
        };
        std::thread::spawn(run).join().unwrap()
    }

    #[test]
    fn a_thread_runs_first_until_it_took_most_of_a_second_or_never_slept() {
        let Some(rested) = looks_of(0.5) else { return };
        assert_eq!(rested, 200, "as long as it likes");
        assert_eq!(looks_of(0.84), Some(200));
        assert_eq!(looks_of(0.9), Some(47), "until it took 0.85 s");
        assert_eq!(looks_of(0.98), Some(0));
    }

    #[test]
    fn it_is_looked_at_now_and_then() {
        let run = || {
            let mut precedence = Precedence::ask();
            precedence.looks = [(0, 0)].into();
            precedence.runs_first = true;
            precedence.keep(LOOK_NS - 1);
            assert_eq!(precedence.looks.len(), 1);
            precedence.keep(LOOK_NS);
            assert_eq!(precedence.looks.len(), 2);
        };
        std::thread::spawn(run).join().unwrap();
    }
}
