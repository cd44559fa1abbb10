//! Profiles a subject: where its threads spend their time on a core, and what they wait for. A thread of its own reads
//! the kernel's samples while the trial runs, and sums them up; names are looked up at the end.
//!
//! Memory is bounded: a fixed number of call chains, threads and locks is kept apart, and whatever comes later is
//! summed up without its call chain.

mod classify;
mod collect;
mod demangle;
mod elf;
mod events;
mod fold;
mod proc;
mod samplers;
mod stacks;
mod symbols;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use kqps_kernel::{clock, limits};
use kqps_observation::profile::{ProfileFacts, ProfileSource};

use crate::process;
use collect::{Collector, Gathered};
use samplers::Samplers;
use symbols::Symbols;

/// Samples of the CPU clock a second. It is no divisor of the kernel's ticks, so that samples do not follow them.
const HZ: f64 = 499.0;

/// Nanoseconds between two samples of the CPU clock.
const PERIOD_NS: u64 = (1e9 / HZ) as u64;

/// The pause between two readings of the rings.
const PAUSE: Duration = Duration::from_millis(10);

/// The threads of the subject are looked up again after this many readings.
const LOOK_AFTER: u32 = 10;

/// Events reach their ring at most this long after their time, nanoseconds.
const LATE_NS: u64 = 1_000_000;

/// The name of the whole profile in `unreadable`.
const NAME: &str = "profile";

/// A profile that is being taken.
#[derive(Debug)]
pub struct Profile {
    began_ns: u64,
    /// When sampling ends; 0 for not yet.
    stop_ns: Arc<AtomicU64>,
    /// `None` if no thread could be started.
    reader: Option<JoinHandle<Taken>>,
    unreadable: BTreeMap<String, String>,
}

/// What the reading thread took.
#[derive(Debug)]
enum Taken {
    Sampled(ProfileSource, Gathered),
    Read(proc::Read),
}

impl Profile {
    /// Begins to profile these processes and their descendants, which run on `cpus` (empty: on any core). What this
    /// process may not sample is in [`ProfileFacts::unreadable`]; without any right to sample, `/proc` is read.
    pub fn begin(pids: &[u32], cpus: &[u32]) -> Self {
        let mut unreadable = BTreeMap::new();
        // Each event on each core is an open file. If there are too few, the kernel says so.
        let _ = limits::raise_open_files();
        let members = Members::of(pids);
        let samplers = Samplers::begin(&members.threads(), cpus, &mut unreadable);
        let stop_ns = Arc::new(AtomicU64::new(0));
        let (stop, pids) = (Arc::clone(&stop_ns), pids.to_vec());
        let began_ns = clock::now_ns();
        let reader = std::thread::Builder::new().name("profile".into()).spawn(move || match samplers {
            Some(samplers) => read(samplers, &pids, members, &stop),
            None => Taken::Read(proc::read(&pids, &stop)),
        });
        let reader = reader.map_err(|error| unreadable.insert(NAME.into(), error.to_string())).ok();
        Self { began_ns, stop_ns, reader, unreadable }
    }

    /// Ends sampling, but looks nothing up yet.
    pub fn stop(&self) {
        // If it was stopped before, that moment counts.
        let _ = self.stop_ns.compare_exchange(0, clock::now_ns(), Ordering::AcqRel, Ordering::Acquire);
    }

    /// Ends sampling, looks names up and sums up. The processes should still live, since their memory says which files
    /// their functions are in.
    pub fn end(self) -> ProfileFacts {
        self.stop();
        let seconds = self.stop_ns.load(Ordering::Acquire).saturating_sub(self.began_ns) as f64 / 1e9;
        let mut unreadable = self.unreadable;
        let taken = self.reader.map(JoinHandle::join);
        let Some(Ok(taken)) = taken else {
            unreadable.entry(NAME.into()).or_insert_with(|| "the thread that read the samples failed".into());
            return ProfileFacts { unreadable, ..ProfileFacts::default() };
        };
        let facts = match taken {
            Taken::Read(read) => proc::facts(read, seconds),
            Taken::Sampled(by, gathered) => {
                let mut symbols = Symbols::open(&mut unreadable);
                let mut facts = fold::facts(gathered, &mut |pid, frames| symbols.names(pid, frames));
                symbols.report(&mut unreadable);
                facts.by = by;
                ProfileFacts { hz: HZ, ..facts }
            }
        };
        ProfileFacts { seconds, unreadable, ..facts }
    }
}

/// The threads of a subject, and those that handle interrupts.
#[derive(Clone, Debug, Default)]
struct Members {
    /// Thread → its process and its name. Threads that have ended stay.
    threads: BTreeMap<u32, (u32, String)>,
    /// Threads of the kernel that handle interrupts (softirq), and 0 for an idle core.
    interrupts: BTreeSet<u32>,
}

/// More threads than these are not kept apart.
const THREADS_MOST: usize = 4096;

impl Members {
    fn of(pids: &[u32]) -> Self {
        let mut members = Self::default();
        members.look(pids);
        members.interrupts.insert(0);
        let names = process::all().filter_map(|pid| Some((pid, process::name(pid)?)));
        let handlers = names.filter(|(_, name)| name.starts_with("ksoftirqd/"));
        members.interrupts.extend(handlers.map(|(pid, _)| pid));
        members
    }

    /// Adds the threads that were started since.
    fn look(&mut self, pids: &[u32]) {
        for pid in process::families(pids) {
            for tid in process::thread_ids(pid).unwrap_or_default() {
                if self.threads.len() < THREADS_MOST && !self.threads.contains_key(&tid) {
                    let name = process::thread_name(pid, tid).unwrap_or_default();
                    self.threads.insert(tid, (pid, name));
                }
            }
        }
    }

    fn threads(&self) -> Vec<u32> {
        self.threads.keys().copied().collect()
    }
}

/// Reads samples until they end.
fn read(mut samplers: Samplers, pids: &[u32], mut members: Members, stop_ns: &AtomicU64) -> Taken {
    let mut collector = Collector::new(PERIOD_NS);
    let mut is_stopped = false;
    for reading in 1u32.. {
        let stop = stop_ns.load(Ordering::Acquire);
        if stop != 0 && !is_stopped {
            samplers.stop();
            is_stopped = true;
        }
        // What is older is in the rings by now.
        let settled_ns = clock::now_ns().saturating_sub(LATE_NS);
        samplers.drain(&mut collector);
        collector.settle(settled_ns, &members);
        if stop != 0 && settled_ns > stop {
            collector.finish(stop, &members);
            break;
        }
        if reading.is_multiple_of(LOOK_AFTER) {
            members.look(pids);
        }
        std::thread::sleep(PAUSE);
    }
    Taken::Sampled(samplers.source, collector.gathered(members))
}
