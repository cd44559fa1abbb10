//! `io_uring` for sending: a whole batch of messages in one submission.

use std::io;
use std::os::fd::AsRawFd as _;

use io_uring::types::Fd;
use io_uring::{IoUring, opcode};

use crate::batch::SendBatch;
use crate::udp::UdpSocket;

/// A ring that sends, and waits until the kernel has taken or refused every message.
pub struct SendRing {
    /// `None` after a failure: pending entries point to a batch that was given up, and their completions would be taken
    /// for those of a later batch.
    ring: Option<IoUring>,
}

impl SendRing {
    /// Makes a ring for batches of up to `messages` messages.
    pub fn new(messages: u32) -> io::Result<Self> {
        Ok(Self { ring: Some(IoUring::builder().setup_coop_taskrun().build(messages)?) })
    }

    /// Sends all messages of a batch. Replaces `outcomes` with the outcome of each message, in order. If the call
    /// itself fails, it closes the ring, which then sends nothing more, and discards the messages. The batch continues
    /// in new memory. The old memory is never freed, since the kernel may still read it.
    pub fn send(
        &mut self,
        batch: &mut SendBatch,
        socket: &UdpSocket,
        outcomes: &mut Vec<io::Result<()>>,
    ) -> io::Result<()> {
        outcomes.clear();
        outcomes.extend((0..batch.messages()).map(|_| Err(io::ErrorKind::WouldBlock.into())));
        self.send_rest(batch, socket, outcomes)
    }

    /// Sends again those messages of a batch for which the socket had no room: those whose outcome in `outcomes` is
    /// "would block". Fails as [`Self::send`] does.
    pub fn send_rest(
        &mut self,
        batch: &mut SendBatch,
        socket: &UdpSocket,
        outcomes: &mut [io::Result<()>],
    ) -> io::Result<()> {
        let Some(ring) = &mut self.ring else {
            return Err(io::Error::other("the ring was closed after a failure"));
        };
        let sent = submit(ring, batch, socket, outcomes).and_then(|count| finish(ring, count, outcomes));
        if sent.is_err() {
            // Entries that were not submitted vanish with the ring. Closing it cancels pending operations but does not
            // wait for that, so the kernel may read the batch's memory for an unknown time.
            self.ring = None;
            batch.leak();
        }
        sent
    }
}

/// Queues the messages for which there was no room. Returns their number.
fn submit(
    ring: &mut IoUring,
    batch: &SendBatch,
    socket: &UdpSocket,
    outcomes: &mut [io::Result<()>],
) -> io::Result<usize> {
    let mut count = 0;
    for (index, (header, outcome)) in batch.headers().zip(outcomes.iter_mut()).enumerate() {
        if !had_no_room(outcome) {
            continue;
        }
        // Without the flag, the ring and with it the thread would wait for room, for an unlimited time.
        let entry = opcode::SendMsg::new(Fd(socket.as_raw_fd()), header)
            .flags(libc::MSG_DONTWAIT as u32)
            .build()
            .user_data(index as u64);
        // SAFETY: the header and what it points to belong to the batch. `send_rest` borrows it mutably until every
        // message has its completion. After a failure, `send_rest` makes this memory unreachable and never frees it.
        unsafe { ring.submission().push(&entry) }.map_err(io::Error::other)?;
        *outcome = Ok(());
        count += 1;
    }
    Ok(count)
}

/// Submits the queued messages, and waits until all are completed.
fn finish(ring: &mut IoUring, count: usize, outcomes: &mut [io::Result<()>]) -> io::Result<()> {
    let mut done = 0;
    while done < count {
        match ring.submit_and_wait(count - done) {
            Err(error) if !matches!(error.raw_os_error(), Some(libc::EINTR | libc::EBUSY)) => {
                return Err(error);
            }
            _ => (),
        }
        for entry in ring.completion() {
            done += 1;
            if entry.result() < 0 {
                let error = io::Error::from_raw_os_error(-entry.result());
                outcomes[entry.user_data() as usize] = Err(error);
            }
        }
    }
    Ok(())
}

/// Whether a message was not sent because the socket had no room.
#[inline]
pub fn had_no_room(outcome: &io::Result<()>) -> bool {
    matches!(outcome, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use kqps_skips::{Capability, skip};

    use super::*;
    use crate::udp::{Peer, UdpOptions, Wait};

    /// A ring that is not enabled yet, which refuses submissions.
    fn failing() -> io::Result<SendRing> {
        Ok(SendRing { ring: Some(IoUring::builder().setup_r_disabled().build(8)?) })
    }

    #[test]
    fn a_ring_that_failed_sends_nothing_more() {
        let Ok(mut ring) = failing() else {
            skip(Capability::Uring, "this kernel offers no io_uring");
            return;
        };
        let bind = || UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
        let (from, to) = (bind(), bind());
        let mut outcomes = Vec::new();
        // A closed ring does not touch the batch.
        for (expected, messages_left) in [(Some(libc::EBADFD), 0), (None, 1)] {
            let mut batch = SendBatch::new(8, 64);
            batch.add(&to.local_addr().unwrap().into(), 3, None).copy_from_slice(b"one");
            let error = ring.send(&mut batch, &from, &mut outcomes).unwrap_err();
            assert_eq!(error.raw_os_error(), expected, "{error}");
            assert!(ring.ring.is_none(), "nothing is left that points to the batch");
            assert_eq!(batch.messages(), messages_left);
        }
    }

    #[test]
    fn no_later_batch_uses_the_memory_of_one_that_failed() {
        let Ok(mut ring) = failing() else {
            skip(Capability::Uring, "this kernel offers no io_uring");
            return;
        };
        let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
        let target = socket.local_addr().unwrap().into();
        let with_a_message = |mut batch: SendBatch| {
            batch.add(&target, 3, None).copy_from_slice(b"one");
            batch
        };
        let mut batch = with_a_message(SendBatch::new(8, 64));
        let leaked = batch.headers().next();
        assert!(ring.send(&mut batch, &socket, &mut Vec::new()).is_err());
        let mut later = vec![with_a_message(batch)];
        later.extend((0..64).map(|_| with_a_message(SendBatch::new(8, 64))));
        assert!(later.iter().all(|batch| batch.headers().next() != leaked));
    }

    #[test]
    fn a_batch_that_is_larger_than_the_ring_is_refused() {
        let Ok(mut ring) = SendRing::new(1) else {
            skip(Capability::Uring, "this kernel offers no io_uring");
            return;
        };
        let socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
        let mut batch = SendBatch::new(2, 64);
        for _ in 0..2 {
            batch.add(&socket.local_addr().unwrap().into(), 3, None).copy_from_slice(b"two");
        }
        assert!(ring.send(&mut batch, &socket, &mut Vec::new()).is_err());
        assert_eq!(socket.recv(&mut [0; 8], &mut Peer::default(), Wait::No).unwrap(), None);
    }

    #[test]
    fn a_batch_leaves_whole_and_a_refused_message_is_reported() {
        let Ok(mut ring) = SendRing::new(8) else {
            skip(Capability::Uring, "this kernel offers no io_uring");
            return;
        };
        let bind = || UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
        let (from, to) = (bind(), bind());
        let mut batch = SendBatch::new(8, 1 << 18);
        let target = to.local_addr().unwrap().into();
        batch.add(&target, 3, None).copy_from_slice(b"one");
        // A byte more than an IPv4 datagram holds (RFC 791: 65,535 less both headers).
        batch.add(&target, 65_508, None).fill(0);
        batch.add(&target, 5, None).copy_from_slice(b"three");
        let mut outcomes = Vec::new();
        ring.send(&mut batch, &from, &mut outcomes).unwrap();
        let errors: Vec<Option<i32>> =
            outcomes.iter().map(|outcome| outcome.as_ref().err().and_then(io::Error::raw_os_error)).collect();
        assert_eq!(errors, [None, Some(libc::EMSGSIZE), None]);
        for expected in [b"one".as_slice(), b"three"] {
            let mut buffer = [0; 16];
            let bytes = to.recv(&mut buffer, &mut Peer::default(), Wait::ForOne).unwrap().unwrap();
            assert_eq!(&buffer[..bytes], expected);
        }
        // Only the second of these outcomes means "no room".
        outcomes = vec![Ok(()), Err(io::ErrorKind::WouldBlock.into()), Err(io::ErrorKind::Other.into())];
        let mut batch = SendBatch::new(8, 64);
        for text in [b"1", b"2", b"3"] {
            batch.add(&target, 1, None).copy_from_slice(text);
        }
        ring.send_rest(&mut batch, &from, &mut outcomes).unwrap();
        assert!(outcomes[1].is_ok() && outcomes[2].is_err());
        let (mut buffer, mut peer) = ([0; 16], Peer::default());
        assert_eq!(to.recv(&mut buffer, &mut peer, Wait::ForOne).unwrap(), Some(1));
        assert_eq!(buffer[0], b'2');
        assert_eq!(to.recv(&mut buffer, &mut peer, Wait::No).unwrap(), None);
    }
}
