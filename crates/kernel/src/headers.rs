//! Headers of messages (`recvmsg(2)`), and the calls that take them. The kernel has one layout. The C libraries declare its
//! fields with different types: glibc has `size_t` where musl has an integer of 32 bits and padding. Padding stays zero,
//! since every header begins as zeros.
//!
//! With musl the calls go to the kernel directly: its `sendmmsg` would send one message after the other, and its `sendmsg`
//! would copy control messages.

use std::os::fd::RawFd;
use std::ptr::null_mut;

use libc::{c_int, c_uint, mmsghdr, msghdr, ssize_t};

/// Sets the number of slices that a header points to.
#[inline]
pub(crate) fn set_slices(header: &mut msghdr, slices: usize) {
    header.msg_iovlen = slices as _;
}

/// The number of slices that a header points to.
#[inline]
pub(crate) fn slices(header: &msghdr) -> usize {
    header.msg_iovlen as _
}

/// Sets the length of a header's control messages, bytes.
#[inline]
pub(crate) fn set_control_bytes(header: &mut msghdr, bytes: usize) {
    header.msg_controllen = bytes as _;
}

/// The length of a header's control messages, bytes.
#[inline]
pub(crate) fn control_bytes(header: &msghdr) -> usize {
    header.msg_controllen as _
}

/// `recvmmsg(2)` without a timeout.
///
/// # Safety
/// `first` points to `count` headers, and these to memory of the lengths given. All of it is live and exclusively the
/// caller's.
#[inline]
pub(crate) unsafe fn receive_many(socket: RawFd, first: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    let no_timeout = null_mut::<libc::timespec>();
    #[cfg(not(target_env = "musl"))]
    // SAFETY: as the caller says.
    return unsafe { libc::recvmmsg(socket, first, count, flags, no_timeout) };
    #[cfg(target_env = "musl")]
    // SAFETY: as the caller says.
    return unsafe { libc::syscall(libc::SYS_recvmmsg, socket, first, count, flags, no_timeout) } as c_int;
}

/// `sendmmsg(2)` without flags.
///
/// # Safety
/// `first` points to `count` headers, and these to live memory of the lengths given.
#[inline]
pub(crate) unsafe fn send_many(socket: RawFd, first: *mut mmsghdr, count: c_uint) -> c_int {
    #[cfg(not(target_env = "musl"))]
    // SAFETY: as the caller says.
    return unsafe { libc::sendmmsg(socket, first, count, 0) };
    #[cfg(target_env = "musl")]
    // SAFETY: as the caller says.
    return unsafe { libc::syscall(libc::SYS_sendmmsg, socket, first, count, 0) } as c_int;
}

/// `recvmsg(2)`.
///
/// # Safety
/// The header points to memory of the lengths given, which is live and exclusively the caller's.
#[inline]
pub(crate) unsafe fn receive(socket: RawFd, header: *mut msghdr, flags: c_int) -> ssize_t {
    #[cfg(not(target_env = "musl"))]
    // SAFETY: as the caller says.
    return unsafe { libc::recvmsg(socket, header, flags) };
    #[cfg(target_env = "musl")]
    // SAFETY: as the caller says.
    return unsafe { libc::syscall(libc::SYS_recvmsg, socket, header, flags) } as ssize_t;
}

/// `sendmsg(2)` without flags.
///
/// # Safety
/// The header points to live memory of the lengths given.
#[inline]
pub(crate) unsafe fn send(socket: RawFd, header: *const msghdr) -> ssize_t {
    #[cfg(not(target_env = "musl"))]
    // SAFETY: as the caller says.
    return unsafe { libc::sendmsg(socket, header, 0) };
    #[cfg(target_env = "musl")]
    // SAFETY: as the caller says.
    return unsafe { libc::syscall(libc::SYS_sendmsg, socket, header, 0) } as ssize_t;
}
