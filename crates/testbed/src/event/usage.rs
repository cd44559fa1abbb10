//! CPU time and memory that the subject uses while an event happens.

use std::time::Duration;

use kqps_kernel::priority;
use kqps_observation::EventUsage;

use super::over::{EndOnDrop, Over};
use super::stage::Actor;

/// The interval at which memory is read. A peak between two readings is missed.
const EVERY: Duration = Duration::from_millis(20);

/// The subject just before an event.
#[derive(Debug)]
pub(super) struct UsageBefore {
    /// Its processes that do not descend from each other.
    pids: Vec<u32>,
    cpu_s: f64,
    rss_bytes: u64,
}

impl UsageBefore {
    /// Reads the subject's processes, which takes up to a millisecond.
    pub(super) fn read(actor: &dyn Actor) -> Self {
        let pids = actor.first_pids();
        let (cpu_s, rss_bytes) = (cpu_s(&pids), kqps_host::rss_bytes_now(&pids));
        Self { pids, cpu_s, rss_bytes }
    }

    /// Runs `happen`, and watches the subject's memory meanwhile. The usage is `None` if its processes are not known, or were
    /// gone before.
    pub(super) fn during<T>(self, actor: &dyn Actor, happen: impl FnOnce() -> T) -> (T, Option<EventUsage>) {
        let done = Over::default();
        let (happened, last, spent_s, most_bytes) = std::thread::scope(|scope| {
            let watched = scope.spawn(|| most_bytes(actor, &done));
            let _end = EndOnDrop(&done);
            let happened = happen();
            let last = actor.first_pids();
            let spent_s = (cpu_s(&last) - self.cpu_s).max(0.0);
            let most_bytes = kqps_host::rss_bytes_now(&last);
            done.end();
            let watched_bytes = watched.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (happened, last, spent_s, most_bytes.max(watched_bytes))
        });
        // The time of processes that ended is not known, as after a restart.
        let are_same = last == self.pids && last.iter().all(|pid| kqps_host::lives(*pid));
        let usage = EventUsage {
            cpu_s: are_same.then_some(spent_s),
            rss_before_bytes: self.rss_bytes,
            rss_most_bytes: most_bytes.max(self.rss_bytes),
        };
        (happened, (self.rss_bytes > 0).then_some(usage))
    }
}

fn cpu_s(pids: &[u32]) -> f64 {
    pids.iter().map(|pid| kqps_host::cpu_s_so_far(*pid)).sum()
}

/// The most memory until the event is done, read by a thread of the lowest priority.
fn most_bytes(actor: &dyn Actor, done: &Over) -> u64 {
    let _ = priority::run_last();
    let mut most = 0;
    while done.wait(EVERY) {
        most = most.max(kqps_host::rss_bytes_now(&actor.first_pids()));
    }
    most
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::running::RunningServer;
    use super::*;

    #[test]
    fn work_and_a_peak_of_memory_during_an_event_are_seen() {
        let own = RunningServer::new(&[std::process::id()], None);
        let before = UsageBefore::read(&own);
        let bytes = 256_usize << 20;
        let ((), usage) = before.during(&own, || {
            let memory = vec![1_u8; bytes];
            let began = Instant::now();
            while began.elapsed() < 5 * EVERY {
                std::hint::black_box(&memory);
            }
        });
        let usage = usage.unwrap();
        // Other tests of this process may free some of theirs meanwhile.
        assert!(usage.rss_most_bytes - usage.rss_before_bytes >= bytes as u64 / 2, "{usage:?}");
        assert!(usage.cpu_s.is_some_and(|cpu_s| cpu_s > 0.0), "{usage:?}");
    }

    #[test]
    fn a_server_without_processes_has_no_usage() {
        let none = RunningServer::default();
        assert_eq!(UsageBefore::read(&none).during(&none, || 7), (7, None));
    }
}
