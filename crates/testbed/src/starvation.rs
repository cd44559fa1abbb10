//! Finds a process that gets no CPU time: one of its threads could run all the time and never did. A thread of higher
//! real-time priority on its core can do this for as long as it likes, and the process then cannot even be killed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The interval at which a process is looked at. Each look reads two small files for each of its threads.
const LOOK: Duration = Duration::from_millis(500);

/// A thread is starved if it could run for this long and did not. Ordinary threads share a core in far shorter turns.
const STARVED: Duration = Duration::from_secs(3);

/// The threads of a process that are ready to run, each with its CPU time and when that time grew last.
#[derive(Debug)]
pub(crate) struct Starvation {
    pid: u32,
    looked: Instant,
    waiting: BTreeMap<u32, (u64, Instant)>,
}

impl Starvation {
    pub(crate) fn new(pid: u32) -> Self {
        Self { pid, looked: Instant::now(), waiting: BTreeMap::new() }
    }

    /// Whether a thread of the process is starved. Call it often; it looks twice a second.
    pub(crate) fn is_seen(&mut self) -> bool {
        let now = Instant::now();
        if now < self.looked + LOOK {
            return false;
        }
        self.looked = now;
        self.see(&kqps_host::ready_threads(self.pid), now)
    }

    /// Notes the threads that are ready `now`, by number, each with its CPU time in nanoseconds.
    fn see(&mut self, ready: &BTreeMap<u32, u64>, now: Instant) -> bool {
        let since = |tid: &u32, cpu_ns: u64| {
            let before = self.waiting.get(tid).filter(|(before_ns, _)| *before_ns == cpu_ns);
            (cpu_ns, before.map_or(now, |(_, since)| *since))
        };
        self.waiting = ready.iter().map(|(tid, cpu_ns)| (*tid, since(tid, *cpu_ns))).collect();
        self.waiting.values().any(|(_, since)| now >= *since + STARVED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_starved_if_it_could_run_for_three_seconds_and_did_not() {
        let (mut starvation, began) = (Starvation::new(0), Instant::now());
        let mut see = |at_ms: u64, ready: &[(u32, u64)]| {
            starvation.see(&ready.iter().copied().collect(), began + Duration::from_millis(at_ms))
        };
        assert!(!see(0, &[(7, 100), (8, 5)]));
        assert!(!see(2_000, &[(7, 100), (8, 6)]));
        assert!(!see(2_999, &[(7, 100)]));
        assert!(see(3_000, &[(7, 100), (8, 6)]));
        // It ran for a nanosecond, and then it slept.
        assert!(!see(3_500, &[(7, 101)]) && !see(6_000, &[]) && !see(6_500, &[(7, 101)]));
        assert!(!see(9_400, &[(7, 101)]) && see(9_500, &[(7, 101)]));
    }
}
