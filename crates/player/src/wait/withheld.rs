//! Time in which a core was withheld from a thread that owns it. A hypervisor may take a core away without reporting
//! the time as stolen. The thread can see this only while it has nothing to do, and so does nothing that might take as
//! long.

use kqps_kernel::clock;

/// A shorter interruption may be an interrupt.
const LEAST_NS: u64 = 1_000_000;

#[derive(Debug, Default)]
pub(crate) struct Withheld {
    ns: u64,
    /// Whether the thread runs before all others of its core. Only then can no other thread have delayed it.
    pub(crate) runs_first: bool,
}

impl Withheld {
    /// The time in all, nanoseconds.
    pub(crate) fn ns(&self) -> u64 {
        self.ns
    }

    /// Records that the thread slept and woke `late_ns` late.
    pub(super) fn slept(&mut self, late_ns: u64) {
        if self.runs_first && late_ns > LEAST_NS {
            self.ns += late_ns;
        }
    }

    /// Records that the thread was awake and its clock advanced by `gap_ns` between two readings. `used_ns` is the CPU
    /// time that it used since the first reading or earlier. While another thread runs, its CPU time does not advance.
    /// While a hypervisor withholds the core without reporting it, the CPU time does. Returns how much was withheld,
    /// nanoseconds.
    pub(super) fn was_awake(&mut self, gap_ns: u64, used_ns: u64) -> u64 {
        let withheld_ns = if gap_ns > LEAST_NS { gap_ns.min(used_ns) } else { 0 };
        self.ns += withheld_ns;
        withheld_ns
    }
}

/// A thread that spins with nothing to do.
pub(super) struct Spinning<'a> {
    withheld: &'a mut Withheld,
    /// The last reading of the clock, and the CPU time at its last reading.
    looked_ns: u64,
    cpu_ns: u64,
    awake_ns: u64,
}

impl<'a> Spinning<'a> {
    /// Begins at `now_ns`.
    pub(super) fn begin(withheld: &'a mut Withheld, now_ns: u64) -> Self {
        Self { withheld, looked_ns: now_ns, cpu_ns: clock::thread_cpu_ns(), awake_ns: 0 }
    }

    /// Records a reading of the clock, `now_ns`.
    #[inline]
    pub(super) fn look(&mut self, now_ns: u64) {
        let gap_ns = now_ns - self.looked_ns;
        self.looked_ns = now_ns;
        self.awake_ns += gap_ns;
        if gap_ns > LEAST_NS {
            self.notice(gap_ns);
        }
    }

    /// For how long the thread was really awake, nanoseconds.
    pub(super) fn awake_ns(self) -> u64 {
        self.awake_ns
    }

    #[cold]
    fn notice(&mut self, gap_ns: u64) {
        let cpu_ns = clock::thread_cpu_ns();
        self.awake_ns -= self.withheld.was_awake(gap_ns, cpu_ns - self.cpu_ns);
        self.cpu_ns = cpu_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_sleeper_that_runs_first_was_without_its_core() {
        let mut withheld = Withheld::default();
        withheld.slept(5_000_000);
        assert_eq!(withheld.ns(), 0, "others may have run");
        withheld.runs_first = true;
        for late_ns in [1_000_000, 3_000_000, 0, 2_000_000] {
            withheld.slept(late_ns);
        }
        assert_eq!(withheld.ns(), 5_000_000);
    }

    #[test]
    fn what_another_thread_took_was_not_withheld() {
        let mut withheld = Withheld::default();
        assert_eq!(withheld.was_awake(1_000_000, 1_000_000), 0, "an interrupt");
        assert_eq!(withheld.was_awake(9_000_000, 9_010_000), 9_000_000);
        assert_eq!(withheld.was_awake(9_000_000, 10_000), 10_000, "another's turn");
        assert_eq!(withheld.ns(), 9_010_000);
    }

    #[test]
    fn time_without_the_core_is_not_spent_awake() {
        let mut withheld = Withheld::default();
        let mut spinning = Spinning::begin(&mut withheld, 0);
        while clock::thread_cpu_ns() < spinning.cpu_ns + 3_000_000 {}
        // The clock advances by 3 ms at once, and the CPU time advances as much.
        for now_ns in [10_000, 20_000, 3_020_000, 3_030_000] {
            spinning.look(now_ns);
        }
        assert_eq!(spinning.awake_ns(), 30_000);
        assert_eq!(withheld.ns(), 3_000_000);
    }
}
