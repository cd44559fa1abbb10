//! Samples of what threads do, with `perf_event_open(2)` and its rings, without the program perf: the interrupted
//! instruction at a steady rate (the CPU clock), and events of the kernel (tracepoints), each with the call chain.
//!
//! Samples are written by the kernel where they happen and read later. If a ring is full, the kernel drops samples and
//! counts them. Several events share the ring of a core or of a thread.

mod record;
mod ring;

use std::fs::{self, File};
use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use crate::perf_event::{Attributes, DISABLED, PERF_TYPE_SOFTWARE, PERF_TYPE_TRACEPOINT, enable, open};
use crate::sys::{check, timespec};
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

/// The cause of samples.
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
    /// The cause of its samples.
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
    /// These threads, on whatever core. Needs the right to trace them, and `kernel.perf_event_paranoid` of 1 or less
    /// for call chains of the kernel. A thread that has ended is left out.
    Threads(&'a [u32]),
}

/// The smallest ring, which is a page or more on every machine, and the largest one, bytes.
const RING_BYTES: [usize; 2] = [1 << 16, 1 << 20];

/// The memory that all rings of a profile share, bytes.
const RINGS_BYTES: usize = 1 << 25;

/// The samplers of a profile: the clock, events on the subject's cores, and events on all cores.
const SAMPLERS: usize = 3;

/// More threads than these are not sampled at once: their smallest rings fill the memory of a profile.
pub const THREADS_MOST: usize = RINGS_BYTES / RING_BYTES[0];

/// The length of the rings of one of a profile's samplers that has so many, bytes. It is a power of two.
pub fn ring_bytes(rings: usize) -> usize {
    let [least, most] = RING_BYTES;
    let each = (RINGS_BYTES / SAMPLERS / rings.max(1)).clamp(least, most);
    if each.is_power_of_two() { each } else { each.next_power_of_two() / 2 }
}

/// Whether this process numbers threads as the kernel's events do, which know the first PID namespace alone.
pub fn numbers_threads_as_events() -> bool {
    is_first_pid_namespace(fs::read_link("/proc/self/ns/pid").ok().as_deref())
}

/// Whether this link names the first PID namespace, by `PROC_PID_INIT_INO` of `linux/proc_ns.h`. A kernel without PID
/// namespaces has no such link.
fn is_first_pid_namespace(link: Option<&Path>) -> bool {
    link.is_none_or(|link| link == Path::new("pid:[4026531836]"))
}

/// Begins with rings of at most `ring_bytes`. The kernel refuses to lock more memory than `kernel.perf_event_mlock_kb`
/// and `RLIMIT_MEMLOCK` allow without `CAP_IPC_LOCK`; smaller rings may do.
fn with_smaller_rings<T>(mut ring_bytes: usize, begin: impl Fn(usize) -> io::Result<T>) -> io::Result<T> {
    loop {
        match begin(ring_bytes) {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) && ring_bytes > RING_BYTES[0] => {
                ring_bytes /= 2;
            }
            begun => return begun,
        }
    }
}

/// Waits until a ring of these samplers is half full, or for `at_most`.
pub fn wait_half_full(samplers: &mut [&mut Sampler], at_most: Duration) {
    let mut polled: Vec<PollFd<'_>> = samplers
        .iter()
        .flat_map(|sampler| sampler.polled.iter().map(move |&event| &sampler.files[event]))
        .map(|event| PollFd::new(event, PollFlags::IN))
        .collect();
    // A wait that fails is only too short.
    let _ = poll(&mut polled, Some(&timespec(at_most.as_nanos() as u64)));
    // If a thread has ended, its ring would end every wait.
    let stays = polled.iter().map(|seen| PollFlags::IN.contains(seen.revents()));
    let mut stays = stays.collect::<Vec<_>>().into_iter();
    for sampler in samplers {
        sampler.polled.retain(|_| stays.next().unwrap_or(true));
    }
}

/// Events that are being sampled. Dropping the value ends them.
#[derive(Debug)]
pub struct Sampler {
    rings: Vec<Ring>,
    /// The event of each ring whose thread has not ended, by its place in `files`.
    polled: Vec<usize>,
    /// In the order of their numbers.
    shapes: Vec<Shape>,
    files: Vec<File>,
    scratch: Vec<u8>,
}

impl Sampler {
    /// Begins to sample. Each core or thread has a ring of `ring_bytes`, a power of two from 64 KiB on, or of less if
    /// the kernel locks no more memory. Needs a file descriptor for each event on each core or of each thread. Times
    /// are those of `CLOCK_MONOTONIC`.
    pub fn begin(scope: Scope<'_>, events: &[Event], ring_bytes: usize) -> io::Result<Self> {
        with_smaller_rings(ring_bytes, |ring_bytes| Self::begin_with(scope, events, ring_bytes))
    }

    fn begin_with(scope: Scope<'_>, events: &[Event], ring_bytes: usize) -> io::Result<Self> {
        let places: Vec<(libc::pid_t, libc::c_int)> = match scope {
            Scope::Cores(cpus) => cpus.iter().map(|&cpu| (-1, cpu as libc::c_int)).collect(),
            Scope::Threads(tids) => tids.iter().map(|&tid| (tid as libc::pid_t, -1)).collect(),
        };
        let mut sampler = Self {
            rings: Vec::new(),
            polled: Vec::new(),
            shapes: Vec::new(),
            files: Vec::new(),
            scratch: Vec::new(),
        };
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
        // Only now, since the descriptor of an event that failed is closed.
        self.polled.extend((!opened.is_empty()).then_some(self.files.len()));
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
    fn rings_share_their_memory_and_are_powers_of_two() {
        assert_eq!([1, 16, 17, 100, 1000].map(ring_bytes), [1 << 20, 1 << 19, 1 << 19, 1 << 16, 1 << 16]);
        assert_eq!(THREADS_MOST, 512);
    }

    #[test]
    fn rings_are_halved_until_the_kernel_locks_them() {
        let most = |locked: usize| {
            move |bytes: usize| {
                if bytes > locked { Err(io::Error::from_raw_os_error(libc::EPERM)) } else { Ok(bytes) }
            }
        };
        assert_eq!(with_smaller_rings(1 << 20, most(200_000)).unwrap(), 1 << 17);
        assert!(with_smaller_rings(1 << 20, most(1_000)).is_err(), "not even the smallest");
        let tries = std::cell::Cell::new(0);
        let refused = with_smaller_rings(1 << 20, |_| -> io::Result<()> {
            tries.set(tries.get() + 1);
            Err(io::Error::from_raw_os_error(libc::EACCES))
        });
        assert!(refused.is_err() && tries.get() == 1, "a right that is missing");
    }

    #[test]
    fn a_wait_ends_when_a_ring_is_half_full() {
        let source = Source::CpuClock { period_ns: 100_000 };
        let event = Event { source, has_stack: true, has_arguments: false };
        let tids = [affinity::thread_id()];
        let mut sampler = match Sampler::begin(Scope::Threads(&tids), &[event], RING_BYTES[0]) {
            Ok(sampler) => sampler,
            Err(error) => return kqps_skips::skip(kqps_skips::Capability::Profiles, error.to_string()),
        };
        let began = std::time::Instant::now();
        wait_half_full(&mut [&mut sampler], Duration::from_millis(20));
        assert!(began.elapsed() >= Duration::from_millis(20), "nothing ran yet");
        // Thousands of samples, of a hundred bytes or more each.
        let began_ns = crate::clock::thread_cpu_ns();
        while crate::clock::thread_cpu_ns() - began_ns < 500_000_000 {
            std::hint::spin_loop();
        }
        let began = std::time::Instant::now();
        wait_half_full(&mut [&mut sampler], Duration::from_mins(1));
        assert!(began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn events_number_threads_as_the_first_namespace_does() {
        assert!(is_first_pid_namespace(Some(Path::new("pid:[4026531836]"))) && is_first_pid_namespace(None));
        assert!(!is_first_pid_namespace(Some(Path::new("pid:[4026532201]"))));
    }

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
            Err(error) => return kqps_skips::skip(kqps_skips::Capability::Profiles, error.to_string()),
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
