//! Signals that end a program, taken as bytes on a descriptor instead of in a handler.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::null_mut;

use crate::sys::check;

/// Becomes readable when SIGINT, SIGTERM or SIGHUP was sent to this process.
#[derive(Debug)]
pub struct EndSignals(OwnedFd);

impl EndSignals {
    /// Takes these signals from now on. To be called before any other thread is started: threads inherit
    /// that the signals are blocked, and one that does not block them would end the process.
    pub fn take() -> io::Result<Self> {
        // SAFETY: a signal set is an array of integers.
        let mut set: libc::sigset_t = unsafe { zeroed() };
        // SAFETY: the set is live, and the numbers are signals; the mask is that of the calling thread.
        unsafe {
            libc::sigemptyset(&raw mut set);
            for number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::sigaddset(&raw mut set, number);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, null_mut());
        }
        // SAFETY: the set is live; -1 asks for a new descriptor.
        let fd = check(unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC) })?;
        // SAFETY: the descriptor was just opened, and nobody else knows it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }
}

impl AsRawFd for EndSignals {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
