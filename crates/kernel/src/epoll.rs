//! `epoll(7)`, level-triggered: which of these descriptors are readable?

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::sys::{check, is_not_now};

/// A set of descriptors that the kernel watches, each under a key of the caller's.
pub struct Epoll {
    fd: OwnedFd,
    events: Box<[libc::epoll_event]>,
}

impl Epoll {
    /// An empty set. One wait returns at most `events` keys; `events` is at least 1.
    pub fn new(events: usize) -> io::Result<Self> {
        // SAFETY: the call touches no memory.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor was just opened, and nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd, events: vec![libc::epoll_event { events: 0, u64: 0 }; events].into() })
    }

    /// Watches a descriptor for reading until it is closed.
    pub fn add(&self, descriptor: &impl AsRawFd, key: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: key };
        let (set, fd) = (self.fd.as_raw_fd(), descriptor.as_raw_fd());
        // SAFETY: the event is live; the kernel only reads it.
        check(unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, fd, &raw mut event) }).map(drop)
    }

    /// Waits without a timeout until a descriptor is readable. Returns the keys of the readable descriptors, and no key
    /// after a signal.
    pub fn wait(&mut self) -> io::Result<impl Iterator<Item = u64> + '_> {
        let room = self.events.len() as libc::c_int;
        // SAFETY: the events are live and exclusively ours, and `room` is their number.
        let returned = unsafe { libc::epoll_wait(self.fd.as_raw_fd(), self.events.as_mut_ptr(), room, -1) };
        let ready = match check(returned) {
            Ok(ready) => ready as usize,
            Err(error) if is_not_now(&error) => 0,
            Err(error) => return Err(error),
        };
        Ok(self.events[..ready].iter().map(|event| event.u64))
    }
}
