//! Shared helpers of the wrappers: errors from return values, socket options, times.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

use rustix::time::Timespec;

/// Turns the -1 of a system call into its error.
pub(crate) fn check(returned: libc::c_int) -> io::Result<libc::c_int> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

/// Like [`check`], for calls that return a length.
pub(crate) fn check_size(returned: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(returned).map_err(|_| io::Error::last_os_error())
}

/// Like [`check`], for system calls that return a new descriptor.
pub(crate) fn owned(returned: libc::c_long) -> io::Result<OwnedFd> {
    let descriptor = check(returned as libc::c_int)?;
    // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Whether an error only means "not now": nothing to read, no room to write, or a signal.
pub(crate) fn is_not_now(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Types that are sound as option values: any bytes are a valid value, and there is no padding.
///
/// # Safety
/// The implementor is plain old data.
pub(crate) unsafe trait OptionValue: Copy {}
// SAFETY: an integer.
unsafe impl OptionValue for libc::c_int {}
// SAFETY: an array of integers.
unsafe impl OptionValue for [u32; 9] {}
// SAFETY: as above.
unsafe impl OptionValue for [u32; 7] {}
// SAFETY: as above.
unsafe impl OptionValue for [u32; 3] {}

pub(crate) fn set_option<T: OptionValue>(
    fd: RawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: T,
) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer is to a live value of the length given; the kernel only reads it.
    check(unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), length) }).map(drop)
}

pub(crate) fn get_option<T: OptionValue>(fd: RawFd, level: libc::c_int, name: libc::c_int) -> io::Result<T> {
    // SAFETY: `OptionValue` says that any bytes, zeros among them, are a value.
    let mut value: T = unsafe { zeroed() };
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer is to a live value of the length given, and the kernel writes no more than that.
    check(unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut length) })?;
    Ok(value)
}

/// Converts nanoseconds to the kernel's seconds and nanoseconds.
pub(crate) fn timespec(time_ns: u64) -> Timespec {
    Timespec { tv_sec: (time_ns / 1_000_000_000) as _, tv_nsec: (time_ns % 1_000_000_000) as _ }
}
