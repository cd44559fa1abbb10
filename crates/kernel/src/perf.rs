//! Samples of what threads do, with `perf_event_open(2)` and its rings, without the program perf: the interrupted
//! instruction at a steady rate (the CPU clock), and events of the kernel (tracepoints), each with the call chain.
//!
//! Samples are written by the kernel where they happen and read later. If a ring is full, the kernel drops samples and
//! counts them. Several events share the ring of a core or of a thread.

mod record;
mod ring;

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd as _;

use crate::perf_event::{Attributes, DISABLED, PERF_TYPE_SOFTWARE, PERF_TYPE_TRACEPOINT, enable, open};
use crate::sys::check;
use record::{ARGUMENTS, Shape};
pub use record::{Frame, Record, Sample};
use ring::Ring;

// From linux/perf_event.h.
const PERF_COUNT_SW_CPU_CLOCK: u64 = 0;
const PERF_SAMPLE_TID: u64 = 1 << 1;
const PERF_SAMPLE_TIME: u64 = 1 << 2;
const PERF_SAMPLE_CALLCHAIN: u64 = 1 << 5;
const PERF_SAMPLE_RAW: u64 = 1 << 10;
const PERF_SAMPLE_REGS_USER: u64 = 1 << 12;
const PERF_SAMPLE_IDENTIFIER: u64 = 1 << 16;
const EXCLUDE_CALLCHAIN_KERNEL: u64 = 1 << 21;
const EXCLUDE_CALLCHAIN_USER: u64 = 1 << 22;
const USE_CLOCKID: u64 = 1 << 25;
const PERF_EVENT_IOC_DISABLE: u64 = 0x2401;
const PERF_EVENT_IOC_SET_OUTPUT: u64 = 0x2405;
const PERF_EVENT_IOC_ID: u64 = 0x8008_2407;

/// What causes samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The CPU clock: a timer that samples whatever runs.
    CpuClock {
        /// Nanoseconds between two samples, at least 10 µs.
        period_ns: u64,
    },
    /// Every occurrence of an event of the kernel.
    Tracepoint {
        /// The event's number, from its file `id` ([`crate::tracefs`]).
        id: u64,
    },
}

/// An event that is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What causes its samples.
    pub source: Source,
    /// Whether samples have the call chain, of the kernel and of the program.
    pub has_stack: bool,
    /// Whether samples have the first three arguments of the system call that the thread is in. Only on x86-64 and
    /// aarch64.
    pub has_arguments: bool,
}

/// Where samples are taken.
#[derive(Clone, Copy, Debug)]
pub enum Scope<'a> {
    /// On these cores, of every thread and of interrupts. Needs `CAP_PERFMON`, or `kernel.perf_event_paranoid` of 0 or
    /// less for the CPU clock.
    Cores(&'a [u32]),
    /// Of these threads, on whatever core. Needs the right to trace them, and `kernel.perf_event_paranoid` of 1 or less
    /// for call chains of the kernel. A thread that has ended is left out.
    Threads(&'a [u32]),
}

/// Events that are being sampled. Dropping the value ends them.
#[derive(Debug)]
pub struct Sampler {
    rings: Vec<Ring>,
    /// In the order of their numbers.
    shapes: Vec<Shape>,
    files: Vec<File>,
    scratch: Vec<u8>,
}

impl Sampler {
    /// Begins to sample. Each core or thread has a ring of `ring_bytes`, a power of two and at least a page. Needs a
    /// file descriptor for each event on each core or of each thread. Times are those of `CLOCK_MONOTONIC`.
    pub fn begin(scope: Scope<'_>, events: &[Event], ring_bytes: usize) -> io::Result<Self> {
        let places: Vec<(libc::pid_t, libc::c_int)> = match scope {
            Scope::Cores(cpus) => cpus.iter().map(|&cpu| (-1, cpu as libc::c_int)).collect(),
            Scope::Threads(tids) => tids.iter().map(|&tid| (tid as libc::pid_t, -1)).collect(),
        };
        let mut sampler =
            Self { rings: Vec::new(), shapes: Vec::new(), files: Vec::new(), scratch: Vec::new() };
        for place in places {
            match sampler.add(place, events, ring_bytes) {
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                added => added?,
            }
        }
        sampler.shapes.sort_unstable_by_key(|shape| shape.id);
        for file in &sampler.files {
            enable(file)?;
        }
        Ok(sampler)
    }

    /// Opens all events on one core or of one thread, with one ring.
    fn add(
        &mut self,
        place: (libc::pid_t, libc::c_int),
        events: &[Event],
        ring_bytes: usize,
    ) -> io::Result<()> {
        let mut opened: Vec<File> = Vec::with_capacity(events.len());
        for (number, event) in events.iter().enumerate() {
            let file = open(&attributes(event), place, None)?;
            match opened.first() {
                None => self.rings.push(Ring::map(&file, ring_bytes)?),
                Some(first) => {
                    let request = PERF_EVENT_IOC_SET_OUTPUT;
                    // SAFETY: the request takes a descriptor as a number; both are open events.
                    check(unsafe { libc::ioctl(file.as_raw_fd(), request as _, first.as_raw_fd()) })?;
                }
            }
            let mut id = 0u64;
            // SAFETY: the pointer is to a live number of the size that the request writes.
            check(unsafe { libc::ioctl(file.as_raw_fd(), PERF_EVENT_IOC_ID as _, &raw mut id) })?;
            self.shapes.push(Shape { id, event: number, has_arguments: has_arguments(event) });
            opened.push(file);
        }
        self.files.append(&mut opened);
        Ok(())
    }

    /// Ends sampling. Samples that were taken until now can still be read.
    pub fn stop(&self) -> io::Result<()> {
        for file in &self.files {
            // SAFETY: the request takes a number; the descriptor is an open event.
            check(unsafe { libc::ioctl(file.as_raw_fd(), PERF_EVENT_IOC_DISABLE as _, 0) })?;
        }
        Ok(())
    }

    /// Reads all samples that wait in the rings, ring by ring. Those of one ring are in the order of their times.
    pub fn drain(&mut self, each: &mut dyn FnMut(Record<'_>)) {
        let Self { rings, shapes, scratch, .. } = self;
        for ring in rings {
            ring.drain(scratch, &mut |bytes| {
                if let Some(record) = record::parse(bytes, shapes) {
                    each(record);
                }
            });
        }
    }
}

fn has_arguments(event: &Event) -> bool {
    event.has_arguments && ARGUMENTS != 0
}

fn attributes(event: &Event) -> Attributes {
    let (kind, config, sample_period) = match event.source {
        Source::CpuClock { period_ns } => (PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, period_ns),
        Source::Tracepoint { id } => (PERF_TYPE_TRACEPOINT, id, 1),
    };
    let of_all =
        PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_RAW;
    let (registers, sample_regs_user) =
        if has_arguments(event) { (PERF_SAMPLE_REGS_USER, ARGUMENTS) } else { (0, 0) };
    let no_stack = if event.has_stack { 0 } else { EXCLUDE_CALLCHAIN_KERNEL | EXCLUDE_CALLCHAIN_USER };
    Attributes {
        kind,
        size: size_of::<Attributes>() as u32,
        config,
        sample_period,
        sample_type: of_all | registers,
        flags: DISABLED | USE_CLOCKID | no_stack,
        sample_regs_user,
        clock: libc::CLOCK_MONOTONIC,
        ..Attributes::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity;

    #[test]
    fn a_busy_thread_is_sampled_at_the_clocks_rate() {
        let event = Event {
            source: Source::CpuClock { period_ns: 1_000_000 },
            has_stack: true,
            has_arguments: false,
        };
        let tid = affinity::thread_id();
        let mut sampler = match Sampler::begin(Scope::Threads(&[tid]), &[event], 1 << 17) {
            Ok(sampler) => sampler,
            Err(error) => return kqps_skips::skip(kqps_skips::Capability::Profiles, &error.to_string()),
        };
        let began_ns = crate::clock::thread_cpu_ns();
        while crate::clock::thread_cpu_ns() - began_ns < 100_000_000 {
            std::hint::spin_loop();
        }
        sampler.stop().unwrap();
        let (mut samples, mut last_ns) = (0, 0);
        sampler.drain(&mut |record| {
            if let Record::Sample(sample) = record {
                assert_eq!((sample.tid, sample.event), (tid, 0));
                assert!(sample.time_ns >= last_ns && sample.frames().count() > 0);
                (samples, last_ns) = (samples + 1, sample.time_ns);
            }
        });
        // A hypervisor delivers some timers late.
        assert!((50..=120).contains(&samples), "{samples} samples in 100 ms");
    }
}
