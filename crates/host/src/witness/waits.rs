//! Detects a subject that is ready to run and gets no CPU time, because an ordinary program has its core. Such a
//! program does not delay a thread that runs before all others. So at each wake this thread looks at how much CPU time
//! the subject got since the last one.

use kqps_kernel::clock;

use crate::process;

/// A subject that got less CPU time than this between two looks made no progress, nanoseconds. The kernel may charge
/// an interrupt to it.
const LITTLE_NS: u64 = 20_000;

/// A subject with more processes is not watched, since the looks would take too much of the core's time.
const PROCESSES_MOST: usize = 8;

/// Watches whether a subject makes progress, from look to look.
#[derive(Debug)]
pub(super) struct Waits {
    processes: Vec<u32>,
    cpu: u32,
    progress: Progress,
}

/// The CPU time of a subject, and whether it waited for more.
#[derive(Debug)]
struct Progress {
    cpu_ns: u64,
    /// The last look that saw it make progress or sleep.
    at_ns: u64,
    /// Whether a look since then saw it ready to run and without progress.
    waited: bool,
}

impl Waits {
    /// Begins to watch these processes. `None` if there are none, if there are too many, or if one of them has ended.
    pub(super) fn begin(processes: &[u32], cpu: u32, now_ns: u64) -> Option<Self> {
        if processes.is_empty() || processes.len() > PROCESSES_MOST {
            return None;
        }
        let mut waits = Self {
            processes: processes.to_vec(),
            cpu,
            progress: Progress { cpu_ns: 0, at_ns: now_ns, waited: false },
        };
        waits.progress.cpu_ns = waits.cpu_ns()?;
        Some(waits)
    }

    /// Looks at the subject. If a wait has ended, returns the last look before it, and the time from there to this
    /// look, both in nanoseconds. The wait was not longer than that.
    pub(super) fn look(&mut self, now_ns: u64) -> Option<(u64, u64)> {
        let cpu_ns = self.cpu_ns()?;
        let (processes, cpu) = (&self.processes, self.cpu);
        self.progress.seen(now_ns, cpu_ns, || is_ready(processes, cpu))
    }

    /// The wait that has not ended yet, as [`Self::look`] returns it.
    pub(super) fn end(&self, now_ns: u64) -> Option<(u64, u64)> {
        self.progress.wait(now_ns)
    }

    fn cpu_ns(&self) -> Option<u64> {
        self.processes.iter().map(|&pid| clock::process_cpu_ns_of(pid).ok()).sum()
    }
}

impl Progress {
    fn seen(&mut self, now_ns: u64, cpu_ns: u64, is_ready: impl FnOnce() -> bool) -> Option<(u64, u64)> {
        let got_ns = cpu_ns.saturating_sub(self.cpu_ns);
        self.cpu_ns = cpu_ns;
        if got_ns < LITTLE_NS && is_ready() {
            self.waited = true;
            return None;
        }
        // It made progress, or it slept and waited for nothing.
        let wait = self.wait(now_ns);
        (self.at_ns, self.waited) = (now_ns, false);
        wait
    }

    fn wait(&self, now_ns: u64) -> Option<(u64, u64)> {
        self.waited.then(|| (self.at_ns, now_ns - self.at_ns))
    }
}

/// Whether a thread of these processes is ready to run on this core. It does not run, since the calling thread has
/// the core.
fn is_ready(processes: &[u32], cpu: u32) -> bool {
    processes.iter().any(|&pid| process::is_ready_on(pid, cpu))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Looks at a subject every 2 ms, and returns the waits. Each look gives the CPU time that the subject got since
    /// the last one, nanoseconds, and whether it was ready to run.
    fn waits(looks: &[(u64, bool)]) -> Vec<(u64, u64)> {
        let mut progress = Progress { cpu_ns: 0, at_ns: 0, waited: false };
        let (mut cpu_ns, mut now_ns) = (0, 0);
        let mut look = |&(got_ns, is_ready): &(u64, bool)| {
            (cpu_ns, now_ns) = (cpu_ns + got_ns, now_ns + 2 * MS);
            progress.seen(now_ns, cpu_ns, || is_ready)
        };
        looks.iter().filter_map(&mut look).collect()
    }

    #[test]
    fn a_subject_that_is_ready_and_gets_nothing_waits() {
        let busy = (MS, true);
        assert_eq!(waits(&[busy, (0, true), (0, true), busy, busy]), [(2 * MS, 6 * MS)]);
        // It may have slept first, which is no wait, and an interrupt is no progress.
        assert_eq!(waits(&[busy, (0, false), (5_000, true), busy]), [(4 * MS, 4 * MS)]);
        assert_eq!(waits(&[busy, (0, true), busy, (0, true), busy]), [(2 * MS, 4 * MS), (6 * MS, 4 * MS)]);
    }

    #[test]
    fn a_subject_that_sleeps_or_was_stopped_does_not_wait() {
        assert_eq!(waits(&[(MS, true), (0, false), (0, false), (0, false), (MS, true)]), []);
        assert_eq!(waits(&[(MS, true), (MS, false), (30_000, true)]), [], "it makes progress");
        // A look may come just before a subject with little to do runs. That is a wait from the look before to the look
        // after.
        let idle = [(5_000, false); 20];
        let seldom_ready = [&idle[..], &[(5_000, true)], &idle[..]].concat();
        assert_eq!(waits(&seldom_ready), [(40 * MS, 4 * MS)]);
    }

    #[test]
    fn a_wait_that_lasts_to_the_end_counts() {
        let mut progress = Progress { cpu_ns: 0, at_ns: MS, waited: false };
        assert_eq!(progress.wait(9 * MS), None);
        progress.seen(3 * MS, 0, || true);
        assert_eq!(progress.wait(9 * MS), Some((MS, 8 * MS)));
    }
}
