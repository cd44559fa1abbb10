//! A witness of stalls. On each core, a thread that runs before all ordinary threads wakes more than 400 times a second
//! and records how late it was. Ordinary threads that sleep, spin or wait for a lock cannot delay it. Two things can: a
//! hypervisor that withholds the core, and a kernel that does something on it that cannot be interrupted.
//!
//! A program at the usual priority that has the core does not delay the witness, but it delays the subject. So each
//! wake also checks whether the subject got CPU time. If it was ready to run and got none, that is a stall too.
//!
//! A thread that itself runs first, as a player's may, delays the witness too. So watch a subject's cores, not a
//! player's.

mod waits;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kqps_kernel::{affinity, clock, priority};
use kqps_observation::{Stall, StallFacts};

use crate::gauge::cores;
use crate::process;
use waits::Waits;

/// The time between two wakes on a core. A stall longer than this and [`STALL_NS`] together, so one of 3 ms, is always
/// seen. A shorter stall is seen if it meets a wake. A wake costs 7 to 12 µs on a virtual machine, and twice as much if
/// others keep the caches busy, so the period is no shorter. It is no round number, so that the wakes do not always
/// meet a periodic event at the same point.
const PERIOD_NS: u64 = 2_300_000;

/// A wake later than this is a stall. On a virtual machine a sleeping thread wakes some tens of microseconds late. The
/// kernel does not interrupt a system call for it, and a call that sends 64 long segments took up to 0.5 ms on a small
/// machine. Such a call is work of the server, and shows as lateness up to 0.5 ms. A delay that lasts no longer harms
/// no server.
const STALL_NS: u64 = 500_000;

/// How long a thread of the witness is waited for. One that gets no CPU time, since another program runs before it, is left
/// behind, and ends when its core is free.
const PATIENCE: Duration = Duration::from_secs(1);

/// The interval at which the end of a thread is looked for.
const LOOK: Duration = Duration::from_micros(100);

/// Threads that watch cores. Dropping this value ends them.
#[derive(Debug)]
pub struct Witness {
    watch: Arc<Watch>,
    threads: Vec<(u32, JoinHandle<io::Result<CoreStalls>>)>,
}

/// State that the threads share.
#[derive(Debug)]
struct Watch {
    began_ns: u64,
    is_over: AtomicBool,
    /// The subject's processes; empty if they are not known.
    processes: Vec<u32>,
}

/// The wakes of one thread and the stalls of its core.
#[derive(Debug, Default)]
struct CoreStalls {
    wakes: u64,
    stalls: u64,
    /// The longest stalls: how late each wake was, and when it was due. The shortest stall is on top.
    longest: BinaryHeap<Reverse<(u64, u64)>>,
    cost_ns: u64,
}

impl Witness {
    /// Begins to watch these cores, or all that the calling thread may use if the list is empty, and the subject: these
    /// processes with their descendants. All threads watch when this returns. Fails if a core does not exist or is not
    /// allowed here, without the right to run before others, and if a thread gets no CPU time within a second.
    pub fn begin(cpus: &[u32], subject: &[u32]) -> io::Result<Self> {
        let cpus = cores(cpus)?;
        let (sender, receiver) = channel();
        let watch = Arc::new(Watch {
            began_ns: clock::now_ns(),
            is_over: AtomicBool::new(false),
            processes: process::families(subject),
        });
        // If something fails, dropping `witness` ends the threads begun so far.
        let mut witness = Self { watch, threads: Vec::with_capacity(cpus.len()) };
        for (place, &cpu) in cpus.iter().enumerate() {
            // Staggered, so that not all cores wake up at the same moment.
            let offset_ns = PERIOD_NS * place as u64 / cpus.len() as u64;
            let (watch, sender) = (Arc::clone(&witness.watch), sender.clone());
            let run = move || watch.on(cpu, offset_ns, sender);
            let thread = std::thread::Builder::new().name(format!("witness-{cpu}")).spawn(run)?;
            witness.threads.push((cpu, thread));
        }
        drop(sender);
        let deadline = Instant::now() + PATIENCE;
        let begun =
            |_: &u32| receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok();
        let watching = cpus.iter().take_while(|cpu| begun(cpu)).count();
        if watching == cpus.len() { Ok(witness) } else { Err(witness.failure()) }
    }

    /// Ends the watch, within one period if no core stands still, and within a second in any case, and returns what it
    /// saw. A core whose thread failed, or did not end, is not among the cores.
    pub fn end(mut self) -> StallFacts {
        let mut facts = StallFacts {
            began_ns: self.watch.began_ns,
            period_us: PERIOD_NS / 1000,
            ..StallFacts::default()
        };
        let (mut stalls, mut seen, mut cost_ns) = (Vec::new(), 0, 0);
        for (cpu, outcome) in self.ended() {
            let Ok(of_core) = outcome else { continue };
            facts.cores.push(cpu);
            facts.wakes += of_core.wakes;
            (seen, cost_ns) = (seen + of_core.stalls, cost_ns + of_core.cost_ns);
            let stall = |Reverse((late_ns, at_ns))| Stall { cpu, at_ns, late_us: late_ns / 1000 };
            stalls.extend(of_core.longest.into_iter().map(stall));
        }
        facts.keep(stalls, seen);
        (facts.ended_ns, facts.cost_s) = (clock::now_ns(), cost_ns as f64 / 1e9);
        facts
    }

    /// The reason why not all threads watch.
    fn failure(mut self) -> io::Error {
        let errors: Vec<_> = self.ended().into_iter().filter_map(|(_, outcome)| outcome.err()).collect();
        errors.into_iter().next().unwrap_or_else(|| io::Error::other("the witness does not watch"))
    }

    /// Ends the threads, and returns what each saw of its core. Those that do not end in time are missing.
    fn ended(&mut self) -> Vec<(u32, io::Result<CoreStalls>)> {
        self.watch.is_over.store(true, Ordering::Relaxed);
        let deadline = Instant::now() + PATIENCE;
        while self.threads.iter().any(|(_, thread)| !thread.is_finished()) && Instant::now() < deadline {
            std::thread::sleep(LOOK);
        }
        let ended = self.threads.drain(..).filter(|(_, thread)| thread.is_finished());
        let outcome = |thread: JoinHandle<io::Result<CoreStalls>>| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the witness panicked")))
        };
        ended.map(|(cpu, thread)| (cpu, outcome(thread))).collect()
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        // Neither the results nor the errors matter any more.
        drop(self.ended());
    }
}

impl Watch {
    /// Watches one core until the watch is over. Sends to `begins` when it starts.
    fn on(&self, cpu: u32, offset_ns: u64, begins: Sender<()>) -> io::Result<CoreStalls> {
        let of = |error: io::Error, words: &str| io::Error::new(error.kind(), format!("{words}: {error}"));
        affinity::pin_thread(cpu).map_err(|error| of(error, "cannot watch for stalls"))?;
        priority::run_first().map_err(|error| {
            let words = "cannot watch for stalls: a thread that runs before others needs CAP_SYS_NICE, or a limit of RLIMIT_RTPRIO";
            of(error, words)
        })?;
        let mut seen = CoreStalls {
            longest: BinaryHeap::with_capacity(StallFacts::STALLS_MOST),
            ..CoreStalls::default()
        };
        let first_ns = self.began_ns + offset_ns;
        let began_ns = clock::now_ns();
        let mut waits = Waits::begin(&self.processes, cpu, began_ns);
        let mut at_ns = next_ns(first_ns, began_ns);
        // There is no receiver any more if another core's thread has failed.
        let _ = begins.send(());
        drop(begins);
        // The last wake counts too, since a delay of the end is also a stall.
        while !self.is_over.load(Ordering::Relaxed) {
            clock::sleep_until_ns(at_ns);
            let now_ns = clock::now_ns();
            seen.wake(at_ns, now_ns);
            if let Some((since_ns, late_ns)) = waits.as_mut().and_then(|waits| waits.look(now_ns)) {
                seen.note(late_ns, since_ns);
            }
            at_ns = next_ns(first_ns, now_ns);
        }
        if let Some((since_ns, late_ns)) = waits.and_then(|waits| waits.end(clock::now_ns())) {
            seen.note(late_ns, since_ns);
        }
        seen.cost_ns = clock::thread_cpu_ns();
        Ok(seen)
    }
}

impl CoreStalls {
    /// Records a wake that was due at `at_ns` and came at `now_ns`.
    fn wake(&mut self, at_ns: u64, now_ns: u64) {
        self.wakes += 1;
        self.note(now_ns - at_ns, at_ns);
    }

    /// Records a delay of `late_ns` from `at_ns` on. A longer one than [`STALL_NS`] is a stall.
    fn note(&mut self, late_ns: u64, at_ns: u64) {
        if late_ns > STALL_NS {
            self.stalls += 1;
            if self.longest.len() == StallFacts::STALLS_MOST {
                if self.longest.peek().is_some_and(|&Reverse((shortest_ns, _))| shortest_ns >= late_ns) {
                    return;
                }
                self.longest.pop();
            }
            self.longest.push(Reverse((late_ns, at_ns)));
        }
    }
}

/// The first moment after `now_ns` that is a whole number of periods after `first_ns`, or `first_ns` itself. Moments
/// are multiplied, so they do not drift. Moments within a stall are skipped, so a stall is recorded once.
fn next_ns(first_ns: u64, now_ns: u64) -> u64 {
    match now_ns.checked_sub(first_ns) {
        Some(since_ns) => first_ns + (since_ns / PERIOD_NS + 1) * PERIOD_NS,
        None => first_ns,
    }
}

#[cfg(test)]
mod tests {
    use kqps_skips::{Capability, skip};

    use super::*;

    #[test]
    fn moments_do_not_drift_and_those_slept_through_are_passed_over() {
        let first_ns = 5_000_000;
        for (now_ns, then_ns) in [
            (1_000_000, 5_000_000),
            (5_000_000, 7_300_000),
            (7_299_999, 7_300_000),
            (7_300_000, 9_600_000),
            (7_330_000, 9_600_000),
            (12_100_000, 14_200_000),
        ] {
            assert_eq!(next_ns(first_ns, now_ns), then_ns, "{now_ns}");
        }
    }

    #[test]
    fn the_longest_stalls_are_kept_and_all_are_counted() {
        let mut seen = CoreStalls::default();
        for number in 0..3000 {
            // Every other wake is a stall, each longer than the one before.
            let late_ns = if number % 2 == 0 { STALL_NS } else { STALL_NS + number };
            seen.wake(number * PERIOD_NS, number * PERIOD_NS + late_ns);
        }
        assert_eq!((seen.wakes, seen.stalls, seen.longest.len()), (3000, 1500, StallFacts::STALLS_MOST));
        // The shortest of the last thousand stalls.
        let Reverse(shortest) = *seen.longest.peek().unwrap();
        assert_eq!(shortest, (STALL_NS + 1001, 1001 * PERIOD_NS));
    }

    #[test]
    fn no_thread_outlives_its_witness() {
        let begun = Witness::begin(&[], &[]).map_err(|error| skip(Capability::RealTime, error));
        let Ok(witness) = begun else { return };
        // Each thread holds a reference to the watch.
        let watch = Arc::downgrade(&witness.watch);
        let panicked = std::thread::spawn(move || {
            let _witness = witness;
            panic!("so that it is dropped");
        });
        assert!(panicked.join().is_err());
        assert!(watch.upgrade().is_none());

        let witness = Witness::begin(&[], &[]).unwrap();
        let watch = Arc::downgrade(&witness.watch);
        witness.end();
        assert!(watch.upgrade().is_none());
    }
}
