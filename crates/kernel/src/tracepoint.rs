//! Exact counts of a kernel event, by `perf_event_open(2)`: on every core a group of counters, each with a filter of
//! its own. The kernel counts where the event happens and copies nothing, so no event is missed; but each event
//! is held against every filter, which slows what is counted.

use std::fs::File;
use std::io::{self, Read as _};
use std::mem::size_of;
use std::os::fd::AsRawFd;

use crate::sys::check;
use crate::tracefs::owned;

/// The first version of `struct perf_event_attr` (`linux/perf_event.h`), which every kernel takes.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

// From linux/perf_event.h.
const PERF_TYPE_TRACEPOINT: u32 = 2;
const PERF_FORMAT_GROUP: u64 = 1 << 3;
const DISABLED: u64 = 1;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
const PERF_EVENT_IOC_ENABLE: u64 = 0x2400;
const PERF_EVENT_IOC_SET_FILTER: u64 = 0x4008_2406;

/// Counters of one event, on several cores, by filter. They end when this is dropped.
#[derive(Debug)]
pub struct Counters {
    /// By core, and then by filter. The first counter of a core leads its group.
    groups: Vec<Vec<File>>,
}

impl Counters {
    /// Begins to count an event, whose number is in its file `id` ([`crate::tracefs`]), on the cores named, in
    /// all processes and in interrupts. For each filter (`reason == 6 && protocol == 2048`, see
    /// <https://docs.kernel.org/trace/events.html>, "Event filtering") there is one count. Takes a file a filter
    /// and core, and the right to watch the system (`CAP_PERFMON`).
    pub fn begin(event: u64, cpus: &[u32], filters: &[String]) -> io::Result<Self> {
        let mut groups = Vec::with_capacity(cpus.len());
        for &cpu in cpus {
            let mut group: Vec<File> = Vec::with_capacity(filters.len());
            for filter in filters {
                group.push(counter(event, cpu, group.first(), filter)?);
            }
            groups.push(group);
        }
        // A group begins and is read as one, so its counts are of the same events.
        for leader in groups.iter().filter_map(|group| group.first()) {
            // SAFETY: the request takes a number; the descriptor is an open counter.
            check(unsafe { libc::ioctl(leader.as_raw_fd(), PERF_EVENT_IOC_ENABLE as _, 0) })?;
        }
        Ok(Self { groups })
    }

    /// What was counted so far on all cores together, in the order of the filters.
    pub fn counts(&self) -> io::Result<Vec<u64>> {
        let filters = self.groups.first().map_or(0, Vec::len);
        let mut sums = vec![0; filters];
        let mut told = vec![0; (1 + filters) * size_of::<u64>()];
        for mut leader in self.groups.iter().filter_map(|group| group.first()) {
            // How many counters there are, and then each: perf_event_open(2), "Reading results".
            leader.read_exact(&mut told)?;
            let counts = told.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes)).skip(1);
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        Ok(sums)
    }
}

fn counter(event: u64, cpu: u32, leader: Option<&File>, filter: &str) -> io::Result<File> {
    let attributes = Attributes {
        kind: PERF_TYPE_TRACEPOINT,
        size: size_of::<Attributes>() as u32,
        config: event,
        read_format: PERF_FORMAT_GROUP,
        // The others of a group follow its leader.
        flags: if leader.is_none() { DISABLED } else { 0 },
        ..Attributes::default()
    };
    let (pid, leader): (libc::pid_t, _) = (-1, leader.map_or(-1, AsRawFd::as_raw_fd));
    // SAFETY: the pointer is to a live value of the size that it names, which the call only reads.
    let opened = unsafe {
        let attributes = &raw const attributes;
        let cpu = cpu as libc::c_int;
        libc::syscall(libc::SYS_perf_event_open, attributes, pid, cpu, leader, PERF_FLAG_FD_CLOEXEC)
    };
    let counter = File::from(owned(opened)?);
    let filter = std::ffi::CString::new(filter)?;
    // SAFETY: the string is live and ends with a zero byte; the kernel only reads it.
    check(unsafe { libc::ioctl(counter.as_raw_fd(), PERF_EVENT_IOC_SET_FILTER as _, filter.as_ptr()) })?;
    Ok(counter)
}
