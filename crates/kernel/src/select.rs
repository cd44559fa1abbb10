//! `select(2)`: which of these descriptors are readable? It accepts only descriptors below 1024.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::null_mut;

use crate::sys::{check, is_not_now};

/// A set of descriptors for repeated calls of `select`.
pub struct SelectSet {
    watched: libc::fd_set,
    ready: libc::fd_set,
    descriptors: Vec<RawFd>,
    beyond: RawFd,
}

impl SelectSet {
    /// Watches these descriptors for reading. Their order gives their index, and they must stay open while
    /// they are watched. Fails for descriptors from `FD_SETSIZE` (1024) on, which do not fit into the set.
    pub fn new<'a, F: AsRawFd + 'a>(descriptors: impl IntoIterator<Item = &'a F>) -> io::Result<Self> {
        let descriptors: Vec<RawFd> = descriptors.into_iter().map(AsRawFd::as_raw_fd).collect();
        // SAFETY: a set is an array of integers, and zeros are the empty set.
        let mut watched: libc::fd_set = unsafe { zeroed() };
        for &fd in &descriptors {
            if !(0..libc::FD_SETSIZE as RawFd).contains(&fd) {
                let why =
                    format!("select takes descriptors below {}, and this is number {fd}", libc::FD_SETSIZE);
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
            // SAFETY: the number was checked to lie within the set.
            unsafe { libc::FD_SET(fd, &raw mut watched) };
        }
        let beyond = descriptors.iter().max().map_or(0, |fd| fd + 1);
        Ok(Self { watched, ready: watched, descriptors, beyond })
    }

    /// Waits without a timeout until one is readable. Returns false after a signal.
    pub fn wait(&mut self) -> io::Result<bool> {
        self.ready = self.watched;
        // SAFETY: the set is live and exclusively ours; there are no other sets and no timeout.
        let returned =
            unsafe { libc::select(self.beyond, &raw mut self.ready, null_mut(), null_mut(), null_mut()) };
        match check(returned) {
            Ok(ready) => Ok(ready > 0),
            Err(error) if is_not_now(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether the last wait, if it returned true, found this descriptor readable. Panics if `index` is out
    /// of range.
    #[inline]
    pub fn is_ready(&self, index: usize) -> bool {
        // SAFETY: `new` admitted only numbers that lie within the set.
        unsafe { libc::FD_ISSET(self.descriptors[index], &raw const self.ready) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::{Peer, UdpOptions, UdpSocket};

    #[test]
    fn descriptors_beyond_the_set_are_refused() {
        assert!(SelectSet::new(&[1023]).is_ok());
        let refused = SelectSet::new(&[3, 1024]).err().unwrap();
        assert_eq!(refused.to_string(), "select takes descriptors below 1024, and this is number 1024");
    }

    #[test]
    fn select_and_epoll_find_the_one_that_was_written_to() {
        let bind = || UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
        let (one, two) = (bind(), bind());
        one.send(b"x", &Peer { address: two.local_addr().unwrap().into(), asked: None }).unwrap();

        let mut select = SelectSet::new([&one, &two]).unwrap();
        assert!(select.wait().unwrap());
        assert_eq!((select.is_ready(0), select.is_ready(1)), (false, true));

        let mut epoll = crate::epoll::Epoll::new(8).unwrap();
        epoll.add(&one, 10).unwrap();
        epoll.add(&two, 20).unwrap();
        assert_eq!(epoll.wait().unwrap().collect::<Vec<_>>(), [20]);
    }
}
