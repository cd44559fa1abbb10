//! The samplers of a profile: the CPU clock, and the events of locks and scheduling, as far as this process may.

use std::collections::BTreeMap;

use kqps_kernel::perf::{Event, Record, Sample, Sampler, Scope, Source};
use kqps_observation::profile::ProfileSource;

use super::PERIOD_NS;
use super::collect::{Collector, Kind};
use super::events::Tracepoints;
use crate::topology::online;

/// The memory of all rings of one sampler, bytes.
const RINGS_BYTES: usize = 1 << 24;

/// The smallest ring, and the largest one.
const RING_BYTES: [usize; 2] = [1 << 16, 1 << 20];

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
                let clock = Sampler::begin(Scope::Threads(tids), &clock, RING_BYTES[0]);
                let noted =
                    |error| unreadable.insert("functions".into(), format!("samples of threads: {error}"));
                let clock = clock.map_err(noted).ok()?;
                Some(Self { source: ProfileSource::Threads, clock, events: None })
            }
        }
    }

    /// Ends sampling.
    pub(super) fn stop(&self) {
        let events = self.events.iter().flat_map(|(_, events, wakeups)| [events, wakeups]);
        for sampler in events.chain([&self.clock]) {
            // What is sampled after the end is left out in any case.
            let _ = sampler.stop();
        }
    }

    /// Passes on all that was sampled.
    pub(super) fn drain(&mut self, collector: &mut Collector) {
        drain(&mut self.clock, collector, |_| Some(Kind::OnCore));
        if let Some((tracepoints, events, wakeups)) = &mut self.events {
            drain(events, collector, |sample| event_kind(tracepoints, sample));
            drain(wakeups, collector, |sample| wakeup_kind(tracepoints, sample));
        }
    }
}

fn drain(sampler: &mut Sampler, collector: &mut Collector, kind_of: impl Fn(&Sample<'_>) -> Option<Kind>) {
    sampler.drain(&mut |record| match record {
        Record::Sample(sample) => {
            if let Some(kind) = kind_of(&sample) {
                collector.take(&sample, kind);
            }
        }
        Record::Lost(count) => collector.lose(count),
    });
}

fn event(source: Source, has_stack: bool) -> Event {
    Event { source, has_stack, has_arguments: false }
}

/// As much for each core as all cores together may have.
fn ring_bytes(cores: usize) -> usize {
    let [least, most] = RING_BYTES;
    let each = (RINGS_BYTES / cores.max(1)).clamp(least, most);
    if each.is_power_of_two() { each } else { each.next_power_of_two() / 2 }
}

fn events(cores: &[u32], all: &[u32]) -> Result<(Tracepoints, Sampler, Sampler), String> {
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

/// What a sample of the events on the subject's cores is about.
fn event_kind(tracepoints: &Tracepoints, sample: &Sample<'_>) -> Option<Kind> {
    match sample.event {
        0 => {
            let [lock, flags] = tracepoints.lock_begins.values(sample.raw)?;
            Some(Kind::LockBegins { lock, flags: flags as u32 })
        }
        1 => {
            let [lock] = tracepoints.lock_ends.values(sample.raw)?;
            Some(Kind::LockEnds { lock })
        }
        _ => {
            let [state, next] = tracepoints.switch.values(sample.raw)?;
            // Bits above are the scheduler's own, such as that of a thread that was made to leave.
            let is_ready = state & 0xff == 0;
            let is_for_lock = sample.arguments.is_some_and(waits_for_lock);
            Some(Kind::Switch { next: next as u32, is_ready, is_for_lock })
        }
    }
}

fn wakeup_kind(tracepoints: &Tracepoints, sample: &Sample<'_>) -> Option<Kind> {
    let [tid] = tracepoints.wakeup.values(sample.raw)?;
    Some(Kind::Wakeup { tid: tid as u32 })
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
        FUTEX_WAIT | FUTEX_WAIT_BITSET => value as u32 == 2,
        FUTEX_LOCK_PI | FUTEX_LOCK_PI2 => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_share_their_memory_and_are_powers_of_two() {
        assert_eq!([1, 16, 17, 100, 1000].map(ring_bytes), [1 << 20, 1 << 20, 1 << 19, 1 << 17, 1 << 16]);
    }

    #[test]
    fn a_lock_is_known_by_the_value_that_it_is_waited_on_with() {
        let of = |operation, value| waits_for_lock([0x7f00_0000, operation, value]);
        assert!(of(128, 2) && of(137, 2) && of(0x186, 0), "private, with a bit set, with priorities");
        assert!(!of(128, 5) && !of(393, 0) && !of(129, 2), "conditions, and a thread that wakes others");
    }
}
