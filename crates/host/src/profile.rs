//! Profiles a subject: where its threads spend their time on a core, and what they wait for. A thread of its own reads
//! the kernel's samples while the trial runs, and sums them up; names are looked up at the end.
//!
//! Memory is bounded: a fixed number of call chains, threads and locks is kept apart. What comes later is summed up by
//! the state of its thread, without its call chain, and is counted.

mod classify;
mod collect;
mod demangle;
mod elf;
mod events;
mod fold;
mod locks;
mod members;
mod open;
mod proc;
mod samplers;
mod stacks;
mod symbols;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use kqps_kernel::{clock, limits};
use kqps_observation::profile::{ProfileFacts, ProfileSource};

use crate::subject_cores;
use collect::{Collector, Gathered};
use members::Members;
use samplers::Samplers;
use symbols::{Kernel, Symbols};

/// Samples of the CPU clock a second. It is no divisor of the kernel's ticks, so that samples do not follow them.
const HZ: f64 = 499.0;

/// Nanoseconds between two samples of the CPU clock.
const PERIOD_NS: u64 = (1e9 / HZ) as u64;

/// The pause between two readings of the rings, unless one of them is half full before.
const PAUSE: Duration = Duration::from_millis(10);

/// The threads of the subject are looked up again after this time, nanoseconds.
const LOOK_NS: u64 = 100_000_000;

/// Events reach their ring at most this long after their time, nanoseconds.
const LATE_NS: u64 = 1_000_000;

/// The name of the whole profile in `unreadable`.
const NAME: &str = "profile";

/// A profile that is being taken. Dropping it ends sampling.
#[derive(Debug)]
pub struct Profile {
    began_ns: u64,
    /// When sampling ends; 0 for not yet.
    stop_ns: Arc<AtomicU64>,
    /// `None` if no thread could be started, and at the end.
    reader: Option<JoinHandle<ReaderOutput>>,
    kernel: Arc<Kernel>,
    unreadable: BTreeMap<String, String>,
}

/// The result of the reading thread.
#[derive(Debug)]
enum ReaderOutput {
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
        let members = Members::read(pids);
        let kernel = Arc::new(Kernel::read());
        let tids: Vec<u32> = members.pairs().map(|(_, tid)| tid).collect();
        let samplers = Samplers::begin(&tids, cpus, &mut unreadable);
        let stop_ns = Arc::new(AtomicU64::new(0));
        let (stop, pids, cpus) = (Arc::clone(&stop_ns), pids.to_vec(), cpus.to_vec());
        let names = Arc::clone(&kernel);
        let began_ns = clock::now_ns();
        let reader = std::thread::Builder::new().name("profile".into()).spawn(move || {
            subject_cores::leave(&cpus);
            match samplers {
                Some(mut samplers) => {
                    let gathered = read(&mut samplers, &pids, members, &stop, names);
                    ReaderOutput::Sampled(samplers.source, gathered)
                }
                None => ReaderOutput::Read(proc::read(&pids, &stop)),
            }
        });
        let reader = reader.map_err(|error| unreadable.insert(NAME.into(), error.to_string())).ok();
        Self { began_ns, stop_ns, reader, kernel, unreadable }
    }

    /// Ends sampling, but looks nothing up yet.
    pub fn stop(&self) {
        // If it was stopped before, that moment counts.
        let _ = self.stop_ns.compare_exchange(0, clock::now_ns(), Ordering::AcqRel, Ordering::Acquire);
    }

    /// Ends sampling, looks names up and sums up. The processes should still live, since their memory says which files
    /// their functions are in.
    pub fn end(mut self) -> ProfileFacts {
        self.stop();
        let seconds = self.stop_ns.load(Ordering::Acquire).saturating_sub(self.began_ns) as f64 / 1e9;
        let mut unreadable = std::mem::take(&mut self.unreadable);
        let taken = self.reader.take().map(JoinHandle::join);
        let Some(Ok(taken)) = taken else {
            unreadable.entry(NAME.into()).or_insert_with(|| "the thread that read the samples failed".into());
            return ProfileFacts { unreadable, ..ProfileFacts::default() };
        };
        let facts = match taken {
            ReaderOutput::Read(read) => proc::facts(read, seconds),
            ReaderOutput::Sampled(by, gathered) => {
                let mut symbols = Symbols::new(Arc::clone(&self.kernel), &mut unreadable);
                let facts = fold::facts(gathered, &mut |pid, frames| symbols.names(pid, frames));
                symbols.report(&mut unreadable);
                ProfileFacts { by, hz: HZ, ..facts }
            }
        };
        unreadable.extend(facts.unreadable);
        ProfileFacts { seconds, unreadable, ..facts }
    }
}

impl Drop for Profile {
    fn drop(&mut self) {
        self.stop();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

/// Rings that the kernel writes samples into.
trait Rings {
    /// Ends sampling.
    fn stop(&self);

    /// Waits until a ring is half full, or for `at_most`.
    fn wait(&mut self, at_most: Duration);

    /// Passes on all that was sampled.
    fn drain(&mut self, collector: &mut Collector, members: &mut Members);
}

/// Reads samples until they end.
fn read(
    rings: &mut impl Rings,
    pids: &[u32],
    mut members: Members,
    stop_ns: &AtomicU64,
    names: Arc<Kernel>,
) -> Gathered {
    let mut collector = Collector::new(PERIOD_NS, names);
    let (began_ns, before_ns) = (clock::now_ns(), members.on_core_ns());
    let mut after_ns: Option<BTreeMap<u32, u64>> = None;
    let mut looked_ns = clock::now_ns();
    loop {
        // Before the end is read, so that what is settled is older than an end that comes later.
        let now_ns = clock::now_ns();
        let stop = Some(stop_ns.load(Ordering::Acquire)).filter(|stop| *stop != 0);
        if stop.is_some() && after_ns.is_none() {
            rings.stop();
            after_ns = Some(members.on_core_ns());
        }
        // Older records are in the rings by now.
        let settled_ns = now_ns.saturating_sub(LATE_NS);
        rings.drain(&mut collector, &mut members);
        // Samples after the load are of no load.
        collector.settle(stop.map_or(settled_ns, |stop| settled_ns.min(stop)));
        if let Some(stop) = stop
            && settled_ns > stop
        {
            collector.finish(stop);
            let kernel_ns = between(&before_ns, after_ns.unwrap_or_default());
            return collector.gathered(members, kernel_ns, stop.saturating_sub(began_ns));
        }
        if now_ns.saturating_sub(looked_ns) >= LOOK_NS {
            members.look(pids);
            looked_ns = now_ns;
        }
        rings.wait(PAUSE);
    }
}

/// The CPU time of each thread between two readings. A thread that the first one lacks began since.
fn between(before_ns: &BTreeMap<u32, u64>, after_ns: BTreeMap<u32, u64>) -> BTreeMap<u32, u64> {
    let since = |tid: &u32, ns: u64| ns.saturating_sub(before_ns.get(tid).copied().unwrap_or(0));
    after_ns.into_iter().map(|(tid, ns)| (tid, since(&tid, ns))).collect()
}

#[cfg(test)]
mod tests {
    use super::collect::{Kind, Spent, Written};
    use super::*;

    /// Rings that have these records when they are read first.
    struct Made(Vec<Written>);

    impl Rings for Made {
        fn stop(&self) {}

        fn wait(&mut self, _: Duration) {}

        fn drain(&mut self, collector: &mut Collector, members: &mut Members) {
            for record in self.0.drain(..) {
                collector.take_written(record, members);
            }
        }
    }

    #[test]
    fn samples_after_the_end_do_not_count() {
        // All of them are older than what is settled.
        let end_ns = clock::now_ns() - 1_000_000_000;
        let sample = |after_ns: u64| (end_ns + after_ns, [5, 7], Kind::OnCore, 1);
        let stop_ns = AtomicU64::new(end_ns);
        let mut rings = Made(vec![sample(0), sample(1), sample(500_000_000)]);
        let members = Members::known(&[(7, 5, "worker")]);
        let gathered = read(&mut rings, &[], members, &stop_ns, Arc::default());
        assert_eq!(gathered.samples, 1);
        assert_eq!(gathered.sums[&(7, Spent::OnCore, 1)].ns, PERIOD_NS);
    }

    #[test]
    fn a_profile_that_is_dropped_ends() {
        let profile = Profile::begin(&[std::process::id()], &[]);
        let stop_ns = Arc::clone(&profile.stop_ns);
        drop(profile);
        assert_ne!(stop_ns.load(Ordering::Acquire), 0);
        assert_eq!(Arc::strong_count(&stop_ns), 1, "its thread has ended");
    }

    #[test]
    fn a_thread_that_began_since_has_all_of_its_time() {
        let found = between(&[(7, 30)].into(), [(7, 100), (8, 20)].into());
        assert_eq!(found, [(7, 70), (8, 20)].into());
    }
}
