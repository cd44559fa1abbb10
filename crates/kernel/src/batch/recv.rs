//! Receiving a batch of messages.

use std::io;
use std::os::fd::AsRawFd;

use crate::address::{Address, LocalAddress};
use crate::batch::Headers;
use crate::cmsg;
use crate::headers;
use crate::memory::Block;
use crate::sys::{check, is_not_now};
use crate::udp::{UdpSocket, Wait};

/// Buffers for a fixed number of messages, which one `recvmmsg` fills.
pub struct RecvBatch {
    pub(super) headers: Headers,
    pub(super) buffer: Block<u8>,
    stride: usize,
    bytes_each: usize,
    received: usize,
}

/// A received message. With `UDP_GRO` it may hold several datagrams of equal length; the last may be shorter.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// The bytes of all segments, one after the other, cut off at the length of the buffer.
    pub bytes: &'a [u8],
    /// The address of the sender.
    pub from: Address,
    /// The length of every segment but the last, at least 1 byte. If the message is one datagram, the length of
    /// `bytes`.
    pub segment_bytes: usize,
    /// When the kernel received the message, in nanoseconds of `CLOCK_REALTIME`. `None` without
    /// [`crate::UdpOptions::timestamps`].
    pub arrived_ns: Option<u64>,
    /// The address to which the message was sent. `None` without [`crate::UdpOptions::pktinfo`].
    pub to: Option<LocalAddress>,
}

/// A received message and the free space behind it, for changing the message in place.
#[derive(Debug)]
pub struct Slot<'a> {
    /// The whole buffer, which begins with the message. The bytes behind the message are left over from earlier
    /// messages.
    pub buffer: &'a mut [u8],
    /// The length of the message in bytes.
    pub bytes: usize,
    /// The address of the sender.
    pub from: &'a Address,
}

/// Extra bytes between two buffers. Without them, the beginnings of large buffers, which are used most, would
/// share a few cache sets.
const SKEW_BYTES: usize = 192;

impl RecvBatch {
    /// Allocates buffers for `messages` messages of up to `bytes_each` bytes. Both must be at least 1.
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

    /// The number of messages that one call can receive.
    pub fn capacity(&self) -> usize {
        self.headers.len()
    }

    /// The number of messages that the last call received.
    #[inline]
    pub fn messages(&self) -> usize {
        self.received
    }

    /// Receives up to [`Self::capacity`] messages and returns how many. 0 if there are none: the call did not
    /// wait, a signal arrived, or the readers were woken. Every call discards the messages of the previous
    /// call.
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
        // SAFETY: the headers are live, `count` is their number, and they point into blocks that `self` owns;
        // the mutable borrow makes this use exclusive. There is no timeout, which `recvmmsg` would check only
        // between packets.
        let returned = unsafe { headers::receive_many(socket.as_raw_fd(), first, count, flags) };
        match check(returned) {
            Ok(received) => self.received = received as usize,
            Err(error) if is_not_now(&error) => {}
            Err(error) => return Err(error),
        }
        // A woken reader that finds nothing first receives an empty message without a sender.
        if self.received > 0 && self.headers.headers[0].msg_hdr.msg_namelen == 0 {
            self.forget_first();
        }
        Ok(self.received)
    }

    /// Removes the first message. Messages behind it, which arrived in the meantime, move up.
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

    /// A received message with the kernel's data about it. Panics if `index` is not below [`Self::messages`].
    #[inline]
    pub fn message(&self, index: usize) -> Received<'_> {
        let header = &self.headers.headers[index];
        let control = cmsg::read(&self.headers.controls[index].0[..headers::control_bytes(&header.msg_hdr)]);
        let bytes = &self.buffer[index * self.stride..][..self.length(index)];
        Received {
            bytes,
            from: self.headers.names[index],
            segment_bytes: control.segment_bytes.map_or(bytes.len(), usize::from).max(1),
            arrived_ns: control.arrived_ns,
            to: control.to,
        }
    }

    /// The bytes of a received message, for changing them in place. Panics if `index` is not below
    /// [`Self::messages`].
    #[inline]
    pub fn message_mut(&mut self, index: usize) -> &mut [u8] {
        let length = self.length(index);
        &mut self.buffer[index * self.stride..][..length]
    }

    /// A received message with the free space behind it. Panics if `index` is not below [`Self::messages`].
    #[inline]
    pub fn slot(&mut self, index: usize) -> Slot<'_> {
        let bytes = self.length(index);
        let buffer = &mut self.buffer[index * self.stride..][..self.bytes_each];
        Slot { buffer, bytes, from: &self.headers.names[index] }
    }

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
