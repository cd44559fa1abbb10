//! Receiving a batch.

use std::io;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;

use crate::address::{Address, LocalAddress};
use crate::batch::Headers;
use crate::control;
use crate::memory::Block;
use crate::sys::{check, is_not_now};
use crate::udp::{UdpSocket, Wait};

/// Buffers for a number of messages, filled by one `recvmmsg`.
pub struct RecvBatch {
    pub(super) headers: Headers,
    pub(super) buffer: Block<u8>,
    stride: usize,
    bytes_each: usize,
    received: usize,
}

/// One received message. With `UDP_GRO` it may hold several datagrams of equal length; the last may be shorter.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// The bytes, of all segments one after the other. What did not fit the buffer was cut off.
    pub bytes: &'a [u8],
    /// The sender.
    pub from: Address,
    /// The length of every segment but the last; the length of `bytes` when it is one datagram. At least 1.
    pub segment_bytes: usize,
    /// When the kernel took it in, `CLOCK_REALTIME` nanoseconds; with [`crate::UdpOptions::timestamps`].
    pub arrived_ns: Option<u64>,
    /// The address that was asked; with [`crate::UdpOptions::pktinfo`].
    pub to: Option<LocalAddress>,
}

/// A received message and the room behind it, to be worked on in place.
#[derive(Debug)]
pub struct Slot<'a> {
    /// Begins with the message, and is as long as the buffer that it came in. What is behind the message is
    /// left over from others.
    pub buffer: &'a mut [u8],
    /// The length of the message.
    pub bytes: usize,
    /// The sender.
    pub from: &'a Address,
}

/// Buffers lie this far apart beyond their length, so that the starts of large ones, which are touched most,
/// do not all fall into the same few cache sets.
const SKEW_BYTES: usize = 192;

impl RecvBatch {
    /// Allocates buffers for `messages` messages of up to `bytes_each` bytes, both at least 1.
    pub fn new(messages: usize, bytes_each: usize) -> Self {
        let stride = bytes_each.next_multiple_of(64) + SKEW_BYTES;
        let mut headers = Headers::new(messages);
        let buffer = Block::<u8>::new(messages * stride);
        for index in 0..messages {
            let base = buffer.at(index * stride).cast();
            headers.slices[index] = libc::iovec { iov_base: base, iov_len: bytes_each };
            headers.reset(index);
        }
        Self { headers, buffer, stride, bytes_each, received: 0 }
    }

    /// How many messages it has room for.
    pub fn capacity(&self) -> usize {
        self.headers.len()
    }

    /// How many messages the last call received.
    #[inline]
    pub fn messages(&self) -> usize {
        self.received
    }

    /// Receives up to a batch. 0 when there is nothing: the call did not wait, a signal came, or the readers
    /// were woken. Every call forgets the messages of the one before.
    #[inline]
    pub fn recv(&mut self, socket: &UdpSocket, wait: Wait) -> io::Result<usize> {
        for index in 0..self.received {
            self.headers.reset(index);
        }
        self.received = 0;
        let flags = match wait {
            Wait::No => libc::MSG_DONTWAIT,
            Wait::ForOne => libc::MSG_WAITFORONE,
        };
        let count = self.headers.len() as libc::c_uint;
        let first = self.headers.headers.as_mut_ptr();
        // SAFETY: the headers are live and as many as told, and point into blocks that `self` owns, which the
        // mutable borrow makes exclusively ours. No timeout: `recvmmsg` looks at it only between packets.
        let returned = unsafe { libc::recvmmsg(socket.as_raw_fd(), first, count, flags, null_mut()) };
        match check(returned) {
            Ok(received) => self.received = received as usize,
            Err(error) if is_not_now(&error) => {}
            Err(error) => return Err(error),
        }
        // A woken reader that finds nothing gets an empty message from nobody first.
        if self.received > 0 && self.headers.headers[0].msg_hdr.msg_namelen == 0 {
            self.forget_first();
        }
        Ok(self.received)
    }

    /// Forgets the first message. What was received behind it moves up: it came in the meantime.
    #[cold]
    pub(super) fn forget_first(&mut self) {
        for index in 1..self.received {
            let (place, bytes) = (index * self.stride, self.length(index));
            self.buffer.copy_within(place..place + bytes, place - self.stride);
            self.headers.copy_up(index);
        }
        self.received -= 1;
        self.headers.reset(self.received);
    }

    /// One of the received messages, with what the kernel said about it.
    #[inline]
    pub fn message(&self, index: usize) -> Received<'_> {
        let header = &self.headers.headers[index];
        let told = control::read(&self.headers.controls[index].0[..header.msg_hdr.msg_controllen]);
        let bytes = &self.buffer[index * self.stride..][..self.length(index)];
        Received {
            bytes,
            from: self.headers.names[index],
            segment_bytes: told.segment_bytes.map_or(bytes.len(), usize::from).max(1),
            arrived_ns: told.arrived_ns,
            to: told.to,
        }
    }

    /// The bytes of one of the received messages, to be worked on in place.
    #[inline]
    pub fn message_mut(&mut self, index: usize) -> &mut [u8] {
        let length = self.length(index);
        &mut self.buffer[index * self.stride..][..length]
    }

    /// The same with the room behind it.
    #[inline]
    pub fn slot(&mut self, index: usize) -> Slot<'_> {
        let bytes = self.length(index);
        let buffer = &mut self.buffer[index * self.stride..][..self.bytes_each];
        Slot { buffer, bytes, from: &self.headers.names[index] }
    }

    /// How long a message may be.
    #[inline]
    pub(super) fn bytes_each(&self) -> usize {
        self.bytes_each
    }

    #[inline]
    fn length(&self, index: usize) -> usize {
        assert!(index < self.received, "message {index} of {}", self.received);
        (self.headers.headers[index].msg_len as usize).min(self.bytes_each)
    }

    pub(super) fn at(&self, index: usize, offset: usize) -> *mut u8 {
        self.buffer.at(index * self.stride + offset)
    }
}
