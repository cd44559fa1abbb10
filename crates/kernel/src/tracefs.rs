//! The kernel's description of its trace events (<https://docs.kernel.org/trace/events.html>). It is in a file
//! system that many hosts do not mount. In that case this module opens the file system without mounting it
//! anywhere: no other process sees it, and it ends with its descriptor.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// The usual mount point.
const MOUNTED: &str = "/sys/kernel/tracing";

/// Reads a small file of tracefs by its path, such as `events/skb/kfree_skb/format`. If tracefs is not mounted,
/// this requires `CAP_SYS_ADMIN` and Linux 5.2.
pub fn read(path: &str) -> io::Result<String> {
    fs::read_to_string(format!("{MOUNTED}/{path}")).or_else(|_| read_unmounted(path))
}

/// The number of a trace event, such as `lock/contention_begin`, for [`crate::tracepoint`] and [`crate::perf`]. Errors
/// as [`read`], and if this kernel has no such event.
pub fn event_id(event: &str) -> io::Result<u64> {
    read(&format!("events/{event}/id"))?.trim().parse().map_err(io::Error::other)
}

fn read_unmounted(path: &str) -> io::Result<String> {
    let root = detached()?;
    let file = openat(&root, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    io::read_to_string(File::from(file))
}

/// Opens tracefs without a mount point: fsopen(2), fsconfig(2) and fsmount(2).
fn detached() -> io::Result<OwnedFd> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
}
