//! Signals to a server, read from a descriptor instead of handled (signalfd(2)).

use std::fs::File;
use std::io::{self, Read as _};
use std::mem::zeroed;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::{null, null_mut};

use crate::process::Signal;
use crate::sys::{check, owned};

/// Becomes readable when this process receives SIGINT, SIGTERM or, if requested, SIGHUP.
#[derive(Debug)]
pub struct Signals(File);

impl Signals {
    /// Blocks these signals and reads them from now on. Without `hang_ups`, SIGHUP is blocked but not reported. Call
    /// it before starting other threads: threads and child processes inherit the blocked signals, and a thread that
    /// did not block them would end the process on arrival.
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
        // SAFETY: the set is live; -1 requests a new descriptor.
        let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        owned(fd.into()).map(|fd| Self(fd.into()))
    }

    /// The next pending signal, if any. The kernel may merge several signals of one kind.
    pub fn read(&self) -> io::Result<Option<Signal>> {
        let mut info = [0; size_of::<libc::signalfd_siginfo>()];
        match (&self.0).read(&mut info) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
        // The number comes first (signalfd(2)).
        Ok(Some(match i32::from_ne_bytes([info[0], info[1], info[2], info[3]]) {
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

/// Whether SIGHUP is ignored, as in a program started by nohup(1). A process that blocks a signal and reads it
/// receives it even if the signal is ignored.
pub fn ignores_hang_ups() -> io::Result<bool> {
    // SAFETY: an action is integers and a pointer that may be null.
    let mut action: libc::sigaction = unsafe { zeroed() };
    // SAFETY: no new action is given, and the memory for the current one is live.
    check(unsafe { libc::sigaction(libc::SIGHUP, null(), &raw mut action) })?;
    Ok(action.sa_sigaction == libc::SIG_IGN)
}
