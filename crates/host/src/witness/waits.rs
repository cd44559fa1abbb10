//! A subject that is ready to run and gets no CPU time, because an ordinary program has its core. A thread that runs
//! before all others does not notice that for itself; it looks at what the subject got since it last woke.

use kqps_kernel::clock;

use crate::process;

/// With less CPU time than this between two looks the subject did not get on, nanoseconds: an interrupt may be booked
/// on it.
const LITTLE_NS: u64 = 20_000;

/// Looks at more processes than this would cost the core too much; then it is not looked at all.
const PROCESSES_MOST: usize = 8;

/// What a subject got, from look to look.
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
    /// The last look at which it had got CPU time, or slept.
    at_ns: u64,
    /// Whether a look since then found it ready to run, without more CPU time.
    waited: bool,
}

impl Waits {
    /// Begins to look at these processes. `None` if there is no process, if there are too many, or if one of them is
    /// gone.
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

    /// A look. Returns the wait that it ended, if any: since when at most, and for how long at most less the time
    /// between two looks, nanoseconds.
    pub(super) fn look(&mut self, now_ns: u64) -> Option<(u64, u64)> {
        let cpu_ns = self.cpu_ns()?;
        let (processes, cpu) = (&self.processes, self.cpu);
        self.progress.seen(now_ns, cpu_ns, || is_ready(processes, cpu))
    }

    /// The wait that lasts still.
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
        // It got on, or slept and so waited for nothing.
        let wait = self.wait(now_ns);
        (self.at_ns, self.waited) = (now_ns, false);
        wait
    }

    fn wait(&self, now_ns: u64) -> Option<(u64, u64)> {
        self.waited.then(|| (self.at_ns, now_ns - self.at_ns))
    }
}

/// Whether a thread of these processes could run on this core, and does not.
fn is_ready(processes: &[u32], cpu: u32) -> bool {
    processes.iter().any(|&pid| process::is_ready_on(pid, cpu))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Looks every 2 ms at a subject that got so many nanoseconds since the last one, and was ready to run or not; the
    /// waits.
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
        assert_eq!(waits(&[(MS, true), (MS, false), (30_000, true)]), [], "it gets on");
        // One that has little to do is met just before it runs now and then, and has not waited since it last did much.
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
