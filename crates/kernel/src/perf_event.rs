//! The settings of `perf_event_open(2)`, which counters and samples share.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

use crate::sys::{check, owned};

/// `struct perf_event_attr` (`linux/perf_event.h`) as of Linux 4.1. A counter passes only its first version, which
/// every kernel accepts.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attributes {
    pub(crate) kind: u32,
    pub(crate) size: u32,
    pub(crate) config: u64,
    pub(crate) sample_period: u64,
    pub(crate) sample_type: u64,
    pub(crate) read_format: u64,
    pub(crate) flags: u64,
    pub(crate) wakeup_events: u32,
    pub(crate) breakpoint_type: u32,
    pub(crate) config1: u64,
    pub(crate) config2: u64,
    pub(crate) branch_sample_type: u64,
    pub(crate) sample_regs_user: u64,
    pub(crate) sample_stack_user: u32,
    pub(crate) clock: i32,
}

/// The size of the first version of [`Attributes`].
pub(crate) const FIRST_VERSION_BYTES: u32 = 64;

// From linux/perf_event.h.
pub(crate) const PERF_TYPE_SOFTWARE: u32 = 1;
pub(crate) const PERF_TYPE_TRACEPOINT: u32 = 2;
pub(crate) const DISABLED: u64 = 1;
const PERF_EVENT_IOC_ENABLE: u64 = 0x2400;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;

/// Opens an event of a thread (`pid`, or -1 for all) on a core (`cpu`, or -1 for any), in the group of `leader`.
pub(crate) fn open(
    attributes: &Attributes,
    (pid, cpu): (libc::pid_t, libc::c_int),
    leader: Option<&File>,
) -> io::Result<File> {
    let leader = leader.map_or(-1, rustix::fd::AsRawFd::as_raw_fd);
    // SAFETY: the pointer is to a live value that contains its size; the call only reads it.
    let opened = unsafe {
        let attributes: *const Attributes = attributes;
        libc::syscall(libc::SYS_perf_event_open, attributes, pid, cpu, leader, PERF_FLAG_FD_CLOEXEC)
    };
    owned(opened).map(File::from)
}

/// Lets an event count.
pub(crate) fn enable(event: &File) -> io::Result<()> {
    // SAFETY: the request takes a number; the descriptor is an open event.
    check(unsafe { libc::ioctl(event.as_raw_fd(), PERF_EVENT_IOC_ENABLE as _, 0) }).map(drop)
}
