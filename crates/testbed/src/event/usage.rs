//! CPU time and memory that the subject uses while an event happens. A thread of the lowest priority reads them.

use std::time::Duration;

use kqps_kernel::priority;
use kqps_observation::EventUsage;

use super::over::{EndOnDrop, Over};
use super::stage::Actor;

/// The interval at which memory is read. A peak between two readings is missed.
const EVERY: Duration = Duration::from_millis(20);

/// Runs `happen`, and watches the subject's processes meanwhile. The usage is `None` if they are not known, or were gone
/// when the event began.
pub(super) fn during<T>(actor: &dyn Actor, happen: impl FnOnce() -> T) -> (T, Option<EventUsage>) {
    let done = Over::default();
    std::thread::scope(|scope| {
        let watched = scope.spawn(|| watch(actor, &done));
        let happened = {
            let _end = EndOnDrop(&done);
            happen()
        };
        (happened, watched.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

fn watch(actor: &dyn Actor, done: &Over) -> Option<EventUsage> {
    let _ = priority::run_last();
    let first = actor.first_pids();
    let cpu_s = |pids: &[u32]| pids.iter().map(|pid| kqps_host::cpu_s_so_far(*pid)).sum::<f64>();
    let (cpu_before_s, before) = (cpu_s(&first), kqps_host::rss_bytes_now(&first));
    let mut most = before;
    while done.wait(EVERY) {
        most = most.max(kqps_host::rss_bytes_now(&actor.first_pids()));
    }
    let last = actor.first_pids();
    most = most.max(kqps_host::rss_bytes_now(&last));
    // The time of processes that ended is not known, as after a restart.
    let spent_s = (last == first && last.iter().all(|pid| kqps_host::lives(*pid)))
        .then(|| (cpu_s(&last) - cpu_before_s).max(0.0));
    (before > 0).then_some(EventUsage { cpu_s: spent_s, rss_before_bytes: before, rss_most_bytes: most })
}

#[cfg(test)]
mod tests {
    use super::super::running::RunningServer;
    use super::*;

    #[test]
    fn work_and_memory_during_an_event_are_seen() {
        let own = RunningServer::new(&[std::process::id()], None);
        let bytes = 64 << 20;
        let (memory, usage) = during(&own, || {
            let memory = vec![1_u8; bytes];
            // The watching thread has read the memory at least once when its end is asked for.
            std::thread::sleep(2 * EVERY);
            memory
        });
        let usage = usage.unwrap();
        assert_eq!(memory.len(), bytes);
        assert!(usage.rss_most_bytes >= usage.rss_before_bytes, "{usage:?}");
        assert!(usage.rss_most_bytes >= bytes as u64 && usage.cpu_s.is_some(), "{usage:?}");
    }

    #[test]
    fn a_server_without_processes_has_no_usage() {
        assert_eq!(during(&RunningServer::default(), || 7), (7, None));
    }
}
