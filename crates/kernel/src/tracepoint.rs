//! Exact counts of a kernel event with `perf_event_open(2)`: on every core a group of counters, each with its own
//! filter. The kernel counts where the event happens and copies nothing, so no event is missed. But it compares each
//! event with every filter, which slows down what is counted.

use std::fs::File;
use std::io::{self, Read as _};
use std::mem::size_of;
use std::os::fd::AsRawFd as _;

use crate::perf_event::{Attributes, DISABLED, FIRST_VERSION_BYTES, PERF_TYPE_TRACEPOINT, enable, open};
use crate::sys::check;

// From linux/perf_event.h.
const PERF_FORMAT_GROUP: u64 = 1 << 3;
const PERF_EVENT_IOC_SET_FILTER: u64 = 0x4008_2406;

/// Counters of one event on several cores, one for each filter. Dropping the value ends them.
#[derive(Debug)]
pub struct Counters {
    /// By core, then by filter. The first counter of a core leads its group.
    groups: Vec<Vec<File>>,
}

impl Counters {
    /// Starts to count an event on the given cores, in all processes and in interrupts. The event's number is in its
    /// file `id` ([`crate::tracefs`]). For each filter there is one count (`reason == 6 && protocol == 2048`, see
    /// <https://docs.kernel.org/trace/events.html>, "Event filtering"). Needs one file descriptor per filter and
    /// core, and `CAP_PERFMON`.
    pub fn begin(event: u64, cpus: &[u32], filters: &[String]) -> io::Result<Self> {
        let mut groups = Vec::with_capacity(cpus.len());
        for &cpu in cpus {
            let mut group: Vec<File> = Vec::with_capacity(filters.len());
            for filter in filters {
                group.push(counter(event, cpu, group.first(), filter)?);
            }
            groups.push(group);
        }
        // The counters of a group start together and are read together, so they cover the same events.
        for leader in groups.iter().filter_map(|group| group.first()) {
            enable(leader)?;
        }
        Ok(Self { groups })
    }

    /// The counts so far, summed over all cores, in the order of the filters.
    pub fn counts(&self) -> io::Result<Vec<u64>> {
        let filters = self.groups.first().map_or(0, Vec::len);
        let mut sums = vec![0; filters];
        let mut reading = vec![0; (1 + filters) * size_of::<u64>()];
        for mut leader in self.groups.iter().filter_map(|group| group.first()) {
            // The number of counters, then each count: perf_event_open(2), "Reading results".
            leader.read_exact(&mut reading)?;
            let counts = reading.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes)).skip(1);
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        Ok(sums)
    }
}

fn counter(event: u64, cpu: u32, leader: Option<&File>, filter: &str) -> io::Result<File> {
    let attributes = Attributes {
        kind: PERF_TYPE_TRACEPOINT,
        size: FIRST_VERSION_BYTES,
        config: event,
        read_format: PERF_FORMAT_GROUP,
        // The other counters of a group start with their leader.
        flags: if leader.is_none() { DISABLED } else { 0 },
        ..Attributes::default()
    };
    let counter = open(&attributes, (-1, cpu as libc::c_int), leader)?;
    let filter = std::ffi::CString::new(filter)?;
    // SAFETY: the string is live and ends with a zero byte; the kernel only reads it.
    check(unsafe { libc::ioctl(counter.as_raw_fd(), PERF_EVENT_IOC_SET_FILTER as _, filter.as_ptr()) })?;
    Ok(counter)
}
