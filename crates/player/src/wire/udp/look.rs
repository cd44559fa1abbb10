//! A bound on each look at a socket. If another program sends to a socket faster than the player reads it, the socket
//! never becomes empty and the thread would stay there. A socket returns datagrams in the order of their arrival. So a
//! look is over when it reads a datagram that arrived, by the kernel's time, after the look began. It is also over once
//! it has read as many messages as the buffer can hold. The second rule applies if a datagram has no time of arrival or
//! the wall clock was set back.

use std::io;

use kqps_kernel::udp::UdpSocket;

/// The least that the kernel accounts for a message, bytes: its own records (`SKB_TRUESIZE(0)`, 576 bytes on 64 bits).
const MESSAGE_BYTES_LEAST: usize = 512;

/// Each core may add one more message to a full buffer.
const MESSAGES_BEYOND: usize = 1024;

#[derive(Clone, Copy, Debug)]
pub(in crate::wire) struct Look {
    began_ns: u64,
    /// The most messages that may remain of those that were there when the look began.
    left: usize,
}

impl Look {
    /// Begins at `began_ns`, on a socket whose buffer holds at most `most` messages.
    #[inline]
    pub(in crate::wire) fn begin(began_ns: u64, most: usize) -> Self {
        Self { began_ns, left: most }
    }

    /// Records that `messages` messages were read, the last of which arrived at `last_ns`. Returns whether all messages
    /// that were there when the look began have been read.
    #[inline]
    pub(in crate::wire) fn has_read_all(&mut self, messages: usize, last_ns: u64) -> bool {
        self.left = if last_ns > self.began_ns { 0 } else { self.left.saturating_sub(messages) };
        self.is_over()
    }

    /// Whether all messages that were there when the look began have been read.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.left == 0
    }
}

/// The most messages that any of these sockets can hold. Fails if the kernel does not return a buffer's size.
pub(in crate::wire) fn messages_most<'a>(
    sockets: impl IntoIterator<Item = &'a UdpSocket>,
) -> io::Result<usize> {
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
