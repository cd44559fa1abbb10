//! The samplers of a profile: the CPU clock, and the events of locks and scheduling, as far as this process may.

use std::collections::BTreeMap;
use std::time::Duration;

use kqps_kernel::clock;
use kqps_kernel::perf::{
    self, Event, Record, Sample, Sampler, Scope, Source, numbers_threads_as_events, ring_bytes,
    wait_half_full,
};
use kqps_observation::profile::ProfileSource;

use super::collect::{Collector, Kind};
use super::events::Tracepoints;
use super::members::Members;
use super::{PERIOD_NS, Rings};
use crate::topology::online;

/// Samplers that run.
#[derive(Debug)]
pub(super) struct Samplers {
    /// How the CPU clock is sampled.
    pub(super) source: ProfileSource,
    clock: Sampler,
    /// The events of locks, and of threads that leave and get the subject's cores; and threads that become ready,
    /// which happens on any core.
    events: Option<(Tracepoints, Sampler, Sampler)>,
}

impl Samplers {
    /// Begins to sample threads that run on `cpus` (empty: on any core). `None` if this process may sample nothing.
    /// Whatever it may not sample is in `unreadable`.
    pub(super) fn begin(
        tids: &[u32],
        cpus: &[u32],
        unreadable: &mut BTreeMap<String, String>,
    ) -> Option<Self> {
        let all = online();
        let cores: &[u32] = if cpus.is_empty() { &all } else { cpus };
        let clock = [event(Source::CpuClock { period_ns: PERIOD_NS }, true)];
        match Sampler::begin(Scope::Cores(cores), &clock, ring_bytes(cores.len())) {
            Ok(clock) => {
                let events = events(cores, &all).map_err(|why| unreadable.insert("waits".into(), why)).ok();
                Some(Self { source: ProfileSource::Cores, clock, events })
            }
            Err(error) => {
                unreadable.insert("waits and interrupts".into(), format!("samples of cores: {error}"));
                let sampled = &tids[..tids.len().min(perf::THREADS_MOST)];
                if sampled.len() < tids.len() {
                    let why = format!("no more than {} threads are sampled one by one", sampled.len());
                    unreadable.insert(format!("{} threads", tids.len() - sampled.len()), why);
                }
                let clock = Sampler::begin(Scope::Threads(sampled), &clock, ring_bytes(sampled.len()));
                let noted =
                    |error| unreadable.insert("functions".into(), format!("samples of threads: {error}"));
                let clock = clock.map_err(noted).ok()?;
                Some(Self { source: ProfileSource::Threads, clock, events: None })
            }
        }
    }
}

impl Rings for Samplers {
    fn stop(&self) {
        let events = self.events.iter().flat_map(|(_, events, wakeups)| [events, wakeups]);
        for sampler in events.chain([&self.clock]) {
            // Samples after the end are left out in any case.
            let _ = sampler.stop();
        }
    }

    fn wait(&mut self, at_most: Duration) {
        let mut samplers = vec![&mut self.clock];
        if let Some((_, events, wakeups)) = &mut self.events {
            samplers.extend([events, wakeups]);
        }
        wait_half_full(&mut samplers, at_most);
    }

    fn drain(&mut self, collector: &mut Collector, members: &mut Members) {
        self.clock.drain(&mut |record| match record {
            Record::Sample(sample) => collector.take(&sample, Kind::OnCore, members),
            Record::Lost(count) => collector.lose_samples(count),
        });
        if let Some((tracepoints, events, wakeups)) = &mut self.events {
            drain(events, collector, members, |sample| event_kind(tracepoints, sample));
            drain(wakeups, collector, members, |sample| wakeup_kind(tracepoints, sample));
        }
    }
}

fn drain(
    events: &mut Sampler,
    collector: &mut Collector,
    members: &mut Members,
    kind_of: impl Fn(&Sample<'_>) -> Option<Kind>,
) {
    events.drain(&mut |record| match record {
        Record::Sample(sample) => {
            if let Some(kind) = kind_of(&sample) {
                collector.take(&sample, kind, members);
            }
        }
        Record::Lost(count) => collector.lose_events(count, clock::now_ns()),
    });
}

fn event(source: Source, has_stack: bool) -> Event {
    Event { source, has_stack, has_arguments: false }
}

fn events(cores: &[u32], all: &[u32]) -> Result<(Tracepoints, Sampler, Sampler), String> {
    if !numbers_threads_as_events() {
        return Err("the kernel's events number threads otherwise than this PID namespace does".into());
    }
    let tracepoints = Tracepoints::find()?;
    let of = |id| Source::Tracepoint { id };
    let on_cores = [
        event(of(tracepoints.lock_begins.id), true),
        event(of(tracepoints.lock_ends.id), false),
        Event { has_arguments: true, ..event(of(tracepoints.switch.id), true) },
    ];
    let wakeup = [event(of(tracepoints.wakeup.id), false)];
    let begin = |scope, events: &[Event], ring_bytes| {
        Sampler::begin(scope, events, ring_bytes)
            .map_err(|error| format!("the kernel's trace events: {error}"))
    };
    let events = begin(Scope::Cores(cores), &on_cores, ring_bytes(cores.len()))?;
    let wakeups = begin(Scope::Cores(all), &wakeup, ring_bytes(all.len()))?;
    Ok((tracepoints, events, wakeups))
}

/// Returns the kind of a sample of the events on the subject's cores.
fn event_kind(tracepoints: &Tracepoints, sample: &Sample<'_>) -> Option<Kind> {
    match sample.event {
        0 => {
            let [lock, flags] = tracepoints.lock_begins.values(sample.raw)?;
            Some(Kind::LockBegins { lock, flags: u32::try_from(flags).ok()? })
        }
        1 => {
            let [lock] = tracepoints.lock_ends.values(sample.raw)?;
            Some(Kind::LockEnds { lock })
        }
        _ => {
            let [state, next] = tracepoints.switch.values(sample.raw)?;
            // Bits above are the scheduler's own, such as that of a thread that was made to leave.
            let is_ready = state.to_le_bytes()[0] == 0;
            let lock = sample.arguments.filter(|arguments| waits_for_lock(*arguments));
            let next = u32::try_from(next).ok()?;
            Some(Kind::Switch { next, is_ready, lock: lock.map(|[address, ..]| address) })
        }
    }
}

fn wakeup_kind(tracepoints: &Tracepoints, sample: &Sample<'_>) -> Option<Kind> {
    let [tid] = tracepoints.wakeup.values(sample.raw)?;
    Some(Kind::Wakeup { tid: u32::try_from(tid).ok()? })
}

/// Whether a thread that is in futex(2) with these arguments waits for a lock, and not for a condition. A lock of the C
/// library and one of Rust's is a word that is 2 while threads wait for it; both pass the value that they wait on.
fn waits_for_lock([_, operation, value]: [u64; 3]) -> bool {
    // From linux/futex.h.
    const FUTEX_WAIT: u64 = 0;
    const FUTEX_LOCK_PI: u64 = 6;
    const FUTEX_WAIT_BITSET: u64 = 9;
    const FUTEX_LOCK_PI2: u64 = 13;
    const COMMAND: u64 = 0x7f;
    match operation & COMMAND {
        FUTEX_WAIT | FUTEX_WAIT_BITSET => value & u64::from(u32::MAX) == 2,
        FUTEX_LOCK_PI | FUTEX_LOCK_PI2 => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_known_by_the_value_that_it_is_waited_on_with() {
        let of = |operation, value| waits_for_lock([0x7f00_0000, operation, value]);
        assert!(of(128, 2) && of(137, 2) && of(0x186, 0), "private, with a bit set, with priorities");
        assert!(!of(128, 5) && !of(393, 0) && !of(129, 2), "conditions, and a thread that wakes others");
    }
}
