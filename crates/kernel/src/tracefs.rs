//! The kernel's description of its trace events (<https://docs.kernel.org/trace/events.html>). It is in a file
//! system that many hosts do not mount. In that case this module opens the file system without mounting it
//! anywhere: no other process sees it, and it ends with its descriptor.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd};
use std::ptr::{null, null_mut};

use crate::sys::check;

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
    let path = CString::new(path)?;
    // SAFETY: the path is a live string that ends with a zero byte; the call only reads it.
    let file = unsafe { libc::openat(root.as_raw_fd(), path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    // SAFETY: openat has just returned the descriptor, and nothing else owns it.
    let mut file = unsafe { File::from_raw_fd(check(file)?) };
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

/// Opens tracefs without a mount point: fsopen(2), fsconfig(2) and fsmount(2).
fn detached() -> io::Result<OwnedFd> {
    // From linux/mount.h.
    const FSOPEN_CLOEXEC: libc::c_uint = 1;
    const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
    const FSMOUNT_CLOEXEC: libc::c_uint = 1;
    // SAFETY: the name is a live string that ends with a zero byte; the call only reads it.
    let context = unsafe { libc::syscall(libc::SYS_fsopen, c"tracefs".as_ptr(), FSOPEN_CLOEXEC) };
    let context = owned(context)?;
    let key: *const libc::c_char = null();
    let value: *mut libc::c_void = null_mut();
    // SAFETY: this command takes no key and no value, so the pointers are null, and the descriptor is open.
    let created =
        unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), FSCONFIG_CMD_CREATE, key, value, 0) };
    check(created as libc::c_int)?;
    // SAFETY: the call touches no memory of this process.
    owned(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), FSMOUNT_CLOEXEC, 0) })
}

/// The result of a system call without a wrapper, as a descriptor.
pub(crate) fn owned(returned: libc::c_long) -> io::Result<OwnedFd> {
    let descriptor = check(returned as libc::c_int)?;
    // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
