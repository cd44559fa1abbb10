//! A witness of cores that stand still: a thread on each that wakes before all others, again and again, and notes by how
//! much it came late. Where a core is withheld, by the hypervisor or by somebody who runs first, it cannot come in time; a
//! program that stands still by itself, asleep or busy, does not keep it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

use kqps_kernel::{affinity, clock, priority};
use kqps_observation::gauge::{Stall, StallFacts};

/// From one waking to the next. A server's buffer lasts a millisecond or more, and each waking takes the core some
/// microseconds: at this period below 0.5 % of it.
const PERIOD_NS: u64 = 2_000_000;

/// A witness that wakes later than this is a sign: by less it is late when the kernel ends a long system call of others.
const LATE_NS: u64 = 200_000;

/// So many standstills of a core are kept, the longest.
const KEPT: usize = 500;

/// Witnesses at work. Dropping it ends them.
#[derive(Debug)]
pub struct Witness {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Seen>>,
    cores: Vec<u32>,
}

/// What the witness of one core saw.
#[derive(Debug, Default)]
struct Seen {
    wakes: u64,
    cost_ns: u64,
    stalls: Vec<Stall>,
}

impl Witness {
    /// Begins to watch these cores. Fails where one of them is not allowed here, or without the right to run first
    /// (`CAP_SYS_NICE`, or a limit of `RLIMIT_RTPRIO`).
    pub fn begin(cpus: &[u32]) -> io::Result<Self> {
        let mut witness =
            Self { stop: Arc::new(AtomicBool::new(false)), threads: Vec::new(), cores: cpus.to_vec() };
        let count = cpus.len() as u64;
        for (number, &cpu) in (0..).zip(cpus) {
            // They take turns: cores that sleep together are not all woken at the same moment.
            let first_ns = clock::now_ns() + PERIOD_NS + PERIOD_NS * number / count;
            let stop = Arc::clone(&witness.stop);
            let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
            witness.threads.push(thread::spawn(move || {
                let prepared = prepare(cpu);
                let may_watch = prepared.is_ok();
                // Who waits for this is alive: it is received below.
                let _ = ready.send(prepared);
                if may_watch { watch(cpu, first_ns, &stop) } else { Seen::default() }
            }));
            is_ready.recv().map_err(|_| io::Error::other("a witness panicked"))??;
        }
        Ok(witness)
    }

    /// Ends the watch, and returns what was seen.
    pub fn end(mut self) -> StallFacts {
        self.stop.store(true, Relaxed);
        let mut facts = StallFacts {
            period_us: PERIOD_NS / 1000,
            cores: std::mem::take(&mut self.cores),
            ..StallFacts::default()
        };
        for seen in self.threads.drain(..).filter_map(|thread| thread.join().ok()) {
            facts.wakes += seen.wakes;
            facts.cost_s += seen.cost_ns as f64 / 1e9;
            facts.stalls.extend(seen.stalls);
        }
        facts
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            // What it saw nobody asks for.
            let _ = thread.join();
        }
    }
}

fn prepare(cpu: u32) -> io::Result<()> {
    affinity::pin_thread(cpu)?;
    clock::set_timer_slack_ns(1)?;
    priority::run_first()
        .map_err(|error| io::Error::new(error.kind(), format!("a witness has to run first: {error}")))
}

fn watch(cpu: u32, first_ns: u64, stop: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let mut at_ns = first_ns;
    let before_ns = clock::thread_cpu_ns();
    while !stop.load(Relaxed) {
        clock::sleep_until_ns(at_ns);
        seen.wakes += 1;
        let late_ns = clock::now_ns() - at_ns;
        if late_ns > LATE_NS {
            seen.keep(Stall { cpu, at_ns, late_us: late_ns / 1000 });
        }
        // Moments that have gone by are left out.
        at_ns += PERIOD_NS * (1 + late_ns / PERIOD_NS);
    }
    seen.cost_ns = clock::thread_cpu_ns() - before_ns;
    seen
}

impl Seen {
    fn keep(&mut self, stall: Stall) {
        if self.stalls.len() == KEPT {
            let least = (0..).zip(&self.stalls).min_by_key(|(_, kept)| kept.late_us).map(|(at, _)| at);
            let Some(least) = least.filter(|&at: &usize| self.stalls[at].late_us < stall.late_us) else {
                return;
            };
            self.stalls.remove(least);
        }
        self.stalls.push(stall);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A witness of one core; none where that is not permitted.
    fn witness() -> Option<(u32, Witness)> {
        let cpu = *affinity::allowed().unwrap().last().unwrap();
        match Witness::begin(&[cpu]) {
            Ok(witness) => Some((cpu, witness)),
            Err(error) => {
                println!("skipped: {error}");
                None
            }
        }
    }

    /// Has the calling thread keep a core for so long, and returns when it began and ended.
    fn spin_ns(duration: Duration) -> (u64, u64) {
        let began_ns = clock::now_ns();
        let end_ns = began_ns + duration.as_nanos() as u64;
        while clock::now_ns() < end_ns {}
        (began_ns, clock::now_ns())
    }

    #[test]
    fn who_runs_first_for_a_while_is_seen_to_withhold_the_core() {
        let Some((cpu, witness)) = witness() else { return };
        let taken: Vec<(u64, u64)> = thread::spawn(move || {
            affinity::pin_thread(cpu).unwrap();
            priority::run_first().unwrap();
            let spin = |_| {
                clock::sleep_until_ns(clock::now_ns() + 10_000_000);
                spin_ns(Duration::from_millis(5))
            };
            (0..10).map(spin).collect()
        })
        .join()
        .unwrap();
        let facts = witness.end();
        assert!(facts.wakes > 0 && facts.cost_s > 0.0, "{facts:?}");
        for (began_ns, ended_ns) in taken {
            let seen = facts.within(began_ns, ended_ns);
            let length_s = (ended_ns - began_ns) as f64 / 1e9;
            assert!(seen.longest_s() >= length_s, "{length_s} of {seen:?}");
        }
    }

    #[test]
    fn the_longest_are_kept() {
        let mut seen = Seen::default();
        for late_us in (0..2 * KEPT as u64).rev() {
            seen.keep(Stall { cpu: 0, at_ns: 0, late_us });
        }
        assert_eq!(seen.stalls.len(), KEPT);
        assert!(seen.stalls.iter().all(|stall| stall.late_us >= KEPT as u64));
    }

    #[test]
    fn nothing_is_left_of_one_that_is_dropped() {
        let Some((_, witness)) = witness() else { return };
        let stop = Arc::clone(&witness.stop);
        drop(witness);
        assert_eq!(Arc::strong_count(&stop), 1, "its threads have ended");
    }
}
