//! `epoll(7)`, level-triggered: which of these descriptors are ready?

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::sys::{check, is_not_now, timespec};

/// The size of the kernel's signal set in bytes, which `epoll_pwait2` asks for even without one.
const SIGNAL_SET_BYTES: usize = 8;

/// The events that a descriptor is watched for. Errors and the end of the peer's direction count as readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Nothing but its end: an error, or the end of both directions.
    End,
    /// Something to read.
    Read,
    /// Something to read, or room to write.
    Both,
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Self::End => EventFlags::empty(),
            Self::Read => EventFlags::IN,
            Self::Both => EventFlags::IN | EventFlags::OUT,
        }
    }
}

/// A descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The caller's key.
    pub key: u64,
    /// Whether there is something to read: bytes, the end, or an error.
    pub readable: bool,
    /// Whether there is room to write.
    pub writable: bool,
}

/// A set of descriptors that the kernel watches, each under a key of the caller's.
pub struct Epoll {
    fd: OwnedFd,
    events: Box<[libc::epoll_event]>,
}

impl Epoll {
    /// An empty set. One wait returns at most `events` keys; `events` is at least 1.
    pub fn new(events: usize) -> io::Result<Self> {
        let fd = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { fd, events: vec![libc::epoll_event { events: 0, u64: 0 }; events].into() })
    }

    /// Watches a descriptor for reading until it is closed.
    pub fn add(&self, descriptor: &impl AsFd, key: u64) -> io::Result<()> {
        self.watch(descriptor, key, Interest::Read)
    }

    /// Watches a descriptor until it is closed.
    pub fn watch(&self, descriptor: &impl AsFd, key: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.fd, descriptor, EventData::new_u64(key), interest.flags())?)
    }

    /// Changes what a watched descriptor is watched for.
    pub fn change(&self, descriptor: &impl AsFd, key: u64, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.fd, descriptor, EventData::new_u64(key), interest.flags())?)
    }

    /// Waits for `most_ns` nanoseconds at most, or without a limit, until a descriptor is ready. Returns the
    /// descriptors that are ready, in no order; none after a signal, or if the time is over. Needs Linux 5.11
    /// (`epoll_pwait2`).
    pub fn wait_for(
        &mut self,
        most_ns: Option<u64>,
    ) -> io::Result<impl ExactSizeIterator<Item = Ready> + '_> {
        let time = most_ns.map(timespec);
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let room = self.events.len() as libc::c_int;
        let (set, events) = (self.fd.as_raw_fd(), self.events.as_mut_ptr());
        let no_signals = std::ptr::null::<libc::sigset_t>();
        // SAFETY: the events are live and exclusively ours, and `room` is their number; the time is live or null, and
        // the kernel only reads it.
        let returned = unsafe {
            libc::syscall(libc::SYS_epoll_pwait2, set, events, room, time, no_signals, SIGNAL_SET_BYTES)
        };
        let ready = match check(returned as libc::c_int) {
            Ok(ready) => ready as usize,
            Err(error) if is_not_now(&error) => 0,
            Err(error) => return Err(error),
        };
        Ok(self.events[..ready].iter().map(|event| {
            let events = event.events as libc::c_int;
            Ready {
                key: event.u64,
                readable: events & !libc::EPOLLOUT != 0,
                writable: events & libc::EPOLLOUT != 0,
            }
        }))
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
