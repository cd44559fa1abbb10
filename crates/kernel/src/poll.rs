//! `ppoll(2)`: which of these sockets are readable?

use std::io;
use std::os::fd::AsRawFd;
use std::ptr::null;

use rustix::time::Timespec;

use crate::sys::{check, is_not_now, timespec};

/// A timeout that never expires.
pub const FOREVER_NS: u64 = u64::MAX;

/// A set of descriptors for repeated polling.
#[derive(Debug)]
pub struct PollSet(Vec<libc::pollfd>);

impl PollSet {
    /// Watches these descriptors for reading. Their order gives their index, and they must stay open while
    /// they are polled.
    pub fn new<'a, F: AsRawFd + 'a>(descriptors: impl IntoIterator<Item = &'a F>) -> Self {
        Self(descriptors.into_iter().map(readable).collect())
    }

    /// Waits until at least one is readable. Returns false after `timeout_ns` nanoseconds or a signal.
    pub fn wait(&mut self, timeout_ns: u64) -> io::Result<bool> {
        poll(&mut self.0, timeout_ns)
    }

    /// Whether the last wait found this descriptor readable, closed or broken: reading it does not block.
    /// Panics if `index` is out of range.
    #[inline]
    pub fn is_ready(&self, index: usize) -> bool {
        self.0[index].revents != 0
    }
}

fn readable<F: AsRawFd>(descriptor: &F) -> libc::pollfd {
    libc::pollfd { fd: descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 }
}

/// Waits until one of these sockets is readable. Returns false after `timeout_ns` nanoseconds or a signal.
/// Up to 64 sockets need no allocation.
pub fn wait_any<F: AsRawFd>(sockets: &[&F], timeout_ns: u64) -> io::Result<bool> {
    const FEW: usize = 64;
    if sockets.len() > FEW {
        return PollSet::new(sockets.iter().copied()).wait(timeout_ns);
    }
    let mut few = [libc::pollfd { fd: -1, events: 0, revents: 0 }; FEW];
    for (entry, socket) in few.iter_mut().zip(sockets) {
        *entry = readable(*socket);
    }
    poll(&mut few[..sockets.len()], timeout_ns)
}

fn poll(entries: &mut [libc::pollfd], timeout_ns: u64) -> io::Result<bool> {
    let Timespec { tv_sec, tv_nsec } = timespec(timeout_ns);
    let timeout = libc::timespec { tv_sec, tv_nsec };
    let timeout = if timeout_ns == FOREVER_NS { null() } else { &raw const timeout };
    // SAFETY: the entries are live and their number is given; the timeout is null or live; there is no
    // signal mask.
    let returned =
        unsafe { libc::ppoll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, timeout, null()) };
    match check(returned) {
        Ok(ready) => Ok(ready > 0),
        Err(error) if is_not_now(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::{Peer, UdpOptions, UdpSocket};

    #[test]
    fn the_one_that_was_written_to_is_ready() {
        let bind = || UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
        let (one, two) = (bind(), bind());
        assert!(!wait_any(&[&one, &two], 0).unwrap());
        let peer = Peer { address: two.local_addr().unwrap().into(), asked: None };
        one.send(b"x", &peer).unwrap();
        assert!(wait_any(&[&one, &two], FOREVER_NS).unwrap());

        let mut set = PollSet::new([&one, &two]);
        assert!(set.wait(FOREVER_NS).unwrap());
        assert!(!set.is_ready(0));
        assert!(set.is_ready(1));
        assert!(!one.wait_readable(1000).unwrap());
    }
}
