//! When a look at a socket is over, beside when the socket is empty. Who sends to a socket faster than it is read would
//! otherwise keep the thread there. A socket is read in the order in which it was filled, so all that it held when the
//! look began was read once something comes that arrived later by the kernel's time, or once as much was read as its
//! buffer can hold: that bounds a look also where a datagram has no time of arrival, or the wall clock was set back.

use std::io;

use kqps_kernel::udp::UdpSocket;

/// What the kernel books a message with at least: its own records of it (`SKB_TRUESIZE(0)`, 576 bytes on 64 bits).
const MESSAGE_BYTES_LEAST: usize = 512;

/// Each core may put one more into a buffer that is full.
const MESSAGES_BEYOND: usize = 1024;

/// A look at one socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    began_ns: u64,
    /// Messages that may be left of those that were there when it began.
    left: usize,
}

impl Look {
    /// Begins at `began_ns`, on a socket whose buffer holds `most` messages at most.
    #[inline]
    pub(super) fn begin(began_ns: u64, most: usize) -> Self {
        Self { began_ns, left: most }
    }

    /// So many messages were read, the last of which arrived at `last_ns`. Tells whether all was read that was there when
    /// the look began.
    #[inline]
    pub(super) fn has_read_all(&mut self, messages: usize, last_ns: u64) -> bool {
        self.left = if last_ns > self.began_ns { 0 } else { self.left.saturating_sub(messages) };
        self.is_over()
    }

    /// Whether all was read that was there when it began.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.left == 0
    }
}

/// How many messages the fullest of these sockets can hold.
pub(super) fn messages_most(sockets: &[UdpSocket]) -> io::Result<usize> {
    let mut most = 0;
    for socket in sockets {
        most = most.max(socket.recv_buffer()?.div_ceil(MESSAGE_BYTES_LEAST));
    }
    Ok(most + MESSAGES_BEYOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_ends_with_what_arrived_after_it_began() {
        let mut look = Look::begin(1_000, 100);
        assert!(!look.has_read_all(64, 900));
        assert!(!look.has_read_all(1, 1_000), "as it began");
        assert!(look.has_read_all(1, 1_001));
        assert!(look.has_read_all(1, 900) && look.is_over(), "for good");
    }

    #[test]
    fn without_a_time_it_ends_with_as_much_as_the_buffer_held() {
        let mut look = Look::begin(1_000, 100);
        assert!(!look.has_read_all(64, 1_000));
        assert!(!look.has_read_all(35, 1_000));
        assert!(look.has_read_all(64, 1_000));
    }
}
