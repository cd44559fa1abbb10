//! `epoll(7)`, level-triggered: which of these descriptors are ready?

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::ptr::{from_ref, null};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

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
    events: Box<[Event]>,
}

impl Epoll {
    /// An empty set. One wait returns at most `events` keys; `events` is at least 1.
    pub fn new(events: usize) -> io::Result<Self> {
        let none = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
        Ok(Self { fd: epoll::create(CreateFlags::CLOEXEC)?, events: vec![none; events].into() })
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
        let time = time.as_ref().map_or(null(), from_ref);
        let (set, events, room) = (self.fd.as_raw_fd(), self.events.as_mut_ptr(), self.events.len());
        let no_signals = null::<libc::sigset_t>();
        // Rustix makes this call only with a feature by which `wait` would make it, too, and need Linux 5.11.
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
            // Copies, since the fields are not aligned.
            let (flags, data) = (event.flags, event.data);
            Ready {
                key: data.u64(),
                readable: !flags.difference(EventFlags::OUT).is_empty(),
                writable: flags.contains(EventFlags::OUT),
            }
        }))
    }

    /// Waits without a timeout until a descriptor is readable. Returns the keys of the readable descriptors, and no key
    /// after a signal.
    pub fn wait(&mut self) -> io::Result<impl Iterator<Item = u64> + '_> {
        let ready = match epoll::wait(&self.fd, &mut *self.events, None) {
            Ok(ready) => ready,
            Err(Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        Ok(self.events[..ready].iter().map(|event| event.data.u64()))
    }
}
