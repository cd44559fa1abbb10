//! Signals to a server, taken as bytes on a descriptor instead of in a handler.

use std::fs::File;
use std::io::{self, Read as _};
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{null, null_mut};

use crate::process::Signal;
use crate::sys::check;

/// Becomes readable when SIGINT or SIGTERM was sent to this process, or SIGHUP where that is told.
#[derive(Debug)]
pub struct Signals(File);

impl Signals {
    /// Takes these signals from now on. Without `hang_ups` SIGHUP is not told, and does nothing. To be called before
    /// any other thread is started: threads and child processes inherit that the signals are blocked, and one that
    /// does not block them would end the process.
    pub fn take(hang_ups: bool) -> io::Result<Self> {
        // SAFETY: a signal set is an array of integers.
        let mut set: libc::sigset_t = unsafe { zeroed() };
        // SAFETY: the set is live, and the numbers are signals; the mask is that of the calling thread.
        unsafe {
            libc::sigemptyset(&raw mut set);
            for number in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::sigaddset(&raw mut set, number);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, null_mut());
            if !hang_ups {
                libc::sigdelset(&raw mut set, libc::SIGHUP);
            }
        }
        // SAFETY: the set is live; -1 asks for a new descriptor.
        let fd =
            check(unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) })?;
        // SAFETY: the descriptor was just opened, and nobody else knows it.
        Ok(Self(File::from(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// The next signal that was sent, if there is one. Several of one kind may have become one.
    pub fn read(&self) -> io::Result<Option<Signal>> {
        let mut told = [0; size_of::<libc::signalfd_siginfo>()];
        match (&self.0).read(&mut told) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
        // The number comes first (signalfd(2)).
        Ok(Some(match i32::from_ne_bytes([told[0], told[1], told[2], told[3]]) {
            libc::SIGHUP => Signal::HangUp,
            libc::SIGINT => Signal::Interrupt,
            _ => Signal::Terminate,
        }))
    }
}

impl AsRawFd for Signals {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Whether SIGHUP is ignored, as in a program that was started by nohup(1). One that blocks a signal and reads it is
/// told of it all the same.
pub fn ignores_hang_ups() -> io::Result<bool> {
    // SAFETY: an action is integers and a pointer that may be null.
    let mut action: libc::sigaction = unsafe { zeroed() };
    // SAFETY: no new action is given, and the place for the present one is live.
    check(unsafe { libc::sigaction(libc::SIGHUP, null(), &raw mut action) })?;
    Ok(action.sa_sigaction == libc::SIG_IGN)
}
